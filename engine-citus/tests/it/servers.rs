//! Tests of several engines that share one database, as several servers do. Each engine sees the others' changes, and
//! an entity's Timestamps increase whichever engine writes, however far apart the clocks are.

use engine::{CatalogError, CommitError, Engine, EngineExt, ReadError};
use engine_contract::support::*;
use engine_postgres::PROPERTIES_VISIBLE_WITHIN;
use engine_postgres::{Postgres, PostgresOptions};
use model::ServiceProperties;
use model::{
    AccountName, Condition, DateTime, Mutation, MutationError, StoredAccessPolicies, StoredAccessPolicy, Transaction,
};
use model::{Retention, TableSettingsUpdate};
use rowhouse_engine_citus::{Balance, open as open_database};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use test_support::cluster::{CitusCluster, Cluster};

const HOUR: i64 = 36_000_000_000;
const SECOND: i64 = 10_000_000;

type Server = Arc<Postgres>;

async fn open(url: &str, ticks: i64) -> Server {
    let distribute = url.contains("load_balance_hosts");
    let options = PostgresOptions { distribute, ..PostgresOptions::new(url.to_owned(), 6) };
    Arc::new(open_database(&options, Balance::Off, ManualClock::at(ticks)).await.unwrap())
}

/// The clocks of the servers are hours apart.
async fn three() -> Option<(&'static Cluster, String, [Server; 3])> {
    let cluster = Cluster::shared()?;
    let url = cluster.database();
    let servers = three_on(&url).await;
    Some((cluster, url, servers))
}

async fn three_on(url: &str) -> [Server; 3] {
    // Open them concurrently, as when a whole group is started: one of them creates the schema.
    let at = |hours| open(url, START_TICKS + 10 * HOUR + hours * HOUR);
    let (a, b, c) = tokio::join!(at(0), at(-5), at(3));
    [a, b, c]
}

async fn three_on_citus() -> Option<[Server; 3]> {
    let cluster = CitusCluster::shared()?;
    Some(three_on(&cluster.workers(&cluster.database())).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_policies_of_one_server_are_seen_by_the_others_at_once() {
    let Some((_, _, servers)) = three().await else { return };
    tables_and_policies_are_seen_at_once(servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_policies_of_one_server_are_seen_by_the_others_at_once_on_citus() {
    let Some(servers) = three_on_citus().await else { return };
    tables_and_policies_are_seen_at_once(servers).await;
}

async fn tables_and_policies_are_seen_at_once([a, b, c]: [Server; 3]) {
    let table = table("Shared");
    a.create_table(&table).await.unwrap();
    assert!(matches!(b.create_table(&table).await, Err(CatalogError::AlreadyExists)));
    // From here on, every server has cached the ID of the table.
    for (n, server) in [&a, &b, &c].into_iter().enumerate() {
        commit_one(&**server, &table, insert("p", &n.to_string(), 1)).await.unwrap();
        assert_eq!(all(&**server, &table).await.len(), n + 1);
        assert!(server.get(&table, &key("p", "0")).await.unwrap().is_some());
    }
    let policies = StoredAccessPolicies::new(vec![StoredAccessPolicy::new("x").unwrap()]).unwrap();
    b.set_policies(&table, policies.clone()).await.unwrap();
    assert_eq!(a.policies(&table).await.unwrap(), policies);
    let retention = Retention::by_age(60);
    c.update_settings(
        &table,
        TableSettingsUpdate { retention: Some(retention.clone()), ..TableSettingsUpdate::default() },
    )
    .await
    .unwrap();
    assert_eq!(a.settings(&table).await.unwrap().retention, retention);
    b.delete_table(&table).await.unwrap();
    let written = commit_one(&*a, &table, insert("p", "late", 1)).await;
    assert!(matches!(written, Err(CommitError::TableNotFound)), "{written:?}");
    assert!(matches!(c.get(&table, &key("p", "0")).await, Err(ReadError::TableNotFound)));
    assert!(matches!(c.scan(&table, scan_all(), CollectingSink::default()).await, Err(ReadError::TableNotFound)));
    c.create_table(&table).await.unwrap();
    // Servers that have cached the ID of the old table find the new one.
    commit_one(&*a, &table, insert("p", "new", 1)).await.unwrap();
    assert_eq!(names(&all(&*b, &table).await), ["p/new"]);
    assert!(b.policies(&table).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_properties_are_seen_by_the_others_in_time() {
    let Some((_, _, [a, b, c])) = three().await else { return };
    let account = AccountName::new(ACCOUNT).unwrap();
    let mut times = Vec::new();
    for round in 0..5 {
        let origin = format!("https://{round}.example");
        let expected = ServiceProperties::default().updated(cors_update(&origin));
        a.update_service_properties(&account, cors_update(&origin)).await.unwrap();
        assert_eq!(*a.service_properties(&account).unwrap(), expected, "immediately visible where it was set");
        let changed = Instant::now();
        for server in [&b, &c] {
            while *server.service_properties(&account).unwrap() != expected {
                assert!(changed.elapsed() < TIMEOUT, "the change is never visible");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        times.push(changed.elapsed());
        if times[round] < PROPERTIES_VISIBLE_WITHIN {
            return;
        }
        // The machine may have delayed the servers.
    }
    panic!("changes become visible too late: {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stamps_of_an_entity_grow_whoever_writes_and_differ_whoever_deletes_it() {
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Stamped");
    servers[0].create_table(&table).await.unwrap();
    let (mut last, mut all) = (None, BTreeSet::new());
    for n in 0..60 {
        // Each ordered pair of servers occurs, with and without a deletion in between.
        let server = &*servers[[0, 1, 2, 1, 0, 2][n % 6]];
        if n % 4 == 3 {
            commit_one(server, &table, delete("p", "r")).await.unwrap();
            last = None;
            continue;
        }
        let mutation = if last.is_some() { upsert("p", "r", 1) } else { insert("p", "r", 1) };
        let now = stamp(commit_one(server, &table, mutation).await.unwrap());
        assert!(Some(now) > last, "write {n}: {now:?} after {last:?}");
        assert!(all.insert(now), "write {n}: {now:?} was already issued");
        last = Some(now);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_names_a_stamp_of_another_server_is_followed_by_one_of_the_own_slot() {
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Conditions");
    servers[0].create_table(&table).await.unwrap();
    // The clock of the last server is ahead of the other servers' clocks.
    let mut last = stamp(commit_one(&*servers[2], &table, insert("p", "r", 1)).await.unwrap());
    let mut slots = [None; 3];
    for round in 0..9 {
        let condition = Condition::from_timestamp(last);
        let (key, properties) = (key("p", "r"), properties(&[("value", 2)]));
        let replace = Mutation::Replace { key, properties, condition };
        let now = stamp(commit_one(&*servers[round % 3], &table, replace).await.unwrap());
        assert!(now > last);
        let slot = now.ticks() % 64;
        assert_eq!(*slots[round % 3].get_or_insert(slot), slot, "round {round}");
        last = now;
    }
    assert_eq!(BTreeSet::from(slots).len(), 3, "{slots:?}");
    // A Timestamp that no entity has does not advance the stamps of the server.
    let condition = Condition::from_timestamp(DateTime::parse("9000-01-01T00:00:00Z").unwrap());
    let replace = Mutation::Replace { key: key("p", "r"), properties: properties(&[]), condition };
    let refused = commit_one(&*servers[0], &table, replace).await;
    assert!(matches!(refused, Err(CommitError::Refused(0, MutationError::ConditionNotMet))), "{refused:?}");
    let next = stamp(commit_one(&*servers[0], &table, upsert("p", "r", 3)).await.unwrap());
    assert!(next.ticks() < last.ticks() + SECOND, "{next:?} after {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stamp_of_an_entity_comes_twice_from_servers_that_race() {
    let Some((_, _, servers)) = three().await else { return };
    no_stamp_comes_twice(servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stamp_of_an_entity_comes_twice_from_servers_that_race_on_citus() {
    let Some(servers) = three_on_citus().await else { return };
    no_stamp_comes_twice(servers).await;
}

async fn no_stamp_comes_twice(servers: [Server; 3]) {
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
                    Ok(written) => stamps.extend(written.timestamp()),
                    Err(CommitError::Refused(0, MutationError::AlreadyExists | MutationError::NotFound)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            stamps
        }));
    }
    let all = distinct(tasks).await;
    assert!(all.len() > 50, "{}", all.len());
}

/// Waits until tasks that count their writes have completed so many more.
async fn wait_for_writes(written: &AtomicUsize, more: usize) {
    let (began, before) = (Instant::now(), written.load(Ordering::SeqCst));
    while written.load(Ordering::SeqCst) < before + more {
        assert!(began.elapsed() < TIMEOUT, "the writers make no progress");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Each writer's stamps are in order, and none is repeated.
async fn distinct(writers: Vec<tokio::task::JoinHandle<Vec<DateTime>>>) -> BTreeSet<DateTime> {
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for writer in writers {
        let stamps = writer.await.unwrap();
        assert!(stamps.is_sorted_by(|one, next| one < next), "each sees its own writes in order");
        count += stamps.len();
        all.extend(stamps);
    }
    assert_eq!(all.len(), count);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stamp_comes_twice_in_a_table_that_is_created_again_and_again_under_writers() {
    const ROUNDS: u8 = 30;
    let Some((_, _, servers)) = three().await else { return };
    let table = table("Reborn");
    let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    servers[0].create_table(&table).await.unwrap();
    let mut tasks = Vec::new();
    for task in 0..6_usize {
        let (server, table) = (Arc::clone(&servers[task % 3]), table.clone());
        let (is_over, count) = (Arc::clone(&is_over), Arc::clone(&written));
        tasks.push(tokio::spawn(async move {
            let mut stamps = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                match commit_one(&*server, &table, upsert("p", "r", 1)).await {
                    Ok(written) => {
                        stamps.push(stamp(written));
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(CommitError::TableNotFound) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(other) => panic!("{other:?}"),
                }
            }
            stamps
        }));
    }
    for round in 0..usize::from(ROUNDS) {
        wait_for_writes(&written, 10).await;
        servers[round % 3].delete_table(&table).await.unwrap();
        servers[(round / 3) % 3].create_table(&table).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let all = distinct(tasks).await;
    assert!(all.len() > 60, "{}", all.len());
    let ahead = START_TICKS + 13 * HOUR;
    let latest = all.last().unwrap().ticks();
    assert!(
        (ahead..ahead + SECOND).contains(&latest),
        "{latest} is far from the clock that is furthest ahead, {ahead}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_inserts_wins_across_servers() {
    let Some((_, _, servers)) = three().await else { return };
    one_of_many_inserts_wins(servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_inserts_wins_across_servers_on_citus() {
    let Some(servers) = three_on_citus().await else { return };
    one_of_many_inserts_wins(servers).await;
}

async fn one_of_many_inserts_wins(servers: [Server; 3]) {
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
    deleted_under_writers(servers, &|statements| cluster.sql(&url, statements)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_deleted_under_writers_leaves_nothing_behind_on_citus() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = cluster.database();
    let servers = three_on(&cluster.workers(&database)).await;
    deleted_under_writers(servers, &|statements| cluster.sql(0, &database, statements)).await;
}

async fn deleted_under_writers(servers: [Server; 3], sql: &dyn Fn(&str) -> String) {
    let table = table("Doomed");
    let (mut deletions, mut longest) = (Vec::new(), Duration::ZERO);
    for _ in 0..3 {
        let written = Arc::new(AtomicUsize::new(0));
        servers[0].create_table(&table).await.unwrap();
        let mut writers = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let (server, table, count) = (Arc::clone(server), table.clone(), Arc::clone(&written));
            writers.push(tokio::spawn(async move {
                let mut longest = Duration::ZERO;
                for n in 0.. {
                    let mutations = (0..20).map(|row| upsert(&format!("{number}"), &format!("{n}-{row}"), n));
                    let began = Instant::now();
                    match server.commit(&table, Transaction::new(mutations.collect()).unwrap()).await {
                        Ok(_) => longest = longest.max(began.elapsed()),
                        Err(CommitError::TableNotFound) => break,
                        Err(other) => panic!("{other:?}"),
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                }
                longest
            }));
        }
        wait_for_writes(&written, 30).await;
        let began = Instant::now();
        servers[1].delete_table(&table).await.unwrap();
        deletions.push(began.elapsed());
        for writer in writers {
            longest = longest.max(writer.await.unwrap());
        }
    }
    // The machine may delay one of the deletions. A deletion waits only for writes that have begun.
    let quick = Duration::from_secs(1).max(3 * longest);
    assert!(deletions.iter().min().unwrap() < &quick, "writers delay the deletion: {deletions:?}, {longest:?}");
    // The server that purged may die at any time; the others continue.
    let [a, b, c] = servers;
    drop((a, b));
    sql(EXPIRE_LEASES);
    let left = "SELECT (SELECT count(*) FROM rowhouse_entities) + (SELECT count(*) FROM rowhouse_tables)";
    let began = Instant::now();
    while sql(left).trim() != "0" {
        assert!(began.elapsed() < TIMEOUT, "{} rows are left", sql(left));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    c.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_no_cluster_yet_get_no_tables_of_their_own() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let database = cluster.database();
    cluster.sql(0, &database, "SELECT citus_remove_node(nodename, nodeport) FROM pg_dist_node WHERE groupid <> 0");
    let options = PostgresOptions { distribute: true, ..PostgresOptions::new(cluster.all(&database), 2) };
    let refused = open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await;
    let refused = refused.expect_err("the tables cannot be distributed").to_string();
    assert!(refused.contains("citus_add_node"), "{refused}");
    for node in 0..3 {
        assert_eq!(cluster.sql(node, &database, "SELECT to_regclass('rowhouse_meta') IS NULL").trim(), "t");
    }
}

/// The entities are never read.
fn fill(cluster: &Cluster, url: &str, count: u32) {
    let fill = format!(
        "INSERT INTO rowhouse_entities SELECT (SELECT int8send(id) FROM rowhouse_tables WHERE NOT is_deleted) \
         || convert_to((n % 50)::text, 'UTF8'), convert_to(n::text, 'UTF8'), '' FROM generate_series(1, {count}) n"
    );
    cluster.sql(url, &fill);
}

const EXPIRE_LEASES: &str = "UPDATE rowhouse_leases SET renewed = now() - interval '1 hour'";

/// Simulates the passage of the time after which a server that no longer renews its lease is presumed dead.
fn expire_leases(cluster: &Cluster, url: &str) {
    cluster.sql(url, EXPIRE_LEASES);
}

fn entities_left(cluster: &Cluster, url: &str) -> u32 {
    cluster.sql(url, "SELECT count(*) FROM rowhouse_entities").trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_whose_server_is_lost_is_finished_by_another_one() {
    const ENTITIES: u32 = 20_000;
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let table = table("Large");
    let mut left = ENTITIES;
    let first = open(&url, START_TICKS).await;
    first.create_table(&table).await.unwrap();
    fill(cluster, &url, ENTITIES);
    // A purge removes entities in key order, and waits for transactions that lock an entity.
    let hold = || {
        let entity = "SELECT partition, row FROM rowhouse_entities ORDER BY partition, row OFFSET 5000 LIMIT 1";
        let lock = format!("PERFORM 1 FROM rowhouse_entities WHERE (partition, row) = ({entity}) FOR UPDATE");
        cluster.open_transaction(&url, &format!("DO $$ BEGIN {lock}; END $$"))
    };
    let mut held = hold();
    first.delete_table(&table).await.unwrap();
    let mut servers = vec![first];
    // Each server makes some progress, and is then lost in the middle of a transaction.
    for _ in 0..3 {
        let began = Instant::now();
        while entities_left(cluster, &url) + 1000 > left {
            assert!(began.elapsed() < TIMEOUT, "{left} entities are left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(servers.pop());
        expire_leases(cluster, &url);
        left = entities_left(cluster, &url);
        assert!(left > 0, "there is something left to do");
        drop(held);
        held = hold();
        servers.push(open(&url, START_TICKS).await);
    }
    drop(held);
    let began = Instant::now();
    while cluster.sql(&url, "SELECT count(*) FROM rowhouse_tables").trim() != "0" {
        assert!(began.elapsed() < TIMEOUT, "{} entities are left", entities_left(cluster, &url));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(entities_left(cluster, &url), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_table_touches_none_of_its_entities() {
    let Some(cluster) = Cluster::shared() else { return };
    for count in [0, 100_000] {
        let url = cluster.database();
        let table = table("Vast");
        let engine = open(&url, START_TICKS).await;
        engine.create_table(&table).await.unwrap();
        fill(cluster, &url, count);
        // No entity can be read or written until this ends.
        let locked = cluster.open_transaction(&url, "LOCK TABLE rowhouse_entities IN ACCESS EXCLUSIVE MODE");
        engine.delete_table(&table).await.unwrap();
        assert!(engine.table(&table).await.unwrap().is_none());
        engine.create_table(&table).await.unwrap();
        // One table is marked as deleted, and one is new. No table lists the deleted entities.
        let rows = "SELECT (SELECT count(*) FROM rowhouse_tables WHERE is_deleted), \
                    (SELECT count(*) FROM rowhouse_tables WHERE NOT is_deleted)";
        assert_eq!(cluster.sql(&url, rows).trim(), "1|1", "{count}");
        drop(locked);
    }
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
