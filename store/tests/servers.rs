//! Several engines on one database, as several servers have them: what one does the others see, and the Timestamps of
//! an entity grow whoever writes, however far the clocks are apart.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failure is a failed test")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use cluster::Cluster;
use model::{AccountName, Condition, Mutation, MutationError, StoredAccessPolicies, StoredAccessPolicy, Transaction};
use model::{ServiceProperties, Written};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::postgres::PROPERTIES_VISIBLE_WITHIN;
use store::{CatalogError, CommitError, Engine, Postgres, PostgresOptions, ReadError};
use support::*;

type Server = Arc<Postgres<ManualClock>>;

async fn open(url: &str, ticks: i64) -> Server {
    let options = PostgresOptions { url: url.to_owned(), password: None, connections_max: 6, distribute: false };
    Arc::new(Postgres::open(&options, ManualClock::at(ticks)).await.unwrap())
}

/// Three servers on a new database, whose clocks are hours apart.
async fn three() -> Option<(&'static Cluster, String, [Server; 3])> {
    const HOUR: i64 = 36_000_000_000;
    let cluster = Cluster::shared()?;
    let url = cluster.database();
    // At once, as when a whole group is started: one of them makes the schema.
    let at = |hours| open(&url, START_TICKS + 10 * HOUR + hours * HOUR);
    let (a, b, c) = tokio::join!(at(0), at(-5), at(3));
    Some((cluster, url.clone(), [a, b, c]))
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_policies_of_one_server_are_seen_by_the_others_at_once() {
    let Some((_, _, [a, b, c])) = three().await else { return };
    let table = table("Shared");
    a.create_table(&table).await.unwrap();
    assert!(matches!(b.create_table(&table).await, Err(CatalogError::AlreadyExists)));
    // Every one knows the id of the table from here on.
    for (n, server) in [&a, &b, &c].into_iter().enumerate() {
        commit_one(&**server, &table, insert("p", &n.to_string(), 1)).await.unwrap();
        assert_eq!(all(&**server, &table).await.len(), n + 1);
        assert!(server.get(&table, &key("p", "0")).await.unwrap().is_some());
    }
    let policies = StoredAccessPolicies::new(vec![StoredAccessPolicy::new("x").unwrap()]).unwrap();
    b.set_policies(&table, policies.clone()).await.unwrap();
    assert_eq!(a.policies(&table).await.unwrap(), policies);
    b.delete_table(&table).await.unwrap();
    let written = commit_one(&*a, &table, insert("p", "late", 1)).await;
    assert!(matches!(written, Err(CommitError::TableNotFound)), "{written:?}");
    assert!(matches!(c.get(&table, &key("p", "0")).await, Err(ReadError::TableNotFound)));
    assert!(matches!(c.scan(&table, scan_all(), Kept::default()).await, Err(ReadError::TableNotFound)));
    c.create_table(&table).await.unwrap();
    // Those that knew the old table find the new one.
    commit_one(&*a, &table, insert("p", "new", 1)).await.unwrap();
    assert_eq!(names(&all(&*b, &table).await), ["p/new"]);
    assert!(b.policies(&table).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_properties_are_seen_by_the_others_in_time() {
    let Some((_, _, [a, b, c])) = three().await else { return };
    let account = AccountName::new(ACCOUNT).unwrap();
    let expected = ServiceProperties::default().updated(cors_update("https://a.example"));
    a.update_service_properties(&account, cors_update("https://a.example")).await.unwrap();
    assert_eq!(*a.service_properties(&account).unwrap(), expected, "at once where it was set");
    let changed = Instant::now();
    for server in [&b, &c] {
        while *server.service_properties(&account).unwrap() != expected {
            assert!(changed.elapsed() < PROPERTIES_VISIBLE_WITHIN);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stamps_of_an_entity_grow_whoever_writes_and_deletes_it() {
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Stamped");
    servers[0].create_table(&table).await.unwrap();
    let mut last = None;
    for n in 0..60 {
        // Each pair of servers comes one after the other, with and without a deletion between.
        let server = &*servers[[0, 1, 2, 1, 0, 2][n % 6]];
        if n % 4 == 3 {
            commit_one(server, &table, delete("p", "r")).await.unwrap();
            continue;
        }
        let is_there = server.get(&table, &key("p", "r")).await.unwrap().is_some();
        let mutation = if is_there { upsert("p", "r", 1) } else { insert("p", "r", 1) };
        let now = Some(stamp(commit_one(server, &table, mutation).await.unwrap()));
        assert!(now > last, "write {n}: {now:?} after {last:?}");
        last = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stamp_of_an_entity_comes_twice_from_servers_that_race() {
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Raced");
    servers[0].create_table(&table).await.unwrap();
    let mut tasks = Vec::new();
    for task in 0..6_usize {
        let (server, table) = (Arc::clone(&servers[task % 3]), table.clone());
        tasks.push(tokio::spawn(async move {
            let mut stamps = Vec::new();
            for n in 0..50 {
                let key = key("p", "r");
                let mutation = match (n + task) % 3 {
                    0 => Mutation::Insert { key, properties: properties(&[("value", 1)]) },
                    1 => Mutation::InsertOrReplace { key, properties: properties(&[("value", 2)]) },
                    _ => Mutation::Delete { key, condition: Condition::Any },
                };
                match commit_one(&*server, &table, mutation).await {
                    Ok(Written::Stored(stamp)) => stamps.push(stamp),
                    Ok(Written::Deleted)
                    | Err(CommitError::Refused(0, MutationError::AlreadyExists | MutationError::NotFound)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]), "each sees its own writes in order");
            stamps
        }));
    }
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for task in tasks {
        let stamps = task.await.unwrap();
        count += stamps.len();
        all.extend(stamps);
    }
    assert_eq!(all.len(), count);
    assert!(count > 50, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_inserts_wins_across_servers() {
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Contested");
    servers[0].create_table(&table).await.unwrap();
    for round in 0..20 {
        let mut tasks = Vec::new();
        for server in &servers {
            let (server, table) = (Arc::clone(server), table.clone());
            tasks.push(tokio::spawn(
                async move { commit_one(&*server, &table, insert("p", &round.to_string(), 1)).await },
            ));
        }
        let mut winners = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => winners += 1,
                Err(CommitError::Refused(0, MutationError::AlreadyExists)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(winners, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_deleted_under_writers_leaves_nothing_behind() {
    let Some((cluster, url, servers)) = three().await else { return };
    let table = table("Doomed");
    for _ in 0..3 {
        servers[0].create_table(&table).await.unwrap();
        let mut writers = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let (server, table) = (Arc::clone(server), table.clone());
            writers.push(tokio::spawn(async move {
                for n in 0.. {
                    let mutations = (0..20).map(|row| upsert(&format!("{number}"), &format!("{n}-{row}"), n));
                    match server.commit(&table, Transaction::new(mutations.collect()).unwrap()).await {
                        Ok(_) => {}
                        Err(CommitError::TableNotFound) => return,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }));
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
        let began = Instant::now();
        servers[1].delete_table(&table).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "writers do not hold up the deletion");
        for writer in writers {
            writer.await.unwrap();
        }
    }
    // The one that purged may die at any time; the others go on.
    let [a, b, c] = servers;
    drop((a, b));
    let left = "SELECT (SELECT count(*) FROM rowhouse_entities) + (SELECT count(*) FROM rowhouse_graves) \
                + (SELECT count(*) FROM rowhouse_tables)";
    let began = Instant::now();
    while cluster.sql(&url, left).trim() != "0" {
        assert!(began.elapsed() < Duration::from_secs(30), "{} rows are left", cluster.sql(&url, left));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    c.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_keys_are_kept_or_refused_and_never_a_fault() {
    let Some((_, _, [a, ..])) = three().await else { return };
    let table = table("Keys");
    a.create_table(&table).await.unwrap();
    // Random characters of three bytes each cannot be compressed.
    let mut state = 7_u32;
    let mut text = |length| {
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from_u32(0x4E00 + (state >> 16) % 0x5000).unwrap()
            })
            .collect::<String>()
    };
    let fits = (text(400), text(400));
    commit_one(&*a, &table, insert(&fits.0, &fits.1, 1)).await.unwrap();
    assert!(a.get(&table, &key(&fits.0, &fits.1)).await.unwrap().is_some());
    let (partition, row) = (text(512), text(512));
    let mutations = vec![insert(&partition, "short", 1), insert(&partition, &row, 1)];
    let refused = a.commit(&table, Transaction::new(mutations).unwrap()).await;
    assert!(matches!(refused, Err(CommitError::Refused(1, MutationError::EntityTooLarge))), "{refused:?}");
    assert_eq!(all(&*a, &table).await.len(), 1);
}
