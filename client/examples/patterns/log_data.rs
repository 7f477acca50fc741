//! The log data anti-pattern and its solution.
//!
//! Logs are written all the time, but rarely read, and then queried by time. If the partition key is the hour, all
//! writers use the same partition. If it is the source, a query for a time range examines the whole table. The solution
//! combines both: the partition key consists of the hour and one of a few shards, chosen by the source. A reader
//! queries all shards of an hour concurrently. Each month has its own table, which is deleted when it is no longer
//! needed. Store very large logs in files instead; a table can then contain an entity for each file, with its source,
//! first and last time, and URL.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, PropertyBag, Table};

const SHARDS: u32 = 4;

/// All lines of an hour in one partition.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{time}_{source:04}")]
struct LineByHour {
    #[entity(partition_key)]
    hour: String,
    time: String,
    source: u32,
    level: String,
}

/// All lines of a source in one partition.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{source:04}", row_key = "{hour}_{time}")]
struct LineBySource {
    source: u32,
    hour: String,
    time: String,
    level: String,
}

/// The solution.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{hour}_{shard:02}", row_key = "{time}_{source:04}")]
struct Line {
    hour: String,
    shard: u32,
    time: String,
    source: u32,
    level: String,
}

async fn errors(log: &Table, hour: &str, minutes: std::ops::Range<&'static str>) -> Result<usize> {
    let mut queries = tokio::task::JoinSet::new();
    for shard in 0..SHARDS {
        let query = log.query::<PropertyBag>().partition(&format!("{hour}_{shard:02}")).rows(minutes.clone());
        queries.spawn(query.filter(|p| p.property::<String>("level").eq("error")).collect());
    }
    let mut found = 0;
    while let Some(shard) = queries.join_next().await {
        found += shard??.len();
    }
    Ok(found)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("log_data").await?;
    let hour = "2031-04-01T15";
    // Twelve sources write a line in each minute of an hour. Every fourth minute, the third source has an error.
    let minutes_of = |source: u32| (0..60_u32).map(move |minute| (source, minute));
    let lines: Vec<(u32, u32)> = (0..12).flat_map(minutes_of).collect();
    let level = |source: u32, minute: u32| if source == 3 && minute.is_multiple_of(4) { "error" } else { "info" };
    let time = |minute: u32| format!("{minute:02}m");

    let by_hour = pattern.table("byhour").await?;
    let line = |&(source, minute): &(u32, u32)| LineByHour {
        hour: hour.into(),
        time: time(minute),
        source,
        level: level(source, minute).into(),
    };
    let all: Vec<_> = lines.iter().map(line).collect();
    pattern
        .step("write an hour, by hour: all into one partition", requests(8).written(720), fill(&by_hour, &all))
        .await?;

    let by_source = pattern.table("bysource").await?;
    let line = |&(source, minute): &(u32, u32)| LineBySource {
        source,
        hour: hour.into(),
        time: time(minute),
        level: level(source, minute).into(),
    };
    let all: Vec<_> = lines.iter().map(line).collect();
    pattern.step("write an hour, by source", requests(12).written(720), fill(&by_source, &all)).await?;

    let log = pattern.table("log203104").await?;
    let line = |&(source, minute): &(u32, u32)| Line {
        hour: hour.into(),
        shard: source % SHARDS,
        time: time(minute),
        source,
        level: level(source, minute).into(),
    };
    let mut all: Vec<_> = lines.iter().map(line).collect();
    all.sort_by_key(|line| line.shard);
    pattern.step("write an hour, by hour and shard", requests(8).written(720), fill(&log, &all)).await?;

    let read =
        by_hour.query::<LineByHour>().partition(hour).rows("04m".."06m").filter(|l| l.level.eq("error")).collect();
    let cost = requests(1).examined(24).returned(1);
    pattern.step("errors of two minutes, by hour", cost, read).await?;

    // The key does not start with the time, so every entity is examined.
    let read =
        by_source.query::<LineBySource>().filter(|l| l.row_key.in_range("2031-04-01T15_04m".."2031-04-01T15_06m"));
    let read = read.filter(|l| l.level.eq("error")).collect();
    let cost = requests(1).examined(720).returned(1);
    pattern.step("errors of two minutes, by source", cost, read).await?;

    let cost = requests(4).examined(24).returned(1);
    let found =
        pattern.step("errors of two minutes, by hour and shard", cost, errors(&log, hour, "04m".."06m")).await?;
    assert_eq!(found, 1);

    pattern.step("delete the month", requests(1), log.delete_table()).await?;
    pattern.finish().await
}
