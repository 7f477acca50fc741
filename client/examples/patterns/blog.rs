//! The blog of the first paper about the Table service, with three choices of partition key.
//!
//! Authors post to channels, and readers open a channel to see its latest posts. This is the most frequent query, so it
//! determines the partition key. The program runs the same three queries on each design, and every design returns the
//! same results.
//!
//! | partition key | row key | the partition is |
//! |---|---|---|
//! | channel | inverted time, author | a channel: suits readers, but a busy channel grows forever |
//! | author | inverted time, channel | an author: no channel can be too busy, but every reader must query all authors |
//! | channel and month | inverted time, author | a channel in a month: partitions stay small, and old months do not grow |

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::entity::{Inverted, KeyFormat};
use rowhouse_client::{DateTime, Entity, Table};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{posted:inverted}_{author}")]
struct PostByChannel {
    #[entity(partition_key)]
    channel: String,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
    text: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{posted:inverted}_{channel}")]
struct PostByAuthor {
    #[entity(partition_key)]
    author: String,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    channel: String,
    text: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "{channel}_{month}", row_key = "{posted:inverted}_{author}")]
struct PostByMonth {
    #[entity(stored)]
    channel: String,
    month: String,
    #[entity(stored)]
    posted: DateTime,
    #[entity(stored)]
    author: String,
    text: String,
}

/// A post, independent of the design.
#[derive(Clone)]
struct Post {
    channel: String,
    author: String,
    posted: DateTime,
    month: String,
}

/// The time and the author of a post. All queries return these, newest first.
type Line = (DateTime, String);

/// Returns the time this many hours after the start of 2031.
fn hours(hours: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + hours * 3600))
}

/// Returns the posts of twenty authors to four channels: a post every two hours, for 150 days.
fn posts() -> Vec<Post> {
    let post = |number: u64| {
        let posted = hours(number * 2);
        let month = posted.to_string().chars().take(7).collect();
        Post {
            channel: format!("channel{}", number / 20 % 4),
            author: format!("author{:02}", number % 20),
            posted,
            month,
        }
    };
    (0..1800).map(post).collect()
}

/// Writes the posts, grouped by partition. Returns the number of posts in the largest partition.
async fn write<E: Entity>(table: &Table, make: impl Fn(Post) -> E) -> Result<usize> {
    let mut partitions = BTreeMap::<String, Vec<E>>::new();
    for post in posts().into_iter().map(make) {
        partitions.entry(post.key()?.partition.as_str().to_owned()).or_default().push(post);
    }
    for posts in partitions.values() {
        fill(table, posts).await?;
    }
    Ok(partitions.values().map(Vec::len).max().unwrap_or_default())
}

/// Returns the range of row keys for posts in a time range. Inverted times sort in reverse, so the end comes first. One
/// tick is subtracted because the end is exclusive.
fn rows(from: DateTime, to: DateTime) -> Result<Range<String>> {
    let text = |at: DateTime| -> Result<String> {
        let mut text = String::new();
        Inverted::write(&DateTime::from_ticks(at.ticks() - 1).ok_or("too early")?, &mut text)?;
        Ok(text)
    };
    Ok(text(to)?..text(from)?)
}

fn newest_first(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|one, other| other.cmp(one));
    lines
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("blog").await?;
    let authors: Vec<String> = (0..20).map(|number| format!("author{number:02}")).collect();
    let (march, april) = (hours(59 * 24), hours(90 * 24));
    let march_rows = rows(march, april)?;
    let march_rows = march_rows.start.as_str()..march_rows.end.as_str();

    let table = pattern.table("bychannel").await?;
    let make = |Post { channel, author, posted, .. }| PostByChannel { channel, posted, author, text: "…".into() };
    assert_eq!(write(&table, make).await?, 460, "posts of the largest channel");
    let channel = || table.query::<PostByChannel>().partition("channel2");
    let query = channel().take(10).select(|p| (p.posted, p.author)).collect();
    let cost = requests(1).examined(11).returned(10);
    let latest = pattern.step("by channel: its latest ten", cost, query).await?;
    let query = table.query::<PostByChannel>().filter(|p| p.author.eq("author07")).select(|p| (p.posted, p.author));
    let cost = requests(1).examined(1800).returned(90);
    let by_author = newest_first(pattern.step("by channel: all posts of an author", cost, query.collect()).await?);
    let query = channel().rows(march_rows.clone()).select(|p| (p.posted, p.author)).collect();
    let cost = requests(1).examined(80).returned(80);
    let of_march = pattern.step("by channel: all of March", cost, query).await?;

    let table = pattern.table("byauthor").await?;
    let make = |Post { channel, author, posted, .. }| PostByAuthor { author, posted, channel, text: "…".into() };
    assert_eq!(write(&table, make).await?, 90, "posts of each author");
    let ask_all = async |rows: Option<Range<&str>>, most: u64| {
        let mut lines = Vec::new();
        for author in &authors {
            let query = table.query::<PostByAuthor>().partition(author).filter(|p| p.channel.eq("channel2")).take(most);
            let query = match &rows {
                Some(rows) => query.rows(rows.clone()),
                None => query,
            };
            lines.extend(query.select(|p| (p.posted, p.author)).collect().await?);
        }
        Result::Ok(newest_first(lines))
    };
    let cost = requests(20).examined(880).returned(200);
    let mut lines = pattern.step("by author: the latest ten of a channel", cost, ask_all(None, 10)).await?;
    lines.truncate(10);
    assert_eq!(lines, latest);
    let query = table.query::<PostByAuthor>().partition("author07").select(|p| (p.posted, p.author)).collect();
    let cost = requests(1).examined(90).returned(90);
    assert_eq!(pattern.step("by author: all posts of an author", cost, query).await?, by_author);
    let cost = requests(20).examined(372).returned(80);
    let lines = pattern.step("by author: all of a channel in March", cost, ask_all(Some(march_rows), 1000)).await?;
    assert_eq!(lines, of_march);

    let table = pattern.table("bymonth").await?;
    let make =
        |Post { channel, author, posted, month }| PostByMonth { channel, month, posted, author, text: "…".into() };
    assert_eq!(write(&table, make).await?, 100, "posts of the largest channel in a month");
    let month = |month: &str| table.query::<PostByMonth>().partition(&format!("channel2_{month}"));
    // The program starts with the latest month and continues with earlier months until it has found ten posts.
    let query = month("2031-05").take(10).select(|p| (p.posted, p.author)).collect();
    let cost = requests(1).examined(11).returned(10);
    assert_eq!(pattern.step("by channel and month: its latest ten", cost, query).await?, latest);
    let query = table.query::<PostByMonth>().filter(|p| p.author.eq("author07")).select(|p| (p.posted, p.author));
    let cost = requests(1).examined(1800).returned(90);
    let lines = pattern.step("by channel and month: all posts of an author", cost, query.collect()).await?;
    assert_eq!(newest_first(lines), by_author);
    let query = month("2031-03").select(|p| (p.posted, p.author)).collect();
    let cost = requests(1).examined(80).returned(80);
    assert_eq!(pattern.step("by channel and month: all of March", cost, query).await?, of_march);

    pattern.finish().await
}
