//! Upgrade and versioning: properties are added, removed and retyped while old and new programs use the same table.
//!
//! A table has no schema, so each program has its own. Adding a property takes one step if old programs merge and new
//! ones have a default. Removing or retyping a property takes two phases, because old programs cannot read the result.
//! In the first phase, every program learns to read both shapes but writes the old one. In the second phase, programs
//! write the new one. The property `version` identifies the shape of an entity. A query for old versions finds the
//! entities that are still to be converted.

use crate::support::{Pattern, Result, fill, refused, requests};
use rowhouse_client::{DateTime, Entity, ErrorKind, Stored, Table, Transaction};
use std::time::{Duration, SystemTime};

/// A message as the first program defines it. It has a version from the beginning.
#[derive(Entity, Debug, Clone, PartialEq)]
struct First {
    #[entity(partition_key)]
    channel: String,
    #[entity(row_key, padded = 6)]
    number: u32,
    version: i32,
    text: String,
    language: String,
    posted: String,
}

/// Phase one: `rating` is new, `language` may be missing, and `posted` may be replaced by `posted_at`, which has a
/// different type and therefore a different name. The program writes an existing entity in the shape in which it was
/// read, and a new entity in the old shape.
#[derive(Entity, Debug, Clone, PartialEq)]
struct Second {
    #[entity(partition_key)]
    channel: String,
    #[entity(row_key, padded = 6)]
    number: u32,
    version: i32,
    text: String,
    #[entity(default)]
    rating: i32,
    language: Option<String>,
    posted: Option<String>,
    posted_at: Option<DateTime>,
}

/// Phase two: the program reads both shapes and writes the new one. It can run at the same time as the second program,
/// but not as the first.
#[derive(Entity, Debug, Clone, PartialEq)]
struct Third {
    #[entity(partition_key)]
    channel: String,
    #[entity(row_key, padded = 6)]
    number: u32,
    version: i32,
    text: String,
    #[entity(default)]
    rating: i32,
    posted: Option<String>,
    posted_at: Option<DateTime>,
}

impl Third {
    fn converted(&self) -> Result<Self> {
        let posted = self.posted.as_deref().map(DateTime::parse).transpose();
        let posted_at = posted.map_err(|error| format!("{error:?}"))?.or(self.posted_at);
        Ok(Self { version: 2, posted: None, posted_at, ..self.clone() })
    }
}

fn day(day: u32) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + u64::from(day) * 86_400))
}

fn message(number: u32) -> First {
    let (text, language) = (format!("message {number}"), "en".to_owned());
    First { channel: "rust".into(), number, version: 1, text, language, posted: day(number).to_string() }
}

/// Corrects a message as the first program does. A merge preserves properties that are unknown to the program.
async fn correct(messages: &Table, number: u32, is_merge: bool) -> Result {
    let mut read = messages.get_by_key::<First>(&First::key_of("rust", number)?).await?;
    read.text = "corrected".into();
    if is_merge {
        messages.merge(&read, &read).await?;
    } else {
        messages.replace(&read, &read).await?;
    }
    Ok(())
}

async fn rate(messages: &Table, number: u32) -> Result {
    let mut read = messages.get_by_key::<Second>(&Second::key_of("rust", number)?).await?;
    read.rating = 5;
    messages.replace(&read, &read).await?;
    Ok(())
}

/// Reads a message as the second program does.
async fn second(messages: &Table, number: u32) -> Result<Stored<Second>> {
    Ok(messages.get_by_key::<Second>(&Second::key_of("rust", number)?).await?)
}

/// Reads a message as the third program does, and upgrades it if it is in the old shape. Messages that no program reads
/// stay in the old shape.
async fn read_upgraded(messages: &Table, number: u32) -> Result<Third> {
    loop {
        let read = messages.get_by_key::<Third>(&Third::key_of("rust", number)?).await?;
        if read.version >= 2 {
            return Ok(read.into_entity());
        }
        let upgraded = read.converted()?;
        match messages.replace(&upgraded, &read).await {
            // Another program has changed, upgraded or deleted it.
            Err(error) if [ErrorKind::NotFound, ErrorKind::PreconditionFailed].contains(&error.kind()) => {}
            result => return Ok(result.map(|_| upgraded)?),
        }
    }
}

/// Converts the messages that are still in the old shape, a hundred at a time. The conversion can be interrupted at any
/// point and run again. Returns the number of converted messages.
async fn convert(messages: &Table) -> Result<usize> {
    let mut converted = 0;
    loop {
        let old = messages.query::<Third>().partition("rust").filter(|m| m.version.lt(2)).take(100).collect().await?;
        if old.is_empty() {
            return Ok(converted);
        }
        let mut transaction = Transaction::new();
        for message in &old {
            transaction = transaction.replace(&message.converted()?, message);
        }
        match messages.commit(transaction).await {
            // Another program has changed or deleted one of them. The next query returns the remaining messages.
            Err(error) if [ErrorKind::NotFound, ErrorKind::PreconditionFailed].contains(&error.kind()) => {}
            result => converted += result?.len(),
        }
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("versioning").await?;
    let messages = pattern.table("messages").await?;
    let all: Vec<_> = (0..200).map(message).collect();
    pattern.step("first program: post 200 messages", requests(2).written(200), fill(&messages, &all)).await?;
    add(&mut pattern, &messages).await?;
    remove_and_retype(&mut pattern, &messages).await?;
    pattern.finish().await
}

/// The first and the second program run at the same time.
async fn add(pattern: &mut Pattern, messages: &Table) -> Result {
    let cost = requests(2).examined(1).returned(1).written(1);
    pattern.step("second program: rate a message of the first", cost, rate(messages, 7)).await?;
    pattern.step("first program: correct it by a merge", cost, correct(messages, 7, true)).await?;
    let read = second(messages, 7).await?;
    assert_eq!((read.text.as_str(), read.rating, read.version), ("corrected", 5, 1), "the rating has survived");

    rate(messages, 8).await?;
    pattern.step("first program: correct another by a replace", cost, correct(messages, 8, false)).await?;
    assert_eq!(second(messages, 8).await?.rating, 0, "the rating is lost");
    Ok(())
}

/// The first program is no longer used. The second and the third run at the same time.
async fn remove_and_retype(pattern: &mut Pattern, messages: &Table) -> Result {
    let latest = Third {
        channel: "rust".into(),
        number: 200,
        version: 2,
        text: "message 200".into(),
        rating: 0,
        posted: None,
        posted_at: Some(day(200)),
    };
    let inserted = messages.insert(&latest);
    pattern.step("third program: post a message", requests(1).written(1), inserted).await?;
    let key = First::key_of("rust", 200)?;
    let cost = requests(1).examined(1).returned(1);
    let error = pattern.step("first program: read it", cost, refused(messages.get_by_key::<First>(&key))).await?;
    assert_eq!(error.kind(), ErrorKind::Entity, "this is why phase one comes first");
    let cost = requests(2).examined(1).returned(1).written(1);
    pattern.step("second program: rate it", cost, rate(messages, 200)).await?;
    let read = second(messages, 200).await?;
    assert_eq!((read.version, read.posted_at, read.rating), (2, Some(day(200)), 5), "it has kept the new shape");

    let cost = requests(2).examined(1).returned(1).written(1);
    let upgraded =
        pattern.step("third program: read an old message, and upgrade it", cost, read_upgraded(messages, 9)).await?;
    assert_eq!((upgraded.version, upgraded.posted, upgraded.posted_at), (2, None, Some(day(9))));
    let cost = requests(1).examined(1).returned(1);
    pattern.step("third program: read it again", cost, read_upgraded(messages, 9)).await?;

    // Until everything is converted, a filter has to name both properties.
    let since = day(190);
    let query = || messages.query::<Third>().partition("rust").select(|m| m.number);
    let one = query().filter(|m| m.posted_at.ge(since)).collect();
    let found = pattern.step("since day 190, by the new property", requests(1).examined(201).returned(1), one).await?;
    assert_eq!(found, [200]);
    let both = query().filter(|m| m.posted_at.ge(since) | m.posted.ge(since.to_string())).collect();
    let cost = requests(1).examined(201).returned(11);
    let found = pattern.step("since day 190, by both properties", cost, both).await?;

    let cost = requests(5).examined(504).returned(199).written(199);
    assert_eq!(pattern.step("convert the old messages", cost, convert(messages)).await?, 199);
    let again = requests(1).examined(201);
    assert_eq!(pattern.step("convert again", again, convert(messages)).await?, 0);
    let one = query().filter(|m| m.posted_at.ge(since)).collect();
    let cost = requests(1).examined(201).returned(11);
    assert_eq!(pattern.step("since day 190, by the new property, converted", cost, one).await?, found);

    let read = second(messages, 7).await?;
    assert_eq!((read.rating, read.posted_at, &read.language, &read.posted), (5, Some(day(7)), &None, &None));
    Ok(())
}
