//! Micro-blogging: the running example of the paper about the Table service, from an empty account to a deleted
//! channel.
//!
//! A channel is an entity in one table, and its messages are a partition in another table, newest first. The program
//! reads messages page by page, and changes them while other clients do the same. It also deletes a channel with all
//! its messages, although a transaction covers at most a hundred entities of one table.

use crate::support::{Pattern, Result, fill, refused, requests};
use rowhouse_client::{Continuation, DateTime, Entity, ErrorKind, IfMatch, PropertyBag, Table, Transaction};
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "channel")]
struct Channel {
    #[entity(partition_key)]
    name: String,
    owner: String,
    /// The marker of a deletion. It is set first and disappears with the channel, so that an interrupted deletion can
    /// be found and continued.
    is_deleting: bool,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{posted:inverted}_{author}")]
struct Message {
    #[entity(partition_key)]
    channel: String,
    posted: DateTime,
    author: String,
    text: String,
    rating: Option<i32>,
}

fn message(minute: u64) -> Message {
    let posted = SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + minute * 60);
    Message {
        channel: "rust".into(),
        posted: DateTime::from_system_time(posted),
        author: format!("author{}", minute % 7),
        text: format!("message {minute}"),
        rating: None,
    }
}

fn row(minute: u64) -> Result<String> {
    Ok(message(minute).key()?.row.as_str().to_owned())
}

async fn post(channels: &Table, messages: &Table, message: &Message) -> Result<bool> {
    let channel = channels.find::<Channel>(&message.channel, "channel").await?;
    if channel.is_none_or(|channel| channel.is_deleting) {
        return Ok(false);
    }
    messages.insert(message).await?;
    Ok(true)
}

/// Starts over if another client changes the message in the meantime.
async fn rate(messages: &Table, row: &str, rating: i32) -> Result {
    loop {
        let mut message = messages.get::<Message>("rust", row).await?;
        message.rating = Some(rating);
        match messages.replace(&message, &message).await {
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Deletes a channel and its messages, but stops after `transactions_max` transactions. Any client can continue it,
/// even concurrently. Returns whether the deletion is complete.
async fn delete_channel(channels: &Table, messages: &Table, name: &str, transactions_max: usize) -> Result<bool> {
    let marker = PropertyBag::from_key(Channel::key_of(name)?).with("is_deleting", true)?;
    match channels.merge(&marker, IfMatch::Any).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        result => drop(result?),
    }
    for _ in 0..transactions_max {
        let rows = messages.query::<Message>().partition(name).take(100).select(|m| m.row_key).collect().await?;
        if rows.is_empty() {
            channels.delete_if_exists(name, "channel", IfMatch::Any).await?;
            return Ok(true);
        }
        delete_messages(messages, name, &rows).await?;
    }
    Ok(false)
}

/// Deletes messages, or none of them if another client has already deleted one.
async fn delete_messages(messages: &Table, channel: &str, rows: &[String]) -> Result<bool> {
    let transaction = rows.iter().fold(Transaction::new(), |all, row| all.delete(channel, row, IfMatch::Any));
    match messages.commit(transaction).await {
        // The next query returns only the remaining messages.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("micro_blog").await?;
    let (channels, messages) = (pattern.table("channels").await?, pattern.table("messages").await?);
    write_and_read(&mut pattern, &channels, &messages).await?;
    change(&mut pattern, &messages).await?;
    delete(&mut pattern, &channels, &messages).await?;
    pattern.finish().await
}

async fn write_and_read(pattern: &mut Pattern, channels: &Table, messages: &Table) -> Result {
    let channel = |name: &str| Channel { name: name.into(), owner: "ada".into(), is_deleting: false };
    let (rust, tables) = (channel("rust"), channel("tables"));
    pattern.step("create a channel", requests(1).written(1), channels.insert(&rust)).await?;
    let error = pattern.step("create it again", requests(1), refused(channels.insert(&rust))).await?;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    channels.insert(&tables).await?;

    let first = message(0);
    let cost = requests(2).examined(1).returned(1).written(1);
    assert!(pattern.step("post a message, if the channel exists", cost, post(channels, messages, &first)).await?);
    let more: Vec<_> = (1..250).map(message).collect();
    pattern.step("post 249 messages in transactions", requests(3).written(249), fill(messages, &more)).await?;

    let query = || messages.query::<Message>().partition("rust").page_size(10);
    // The service may end a page early, even without a message, so one page of the site can take several requests.
    let read = async {
        let (mut pages, mut latest, mut next) = (query().take(10).pages(), Vec::new(), None);
        while let Some(page) = pages.next().await {
            let page = page?;
            latest.extend(page.items);
            next = page.next;
        }
        Result::Ok((latest, next))
    };
    let cost = requests(1).examined(11).returned(10);
    let (latest, next) = pattern.step("read the ten latest messages", cost, read).await?;
    assert_eq!(latest.last().map(|message| message.text.as_str()), Some("message 240"));

    // A web page has the token in its link to older messages.
    let link: String = next.ok_or("there is no next page")?.to_string();
    let read = async { Result::Ok(query().resume(link.parse::<Continuation>()?).take(10).collect().await?) };
    let cost = requests(1).examined(11).returned(10);
    let older = pattern.step("follow the link to the next ten", cost, read).await?;
    assert_eq!(older.first().map(|message| message.text.as_str()), Some("message 239"));

    let read = messages.query::<Message>().partition("rust").page_size(100).collect();
    let cost = requests(3).examined(252).returned(250);
    assert_eq!(pattern.step("read all, in pages of a hundred", cost, read).await?.len(), 250);
    Ok(())
}

async fn change(pattern: &mut Pattern, messages: &Table) -> Result {
    let row_7 = row(7)?;
    let mut outdated = messages.get::<Message>("rust", &row_7).await?;
    let cost = requests(2).examined(1).returned(1).written(1);
    pattern.step("rate a message", cost, rate(messages, &row_7, 3)).await?;
    outdated.rating = Some(5);
    let replaced = refused(messages.replace(&outdated, &outdated));
    let error = pattern.step("rate an outdated version", requests(1), replaced).await?;
    assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    pattern.step("read it again and repeat", cost, rate(messages, &row_7, 5)).await?;

    // A moderator has the last word, regardless of what is stored. A merge does not change the rating.
    let moderated = Message { text: "(removed)".into(), ..message(7) };
    let merged = messages.merge(&moderated, IfMatch::Any);
    pattern.step("merge with any version, without a rating", requests(1).written(1), merged).await?;
    let stored = messages.get::<Message>("rust", &row_7).await?;
    assert_eq!((stored.text.as_str(), stored.rating), ("(removed)", Some(5)));
    let replaced = messages.replace(&moderated, IfMatch::Any);
    pattern.step("replace any version, without a rating", requests(1).written(1), replaced).await?;
    assert_eq!(messages.get::<Message>("rust", &row_7).await?.rating, None, "replacing deletes a property");

    let read = messages.get::<Message>("rust", &row(8)?).await?;
    let mixed = Transaction::new()
        .insert(&message(250))
        .replace(&Message { text: "corrected".into(), ..message(8) }, &read)
        .merge(&Message { rating: Some(1), ..message(9) }, IfMatch::Any)
        .insert_or_merge(&Message { rating: Some(2), ..message(10) })
        .delete("rust", &row(11)?, IfMatch::Any);
    pattern.step("five kinds of writes in one transaction", requests(1).written(5), messages.commit(mixed)).await?;
    let failing = Transaction::new().insert(&message(251)).replace(&message(8), &read);
    let error =
        pattern.step("a transaction with an old version", requests(1), refused(messages.commit(failing))).await?;
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::PreconditionFailed, Some(1)));
    assert!(messages.find::<Message>("rust", &row(251)?).await?.is_none(), "nothing of it is executed");
    Ok(())
}

async fn delete(pattern: &mut Pattern, channels: &Table, messages: &Table) -> Result {
    let deleted = delete_channel(channels, messages, "rust", 1);
    let cost = requests(3).examined(101).returned(100).written(101);
    assert!(!pattern.step("delete the channel: a client stops early", cost, deleted).await?);
    let late = message(300);
    let cost = requests(1).examined(1).returned(1);
    assert!(!pattern.step("post to the channel", cost, post(channels, messages, &late)).await?);

    let interrupted = channels.query::<Channel>().filter(|c| c.is_deleting.eq(true)).select(|c| c.name).collect();
    let cost = requests(1).examined(2).returned(1);
    let interrupted = pattern.step("find interrupted deletions", cost, interrupted).await?;
    assert_eq!(interrupted, ["rust"]);

    // Two clients continue. Both read the same page, and one of them deletes it first.
    let rows = messages.query::<Message>().partition("rust").take(100).select(|m| m.row_key).collect().await?;
    let fast: Vec<String> = rows.iter().take(10).cloned().collect();
    assert!(delete_messages(messages, "rust", &fast).await?);
    let slow = delete_messages(messages, "rust", &rows);
    assert!(!pattern.step("delete a page that another client has begun", requests(1), slow).await?);

    let deleted = delete_channel(channels, messages, "rust", usize::MAX);
    let cost = requests(7).examined(141).returned(140).written(142);
    assert!(pattern.step("continue until the channel is deleted", cost, deleted).await?);
    let deleted = delete_channel(channels, messages, "rust", usize::MAX);
    assert!(pattern.step("delete it again", requests(1), deleted).await?);
    Ok(())
}
