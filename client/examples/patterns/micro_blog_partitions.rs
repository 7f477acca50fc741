//! Micro-blogging with four choices of partition key: the channel, the single message, the channel in a week, and the
//! channel in a week of the season or in a month of the off-season.
//!
//! Readers open a channel to see its latest messages. The program runs the same queries on each design, and all designs
//! return the same results.
//!
//! | partition key | row key | a partition is |
//! |---|---|---|
//! | channel | inverted time, author | a channel: every query has one range, but a busy channel grows forever |
//! | channel, inverted time, author | constant | a message: the load spreads best, but there are no transactions |
//! | channel and week | inverted time, author | a channel in a week: partitions stay small, and old ones do not grow |
//! | channel and period | inverted time, author | as large as the load of its time requires, and quiet times need few |

use crate::support::{Pattern, Result, fill, inverted_range, requests};
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
#[entity(partition_key = "{channel}_{period:04}", row_key = "{posted:inverted}_{author}")]
struct ByPeriod {
    channel: String,
    /// The first day of the period, counted from the start of 2031. It sorts by time even if periods have different
    /// lengths.
    period: u64,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
}

/// The time and the author of a message.
type Line = (DateTime, String);

/// Returns the time this many hours after the start of 2031.
fn hours(hours: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + hours * 3600))
}

/// Returns the first day of the period that contains the given day. The rule may change for periods that have not
/// begun.
type Rule = fn(u64) -> u64;

fn week(day: u64) -> u64 {
    day / 7 * 7
}

/// The season begins in March. Before it, a period is a month.
fn season(day: u64) -> u64 {
    match day {
        0..31 => 0,
        31..59 => 31,
        _ => 59 + week(day - 59),
    }
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

/// The days on which February and March begin, and on which March ends.
const FEBRUARY: u64 = 31;
const MARCH: u64 = 59;
const APRIL: u64 = 90;
const LAST: u64 = 149;

async fn by_channel(pattern: &mut Pattern) -> Result<Answers> {
    let table = pattern.table("bychannel").await?;
    let make = |(channel, hour, author)| ByChannel { channel, posted: hours(hour), author };
    assert_eq!(write(&table, messages().map(make)).await?, 460, "messages of the largest channel");
    let channel = || table.query::<ByChannel>().partition("channel2");

    let query = channel().take(10).select(|m| (m.posted, m.author)).collect();
    let latest = pattern.step("channel: its latest ten", requests(1).examined(11).returned(10), query).await?;
    let march = inverted_range("", hours(MARCH * 24), hours(APRIL * 24))?;
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
    let march = inverted_range("channel2_", hours(MARCH * 24), hours(APRIL * 24))?;
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

/// Returns the messages of a channel from one day up to, but not including, another, newest first, until there are
/// `count_max`. Reads one period after the other.
async fn search(table: &Table, rule: Rule, days: Range<u64>, count_max: usize) -> Result<Vec<Line>> {
    let rows = inverted_range("", hours(days.start * 24), hours(days.end * 24))?;
    let (mut lines, mut end) = (Vec::new(), days.end);
    while end > days.start && lines.len() < count_max {
        let period = rule(end - 1);
        let query = table.query::<ByPeriod>().partition(&format!("channel2_{period:04}"));
        let query = query.rows(rows.start.as_str()..rows.end.as_str()).take((count_max - lines.len()) as u64);
        lines.extend(query.select(|m| (m.posted, m.author)).collect().await?);
        end = period;
    }
    Ok(lines)
}

async fn by_period(pattern: &mut Pattern, name: &str, rule: Rule, largest: usize, costs: [u64; 3]) -> Result<Answers> {
    let table = pattern.table(&format!("by{name}")).await?;
    let make = |(channel, hour, author)| ByPeriod { channel, period: rule(hour / 24), posted: hours(hour), author };
    assert_eq!(write(&table, messages().map(make)).await?, largest, "messages of the largest partition");
    let [of_latest, of_february, of_march] = costs.map(requests);

    // The program starts with the current period and continues with earlier ones until it has found ten messages.
    let work = search(&table, rule, 0..LAST + 1, 10);
    let cost = of_latest.examined(11).returned(10);
    let latest = pattern.step(&format!("{name}: the latest ten of a channel"), cost, work).await?;
    let work = search(&table, rule, FEBRUARY..MARCH, usize::MAX);
    let cost = of_february.examined(88).returned(88);
    pattern.step(&format!("{name}: all of a channel in February"), cost, work).await?;
    let work = search(&table, rule, MARCH..APRIL, usize::MAX);
    let cost = of_march.examined(80).returned(80);
    let of_march = pattern.step(&format!("{name}: all of a channel in March"), cost, work).await?;
    let query = table.query::<ByPeriod>().filter(|m| m.author.eq("author07")).select(|m| (m.posted, m.author));
    let cost = requests(1).examined(1800).returned(90);
    let of_author = pattern.step(&format!("{name}: all of an author"), cost, query.collect()).await?;
    let cost = requests(1).written(10);
    pattern.step(&format!("{name}: post ten"), cost, write(&table, more().map(make))).await?;
    Ok(Answers { latest, of_march, of_author: newest_first(of_author) })
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("micro_blog_partitions").await?;
    let answers = by_channel(&mut pattern).await?;
    assert_eq!(by_message(&mut pattern).await?, answers);
    assert_eq!(by_period(&mut pattern, "week", week, 24, [2, 5, 5]).await?, answers);
    assert_eq!(by_period(&mut pattern, "season", season, 100, [1, 1, 5]).await?, answers);
    pattern.finish().await
}
