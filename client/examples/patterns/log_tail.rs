//! Log tail: the newest entities first.
//!
//! A table is read from its start, and no query returns its last entities. The row key is therefore the time subtracted
//! from the maximum time. The newest event sorts first, and the latest ten events are at the start of the partition,
//! whatever its size.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{DateTime, Entity};
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
struct Event {
    #[entity(partition_key)]
    device: String,
    #[entity(row_key, inverted)]
    at: DateTime,
    text: String,
}

/// The same event with a key in chronological order, for comparison.
#[derive(Entity, Debug, Clone, PartialEq)]
struct ForwardEvent {
    #[entity(partition_key)]
    device: String,
    #[entity(row_key)]
    at: DateTime,
    text: String,
}

fn at(minute: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_932_768_000 + minute * 60))
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("log_tail").await?;
    let (forward, events) = (pattern.table("forward").await?, pattern.table("events").await?);
    let device = || "pump3".to_owned();
    let all: Vec<_> =
        (0..500).map(|minute| Event { device: device(), at: at(minute), text: format!("{minute}") }).collect();
    fill(&events, &all).await?;
    let all: Vec<_> =
        (0..500).map(|minute| ForwardEvent { device: device(), at: at(minute), text: format!("{minute}") }).collect();
    fill(&forward, &all).await?;

    let read = forward.query::<ForwardEvent>().partition("pump3").collect();
    let cost = requests(1).examined(500).returned(500);
    let all = pattern.step("the latest ten events, in the order of time", cost, read).await?;
    let latest: Vec<&str> = all.iter().rev().take(10).map(|event| event.text.as_str()).collect();

    // The service examines one more entity to determine whether there are more results.
    let read = events.query::<Event>().partition("pump3").take(10).collect();
    let cost = requests(1).examined(11).returned(10);
    let tail = pattern.step("the latest ten events, in inverted order", cost, read).await?;
    assert_eq!(tail.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), latest);

    // Comparisons of an inverted key are reversed automatically, so they compare the actual times.
    let read = events.query::<Event>().partition("pump3").filter(|e| e.at.gt(at(460))).collect();
    let cost = requests(1).examined(39).returned(39);
    let since = pattern.step("everything since minute 460", cost, read).await?;
    assert_eq!(since.last().map(|event| event.text.as_str()), Some("461"));

    // Two events at the same moment would have the same key. If this can happen, add a distinguishing part after the
    // time.
    pattern.finish().await
}
