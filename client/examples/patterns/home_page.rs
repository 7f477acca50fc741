//! A home page by time, then kind: the latest entries of all kinds, and the latest entries of one kind.
//!
//! A home page mixes a user's photos, posts and links, newest first, so its row keys begin with the time. A page with
//! only the photos needs row keys that begin with the kind. A transaction stores each entry under both keys.

use crate::support::{Pattern, Result, inverted_range, requests};
use rowhouse_client::{DateTime, Entity, Table, Transaction};
use std::time::{Duration, SystemTime};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "time_{at:inverted}_{kind}")]
struct ByTime {
    #[entity(partition_key)]
    user: String,
    #[entity(stored)]
    at: DateTime,
    #[entity(stored)]
    kind: String,
    title: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "kind_{kind}_{at:inverted}")]
struct ByKind {
    #[entity(partition_key)]
    user: String,
    #[entity(stored)]
    kind: String,
    #[entity(stored)]
    at: DateTime,
    title: String,
}

const KINDS: [&str; 3] = ["link", "photo", "post"];

/// Returns the time this many days after the start of 2031.
fn day(day: u64) -> DateTime {
    DateTime::from_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_924_992_000 + day * 86_400))
}

fn publish(transaction: Transaction, number: u64) -> Transaction {
    let (user, title, at) = ("ada".to_owned(), format!("entry {number}"), day(number * 2));
    let kind = KINDS.iter().cycle().nth(usize::try_from(number % 3).unwrap_or_default()).copied().unwrap_or_default();
    let by_time = ByTime { user: user.clone(), at, kind: kind.into(), title: title.clone() };
    transaction.insert(&by_time).insert(&ByKind { user, kind: kind.into(), at, title })
}

/// Reads the latest ten entries if there is only the key that begins with the kind.
async fn latest_of_kinds(entries: &Table) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for kind in KINDS {
        let query = entries.query::<ByKind>().partition("ada").row_prefix(&format!("kind_{kind}_")).take(10);
        all.extend(query.select(|e| (e.at, e.title)).collect().await?);
    }
    all.sort_by(|(one, _), (other, _)| other.cmp(one));
    Ok(all.into_iter().take(10).map(|(_, title)| title).collect())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("home_page").await?;
    let entries = pattern.table("entries").await?;
    let published = async {
        for first in (0..300).step_by(50) {
            entries.commit((first..first + 50).fold(Transaction::new(), publish)).await?;
        }
        Result::Ok(())
    };
    pattern.step("publish 300 entries under both keys", requests(6).written(600), published).await?;

    let by_time = || entries.query::<ByTime>().partition("ada").row_prefix("time_");
    let photos = || entries.query::<ByKind>().partition("ada").row_prefix("kind_photo_");
    let query = by_time().take(10).select(|e| e.title).collect();
    let cost = requests(1).examined(11).returned(10);
    let latest = pattern.step("the latest ten of all kinds", cost, query).await?;
    assert_eq!(latest.first().map(String::as_str), Some("entry 299"));
    let cost = requests(3).examined(33).returned(30);
    let found = pattern.step("the latest ten of all kinds, by kind", cost, latest_of_kinds(&entries)).await?;
    assert_eq!(found, latest);

    let query = photos().take(10).select(|e| e.title).collect();
    let cost = requests(1).examined(11).returned(10);
    let latest = pattern.step("the latest ten photos", cost, query).await?;
    let query = by_time().filter(|e| e.kind.eq("photo")).take(10).select(|e| e.title).collect();
    let cost = requests(1).examined(32).returned(10);
    assert_eq!(pattern.step("the latest ten photos, by time", cost, query).await?, latest);

    let rows = inverted_range("kind_photo_", day(0), day(365))?;
    let query = entries.query::<ByKind>().partition("ada").rows(rows.start.as_str()..rows.end.as_str());
    let cost = requests(1).examined(61).returned(61);
    let of_year = pattern.step("all photos of a year", cost, query.select(|e| e.at).collect()).await?;
    assert!(of_year.iter().all(|at| (day(0)..day(365)).contains(at)));
    assert_eq!(photos().filter(|e| e.at.lt(day(365))).select(|e| e.at).collect().await?, of_year);
    pattern.finish().await
}
