//! Micro-blogging with three choices of partition key: the channel, the single message, and the channel in a week.
//!
//! Readers open a channel to see its latest messages. The program runs the same queries on each design, and all designs
//! return the same results.
//!
//! | partition key | row key | a partition is |
//! |---|---|---|
//! | channel | inverted time, author | a channel: every query has one range, but a busy channel grows forever |
//! | channel, inverted time, author | constant | a message: the load spreads best, but there are no transactions |
//! | channel and week | inverted time, author | a channel in a week: partitions stay small, and old ones do not grow |

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::entity::{Inverted, KeyFormat};
use rowhouse_client::{DateTime, Entity, Table};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{posted:inverted}_{author}")]
struct ByChannel {
    #[entity(partition_key)]
    channel: String,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{channel}_{posted:inverted}_{author}", row_key = "message")]
struct Single {
    channel: String,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{channel}_{week:04}", row_key = "{posted:inverted}_{author}")]
struct ByWeek {
    channel: String,
    /// The number of weeks since the start of 2031.
    week: u32,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
}

/// The time and the author of a message.
type Line = (DateTime, String);

const HOURS_PER_WEEK: u64 = 7 * 24;

/// Returns the time this many hours after the start of 2031.
fn hours(hours: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + hours * 3600))
}

fn week(hour: u64) -> u32 {
    u32::try_from(hour / HOURS_PER_WEEK).unwrap_or(u32::MAX)
}

/// Returns the channel, the hour and the author of each message. Twenty authors post to four channels every two hours
/// for 150 days.
fn messages() -> impl Iterator<Item = (String, u64, String)> {
    (0..1800).map(|number| (format!("channel{}", number / 20 % 4), number * 2, format!("author{:02}", number % 20)))
}

fn more() -> impl Iterator<Item = (String, u64, String)> {
    (3600..3610).map(|hour| ("channel2".to_owned(), hour, "author07".to_owned()))
}

/// Returns the number of messages in the largest partition.
async fn write<E: Entity>(table: &Table, messages: impl Iterator<Item = E>) -> Result<usize> {
    let mut partitions = BTreeMap::<String, Vec<E>>::new();
    for message in messages {
        partitions.entry(message.key()?.partition.as_str().to_owned()).or_default().push(message);
    }
    for messages in partitions.values() {
        fill(table, messages).await?;
    }
    Ok(partitions.values().map(Vec::len).max().unwrap_or_default())
}

/// Returns the key range of the messages with the given prefix in a time range. Inverted times sort in reverse, so the
/// end comes first. One tick is subtracted because the end is exclusive.
fn keys(prefix: &str, from: DateTime, to: DateTime) -> Result<Range<String>> {
    let text = |at: DateTime| -> Result<String> {
        let mut text = prefix.to_owned();
        Inverted::write(&DateTime::from_ticks(at.ticks() - 1).ok_or("too early")?, &mut text)?;
        Ok(text)
    };
    Ok(text(to)?..text(from)?)
}

fn newest_first(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|one, other| other.cmp(one));
    lines
}

#[derive(Debug, PartialEq)]
struct Answers {
    latest: Vec<Line>,
    of_march: Vec<Line>,
    of_author: Vec<Line>,
}

/// The hours at which March begins and ends.
const MARCH: Range<u64> = 59 * 24..90 * 24;

async fn by_channel(pattern: &mut Pattern) -> Result<Answers> {
    let table = pattern.table("bychannel").await?;
    let make = |(channel, hour, author)| ByChannel { channel, posted: hours(hour), author };
    assert_eq!(write(&table, messages().map(make)).await?, 460, "messages of the largest channel");
    let channel = || table.query::<ByChannel>().partition("channel2");

    let query = channel().take(10).select(|m| (m.posted, m.author)).collect();
    let latest = pattern.step("channel: its latest ten", requests(1).examined(11).returned(10), query).await?;
    let march = keys("", hours(MARCH.start), hours(MARCH.end))?;
    let query = channel().rows(march.start.as_str()..march.end.as_str()).select(|m| (m.posted, m.author)).collect();
    let of_march = pattern.step("channel: all of March", requests(1).examined(80).returned(80), query).await?;
    let query = table.query::<ByChannel>().filter(|m| m.author.eq("author07")).select(|m| (m.posted, m.author));
    let cost = requests(1).examined(1800).returned(90);
    let of_author = newest_first(pattern.step("channel: all of an author", cost, query.collect()).await?);
    pattern.step("channel: post ten", requests(1).written(10), write(&table, more().map(make))).await?;
    Ok(Answers { latest, of_march, of_author })
}

async fn by_message(pattern: &mut Pattern) -> Result<Answers> {
    let table = pattern.table("bymessage").await?;
    let make = |(channel, hour, author)| Single { channel, posted: hours(hour), author };
    assert_eq!(write(&table, messages().map(make)).await?, 1);

    // A range of partitions. In the cloud, it may span several servers, and a page ends at each of them.
    let query = table.query::<Single>().partition_prefix("channel2_").take(10).select(|m| (m.posted, m.author));
    let cost = requests(1).examined(11).returned(10);
    let latest = pattern.step("message: the latest ten of a channel", cost, query.collect()).await?;
    let march = keys("channel2_", hours(MARCH.start), hours(MARCH.end))?;
    let query = table.query::<Single>().partitions(march.start.as_str()..march.end.as_str());
    let cost = requests(1).examined(80).returned(80);
    let query = query.select(|m| (m.posted, m.author)).collect();
    let of_march = pattern.step("message: all of a channel in March", cost, query).await?;
    let query = table.query::<Single>().filter(|m| m.author.eq("author07")).select(|m| (m.posted, m.author));
    let cost = requests(1).examined(1800).returned(90);
    let of_author = newest_first(pattern.step("message: all of an author", cost, query.collect()).await?);
    pattern.step("message: post ten", requests(10).written(10), write(&table, more().map(make))).await?;
    Ok(Answers { latest, of_march, of_author })
}

async fn by_week(pattern: &mut Pattern) -> Result<Answers> {
    let table = pattern.table("byweek").await?;
    let make = |(channel, hour, author)| ByWeek { channel, week: week(hour), posted: hours(hour), author };
    assert_eq!(write(&table, messages().map(make)).await?, 24, "messages of the busiest channel in a week");
    let in_week = |week: u32| table.query::<ByWeek>().partition(&format!("channel2_{week:04}"));

    // The program starts with the current week and continues with earlier ones until it has found ten messages.
    let search = async {
        let mut lines: Vec<Line> = Vec::new();
        for week in (0..=week(3599)).rev() {
            let missing = 10 - lines.len() as u64;
            lines.extend(in_week(week).take(missing).select(|m| (m.posted, m.author)).collect().await?);
            if lines.len() == 10 {
                break;
            }
        }
        Result::Ok(lines)
    };
    let cost = requests(2).examined(11).returned(10);
    let latest = pattern.step("week: the latest ten of a channel", cost, search).await?;
    let march = keys("", hours(MARCH.start), hours(MARCH.end))?;
    let search = async {
        let mut lines: Vec<Line> = Vec::new();
        for week in (week(MARCH.start)..=week(MARCH.end - 1)).rev() {
            let query = in_week(week).rows(march.start.as_str()..march.end.as_str());
            lines.extend(query.select(|m| (m.posted, m.author)).collect().await?);
        }
        Result::Ok(lines)
    };
    let cost = requests(5).examined(80).returned(80);
    let of_march = pattern.step("week: all of a channel in March", cost, search).await?;
    let query = table.query::<ByWeek>().filter(|m| m.author.eq("author07")).select(|m| (m.posted, m.author));
    let cost = requests(1).examined(1800).returned(90);
    let of_author = newest_first(pattern.step("week: all of an author", cost, query.collect()).await?);
    pattern.step("week: post ten", requests(1).written(10), write(&table, more().map(make))).await?;
    Ok(Answers { latest, of_march, of_author })
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("micro_blog_partitions").await?;
    let answers = by_channel(&mut pattern).await?;
    assert_eq!(by_message(&mut pattern).await?, answers);
    assert_eq!(by_week(&mut pattern).await?, answers);
    pattern.finish().await
}
