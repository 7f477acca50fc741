//! The prepend and append anti-pattern, in which all current writes go to one partition, and its solution.
//!
//! If the partition key is the time, all current events go to one partition. A service keeps a partition on one
//! machine, and the cloud limits it to 2,000 entities per second, while the other partitions are idle. The solution is
//! to start the partition key with something else, such as the ID of a device or a number computed from that ID. A
//! program must then query a time range separately for each prefix, so use only as many prefixes as the load requires.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, PropertyBag, Table};
use std::collections::BTreeMap;

/// The number of partitions that share the events of an hour.
const BUCKETS: u32 = 8;

/// The anti-pattern.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{second:04}_{device:04}")]
struct EventByTime {
    #[entity(partition_key)]
    hour: String,
    second: u32,
    device: u32,
    reading: i32,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{bucket:02}_{hour}", row_key = "{second:04}_{device:04}")]
struct Event {
    bucket: u32,
    hour: String,
    second: u32,
    device: u32,
    reading: i32,
}

fn busiest<E: Entity>(events: &[E]) -> Result<usize> {
    let mut partitions = BTreeMap::<String, usize>::new();
    for event in events {
        *partitions.entry(event.key()?.partition.as_str().to_owned()).or_default() += 1;
    }
    Ok(partitions.into_values().max().unwrap_or_default())
}

/// Counts readings with a concurrent query for each bucket.
async fn readings(events: &Table, hour: &str, seconds: std::ops::Range<&'static str>) -> Result<usize> {
    let mut queries = tokio::task::JoinSet::new();
    for bucket in 0..BUCKETS {
        let query = events.query::<PropertyBag>().partition(&format!("{bucket:02}_{hour}")).rows(seconds.clone());
        queries.spawn(query.collect());
    }
    let mut found = 0;
    while let Some(bucket) = queries.join_next().await {
        found += bucket??.len();
    }
    Ok(found)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("prepend_append").await?;
    let (hot, spread) = (pattern.table("hot").await?, pattern.table("spread").await?);
    let hour = "2031-04-01T09";
    // Eighty devices with ten readings each.
    let readings_of = |second: u32| (0..80_u32).map(move |device| (second, device));
    let mut all: Vec<(u32, u32)> = (0..10).flat_map(readings_of).collect();

    let by_time = |&(second, device): &(u32, u32)| EventByTime { hour: hour.into(), second, device, reading: 5 };
    let by_time: Vec<EventByTime> = all.iter().map(by_time).collect();
    pattern.step("write 800 events of an hour, by time", requests(8).written(800), fill(&hot, &by_time)).await?;
    assert_eq!(busiest(&by_time)?, 800);

    all.sort_by_key(|(second, device)| (device % BUCKETS, *second));
    let by_device = |&(second, device): &(u32, u32)| Event {
        bucket: device % BUCKETS,
        hour: hour.into(),
        second,
        device,
        reading: 5,
    };
    let by_device: Vec<Event> = all.iter().map(by_device).collect();
    pattern.step("write them to eight buckets", requests(8).written(800), fill(&spread, &by_device)).await?;
    assert_eq!(busiest(&by_device)?, 100);

    let read = hot.query::<EventByTime>().partition(hour).rows("0003".."0005").collect();
    let cost = requests(1).examined(160).returned(160);
    pattern.step("read two seconds, by time", cost, read).await?;

    let cost = requests(8).examined(160).returned(160);
    let found = pattern.step("read them from eight buckets", cost, readings(&spread, hour, "0003".."0005")).await?;
    assert_eq!(found, 160);

    let device =
        spread.query::<Event>().partition("05_2031-04-01T09").filter(|e| e.row_key.starts_with("0003")).collect();
    let cost = requests(1).examined(10).returned(10);
    pattern.step("read a second of the devices of one bucket", cost, device).await?;

    pattern.finish().await
}
