//! Tests of the change log with several servers, with faults, and with settings of the database.

use engine::{ChangeEffect, ChangeLog, ChangeSelection, ChangedTransaction, ChangesError, CommitError, Engine, Fault};
use engine::{KeepChanges, KeptChanges, TableKey};
use engine_contract::cases::changes::{read_all, wait_for};
use engine_contract::support::*;
use engine_postgres::{Postgres, PostgresOptions, StoreError};
use model::Transaction;
use model::clock::SystemClock;
use model::{
    DateTime, MutationResult, Record, Retention, StoredAccessPolicies, StoredAccessPolicy, TableSettingsUpdate,
};
use rowhouse_engine_citus::{Balance, open as open_database};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use tokio::task::JoinHandle;

pub(crate) type Server = Postgres;
pub(crate) type Log = Arc<dyn ChangeLog>;

pub(crate) const DAY: KeepChanges = KeepChanges { age: Duration::from_hours(24), bytes: 1 << 30 };
const READER: &str =
    "SELECT pid FROM pg_stat_replication JOIN pg_stat_activity USING (pid) WHERE datname = current_database()";

async fn try_open(url: &str, keep_changes: Option<KeepChanges>) -> Result<Server, StoreError> {
    let options = PostgresOptions { keep_changes, ..PostgresOptions::new(url.to_owned(), 6) };
    open_database(&options, Balance::Off, SystemClock).await
}

async fn open(url: &str) -> Server {
    try_open(url, Some(DAY)).await.unwrap()
}

pub(crate) fn log_of(server: &Server) -> Log {
    server.change_log().unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < TIMEOUT, "timed out waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until everything that was committed before is in the log.
pub(crate) async fn wait_until_complete(server: &Server, log: &Log, from: u64) -> Vec<ChangedTransaction> {
    let last = table("Last");
    server.create_table(&last).await.unwrap();
    let mut all = Vec::new();
    eventually("the last change", async || {
        all = read_all(log, from, &ChangeSelection::default(), 1 << 20).await;
        let effect = all.last().and_then(|transaction| Some(&transaction.changes.first()?.effect));
        matches!(effect, Some(ChangeEffect::CreateTable { table, .. }) if table.name == last.name)
    })
    .await;
    all.pop();
    all
}

/// Writes to an entity until told to stop, and returns the acknowledged Timestamps.
async fn write(
    server: Arc<Server>,
    table: TableKey,
    partition: String,
    is_done: Arc<AtomicBool>,
) -> BTreeSet<DateTime> {
    let mut acknowledged = BTreeSet::new();
    for n in 0.. {
        if is_done.load(Ordering::Relaxed) {
            break;
        }
        let mutations = vec![upsert(&partition, "r", n), upsert(&partition, &format!("{}", n % 7), n)];
        match server.commit(&table, Transaction::new(mutations).unwrap()).await {
            Ok(written) => {
                let MutationResult::Stored(stamp) = written[0] else { panic!() };
                acknowledged.insert(stamp);
            }
            Err(CommitError::Fault(Fault::Unknown(_) | Fault::Unavailable(_))) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    acknowledged
}

/// Starts writers on two servers in turn, each with a partition.
pub(crate) fn start_writers(
    count: u32,
    servers: [&Arc<Server>; 2],
    table: &TableKey,
    is_done: &Arc<AtomicBool>,
) -> Vec<(String, JoinHandle<BTreeSet<DateTime>>)> {
    let partitions = (0..count).map(|n| n.to_string());
    let start = |(partition, server): (String, &&Arc<Server>)| {
        let writer = write(Arc::clone(server), table.clone(), partition.clone(), Arc::clone(is_done));
        (partition, tokio::spawn(writer))
    };
    partitions.zip(servers.iter().cycle()).map(start).collect()
}

/// Checks that the log shows each acknowledged write once and in order, and leads to what is stored.
pub(crate) async fn check(
    server: &Server,
    table: &TableKey,
    log: &[ChangedTransaction],
    acknowledged: &BTreeMap<String, BTreeSet<DateTime>>,
) {
    let mut shown: BTreeMap<Vec<u8>, Vec<DateTime>> = BTreeMap::new();
    let mut state: BTreeMap<Vec<u8>, Record> = BTreeMap::new();
    for transaction in log {
        for change in &transaction.changes {
            let ChangeEffect::Put { key, record, .. } = &change.effect else { continue };
            let stamp = record.view().unwrap().timestamp();
            assert!(stamp <= transaction.time);
            shown.entry(key.clone()).or_default().push(stamp);
            state.insert(key.clone(), record.clone());
        }
    }
    for (partition, acknowledged) in acknowledged {
        let shown = shown.get(&key(partition, "r").encode()).unwrap();
        assert!(shown.is_sorted_by(|one, next| one < next), "{partition}: not in order or not once");
        let shown: BTreeSet<DateTime> = shown.iter().copied().collect();
        assert!(shown.is_superset(acknowledged), "{partition}: an acknowledged write is missing");
    }
    let entities = all(server, table).await.into_iter().map(|entity| (entity.key.encode(), entity.record));
    assert_eq!(state, entities.collect::<BTreeMap<_, _>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_shown_once_while_servers_and_connections_fail() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (one, other) = (Arc::new(open(&url).await), Arc::new(open(&url).await));
    let (log, table) = (log_of(&one), table("Faults"));
    let begin = log.kept().next;
    one.create_table(&table).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let writers = start_writers(4, [&one, &other], &table, &is_done);
    let mut readers = BTreeSet::new();
    for round in 0..12 {
        // A server that only decodes, if it is fast enough, and is then killed.
        let decoder = open(&url).await;
        eventually("a server that decodes", async || {
            let reader = cluster.sql(&url, READER).trim().to_owned();
            !reader.is_empty() && readers.insert(reader)
        })
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()";
        match round % 3 {
            0 => drop(decoder),
            1 => drop(cluster.sql(&url, &format!("SELECT pg_terminate_backend(pid) FROM ({READER}) AS r"))),
            // Also the connections that store what was decoded, and those that are notified.
            _ => drop(cluster.sql(&url, &format!("{end} AND pid <> pg_backend_pid()"))),
        }
        if round % 3 == 0 {
            let _ended = cluster.sql(&url, &format!("SELECT pg_terminate_backend(pid) FROM ({READER}) AS r"));
        }
    }
    is_done.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for (partition, writer) in writers {
        acknowledged.insert(partition, writer.await.unwrap());
    }
    let shown = wait_until_complete(&one, &log, begin).await;
    check(&one, &table, &shown, &acknowledged).await;
    // Every server shows the same, also one that has just started.
    for server in [&*other, &open(&url).await] {
        let log = log_of(server);
        eventually("the same end", async || log.kept().next == log_of(&one).kept().next).await;
        assert_eq!(read_all(&log, begin, &ChangeSelection::default(), 1 << 20).await[..shown.len()], shown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_shown_once_when_the_database_crashes() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let server = Arc::new(open(&url).await);
    let (log, table) = (log_of(&server), table("Crashes"));
    let begin = log.kept().next;
    server.create_table(&table).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(Arc::clone(&server), table.clone(), "p".to_owned(), Arc::clone(&is_done)));
    for _ in 0..3 {
        let before = log.kept().next;
        eventually("progress", async || log.kept().next > before + 20).await;
        cluster.kill();
    }
    let before = log.kept().next;
    eventually("progress after the crashes", async || log.kept().next > before + 20).await;
    is_done.store(true, Ordering::Relaxed);
    let acknowledged = BTreeMap::from([("p".to_owned(), writer.await.unwrap())]);
    let shown = wait_until_complete(&server, &log, begin).await;
    check(&server, &table, &shown, &acknowledged).await;
    // A restart of the server continues where it was.
    server.close().await.unwrap();
    let server = open(&url).await;
    commit_one(&server, &table, upsert("p", "after", 1)).await.unwrap();
    let log = log_of(&server);
    let all = wait_for(&log, begin, shown.len() + 2).await;
    assert_eq!(all[..shown.len()], shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_dropped_by_size_and_by_age() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let table = table("Trimmed");
    let small = KeepChanges { bytes: 10_000, ..DAY };
    let server = try_open(&url, Some(small)).await.unwrap();
    let log = log_of(&server);
    let begin = log.kept().next;
    server.create_table(&table).await.unwrap();
    for n in 0..300 {
        commit_one(&server, &table, upsert("p", "r", n)).await.unwrap();
    }
    eventually("a trimmed log", async || {
        let kept = log.kept();
        kept.next == begin + 301 && kept.first > begin + 100 && server.figures().change_log.unwrap().bytes <= 10_000
    })
    .await;
    let KeptChanges { first, next } = log.kept();
    assert!(next - first > 20, "no more than necessary is dropped: {first} to {next}");
    let all = ChangeSelection::default();
    for from in [begin, first - 1] {
        let dropped = log.read(from, &all, 1).await;
        assert!(matches!(dropped, Err(ChangesError::Dropped(at)) if at == first), "{dropped:?}");
    }
    assert_eq!(read_all(&log, first, &all, 1 << 20).await.len() as u64, next - first);
    assert_eq!(log.find(DateTime::MIN).await.unwrap(), first);
    let rows = cluster.sql(&url, "SELECT count(*) FROM rowhouse_changes");
    assert_eq!(rows.trim().parse::<u64>().unwrap(), next - first);
    server.close().await.unwrap();
    let server = try_open(&url, Some(KeepChanges { age: Duration::from_secs(1), ..DAY })).await.unwrap();
    let log = log_of(&server);
    eventually("an empty log", async || log.kept() == KeptChanges { first: next, next }).await;
    assert!(matches!(log.read(next - 1, &all, 1).await, Err(ChangesError::Dropped(at)) if at == next));
    assert_eq!(log.read(next, &all, 1).await.unwrap().next, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_slot_drops_all_positions_and_is_replaced() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let table = table("Lost");
    let server = open(&url).await;
    let log = log_of(&server);
    let begin = log.kept().next;
    server.create_table(&table).await.unwrap();
    commit_one(&server, &table, upsert("p", "r", 1)).await.unwrap();
    wait_for(&log, begin, 2).await;
    server.close().await.unwrap();
    let lose = |how: &str| {
        if how == "the database removes its log" {
            cluster.sql(&url, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
            cluster.sql(&url, "SELECT pg_reload_conf()");
            // Write more than a segment of the database's log, and then begin another one.
            for _ in 0..4 {
                cluster.sql(&url, "SELECT pg_logical_emit_message(false, '', repeat('x', 30000000)), pg_switch_wal()");
            }
            cluster.sql(&url, "CHECKPOINT");
            let status = "SELECT wal_status FROM pg_replication_slots WHERE database = current_database()";
            assert_eq!(cluster.sql(&url, status).trim(), "lost");
            cluster.sql(&url, "ALTER SYSTEM RESET max_slot_wal_keep_size");
            cluster.sql(&url, "SELECT pg_reload_conf()");
        } else {
            let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                        WHERE database = current_database()";
            cluster.sql(&url, drop);
        }
    };
    let mut end = begin + 2;
    for how in ["the database removes its log", "the slot is dropped"] {
        let without = try_open(&url, None).await.unwrap();
        commit_one(&without, &table, upsert("p", how, 2)).await.unwrap();
        without.close().await.unwrap();
        let active = "SELECT count(*) FROM pg_replication_slots WHERE active";
        eventually("an inactive slot", async || cluster.sql(&url, active).trim() == "0").await;
        lose(how);
        let server = open(&url).await;
        let log = log_of(&server);
        let kept = log.kept();
        assert!(kept.first > end && kept.first == kept.next, "{how}: {kept:?}");
        // A reader that had read everything must not continue as if nothing had been lost.
        let all = ChangeSelection::default();
        assert!(matches!(log.read(end, &all, 1).await, Err(ChangesError::Dropped(at)) if at == kept.first), "{how}");
        // The tables that existed before are known.
        commit_one(&server, &table, upsert("p", "after", 3)).await.unwrap();
        let shown = wait_for(&log, kept.next, 1).await;
        assert!(matches!(&shown[0].changes[0].effect, ChangeEffect::Put { table: of, .. } if **of == table));
        end = log.kept().next;
        server.close().await.unwrap();
    }
    let objects = "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)";
    assert_eq!(cluster.sql(&url, objects).trim(), "2", "one slot and its publication");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_lost_while_the_server_runs_is_replaced() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (server, table) = (open(&url).await, table("Running"));
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    server.create_table(&table).await.unwrap();
    wait_for(&log, begin, 1).await;
    eventually("a dropped slot", async || {
        let drop = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database(); \
                    SELECT pg_sleep(0.05); \
                    DO $$ BEGIN \
                    PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                    WHERE database = current_database() AND NOT active; \
                    IF FOUND THEN PERFORM set_config('test.slot', 'dropped', false); END IF; \
                    EXCEPTION WHEN object_in_use THEN END $$; \
                    SELECT current_setting('test.slot', true)";
        cluster.sql(&url, drop).trim().ends_with("dropped")
    })
    .await;
    eventually("a new log", async || log.kept().first > begin + 1).await;
    let next = log.kept().next;
    commit_one(&server, &table, upsert("p", "r", 1)).await.unwrap();
    wait_for(&log, next, 1).await;
    assert!(matches!(log.read(begin, &ChangeSelection::default(), 1).await, Err(ChangesError::Dropped(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_log_includes_what_this_server_was_not_told() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let server = open(&url).await;
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    server.create_table(&table("Known")).await.unwrap();
    wait_for(&log, begin, 1).await;
    // A server that stores transactions tells the others only after that.
    let next = cluster.sql(&url, "UPDATE rowhouse_change_log SET next = next + 5 RETURNING next");
    let next = next.trim().parse::<u64>().unwrap();
    assert_eq!(log.latest().await.unwrap().next, next);
    assert_eq!(log.kept().next, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_no_server_uses_is_removed_and_another_one_has_later_positions() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let server = open(&url).await;
    server.create_table(&table("Unused")).await.unwrap();
    let begin = log_of(&server).kept().next;
    let count = "SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()) \
                 + (SELECT count(*) FROM pg_publication) \
                 + (SELECT count(*) FROM pg_tables WHERE tablename LIKE 'rowhouse_change%')";
    assert_eq!(cluster.sql(&url, count).trim(), "6");
    let renewed_long_ago = "UPDATE rowhouse_leases SET renewed = now() - interval '1 hour' WHERE number = 66";
    // A log that is in use stays.
    cluster.sql(&url, renewed_long_ago);
    let without = try_open(&url, None).await.unwrap();
    assert!(without.change_log().is_none());
    tokio::time::sleep(Duration::from_millis(300)).await;
    without.close().await.unwrap();
    assert_eq!(cluster.sql(&url, count).trim(), "6");
    server.close().await.unwrap();
    cluster.sql(&url, renewed_long_ago);
    let without = try_open(&url, None).await.unwrap();
    eventually("the removal of the log", async || cluster.sql(&url, count).trim() == "0").await;
    without.create_table(&table("Other")).await.unwrap();
    let server = open(&url).await;
    assert!(log_of(&server).kept().first > begin);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_log_requires_is_named() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let error = async |url: &str| try_open(url, Some(DAY)).await.err().map(|error| error.to_string());
    let (head, rest) = url.split_once("rowhouse@").unwrap();
    let (database, plain) = (rest.rsplit_once('/').unwrap().1, format!("{head}plain@{rest}"));
    cluster.sql(
        &url,
        &format!("CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE {database} TO plain; GRANT CREATE ON SCHEMA public TO plain"),
    );
    let refused = error(&plain).await.unwrap();
    assert!(refused.contains("needs REPLICATION"), "{refused}");
    // The same server works without the log, and with it once the user has the permission.
    drop(try_open(&plain, None).await.unwrap());
    cluster.sql(&url, "ALTER ROLE plain REPLICATION");
    let server = try_open(&plain, Some(DAY)).await.unwrap();
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    server.create_table(&table("Plain")).await.unwrap();
    wait_for(&log, begin, 1).await;
    drop(server);
    // A user with a password.
    let guarded = cluster.database();
    let database = guarded.rsplit_once('/').unwrap().1;
    cluster.sql(
        &guarded,
        &format!("CREATE ROLE guarded LOGIN REPLICATION PASSWORD 'secret'; ALTER DATABASE {database} OWNER TO guarded"),
    );
    let server = try_open(&guarded.replace("rowhouse@", "guarded:secret@"), Some(DAY)).await.unwrap();
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    server.create_table(&table("Guarded")).await.unwrap();
    wait_for(&log, begin, 1).await;
    drop(server);
    cluster.sql(&url, "ALTER SYSTEM SET wal_level = replica");
    // The slots do not permit the level.
    eventually("inactive slots", async || {
        cluster.sql(&url, "SELECT count(*) FROM pg_replication_slots WHERE active").trim() == "0"
    })
    .await;
    cluster.sql(
        &url,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()",
    );
    cluster.sql(
        &guarded,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()",
    );
    cluster.kill();
    let refused = error(&plain).await.unwrap();
    assert!(refused.contains("wal_level = replica; run ALTER SYSTEM SET wal_level = logical"), "{refused}");
}

/// Returns characters that the database cannot compress. Each takes three bytes.
fn incompressible(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| char::from_u32(0x4E00 + u32::try_from(random.below(0x5000)).unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_policies_that_the_database_stores_separately_are_complete() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (server, table) = (open(&url).await, table("Large"));
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    let mut random = Random::new(7);
    let (partition, row) = (incompressible(&mut random, 400), incompressible(&mut random, 400));
    server.create_table(&table).await.unwrap();
    let names: Vec<String> = (0..5).map(|_| incompressible(&mut random, 64)).collect();
    let policies = StoredAccessPolicies::new(names.iter().map(|name| StoredAccessPolicy::new(name).unwrap()).collect());
    server.set_policies(&table, policies.clone().unwrap()).await.unwrap();
    for value in [1, 2] {
        commit_one(&server, &table, upsert(&partition, &row, value)).await.unwrap();
    }
    commit_one(&server, &table, delete(&partition, &row)).await.unwrap();
    let retention = TableSettingsUpdate { retention: Some(Retention::by_age(60)), ..TableSettingsUpdate::default() };
    server.update_settings(&table, retention).await.unwrap();
    let shown = wait_for(&log, begin, 6).await;
    let expected = key(&partition, &row).encode();
    for (position, stored) in [(2, Some(1)), (3, Some(2)), (4, None)] {
        match &shown[position].changes[0].effect {
            ChangeEffect::Put { key, record, .. } => assert_eq!((key, Some(value(record))), (&expected, stored)),
            ChangeEffect::Delete { key, .. } => assert_eq!((key, None), (&expected, stored)),
            other => panic!("{other:?}"),
        }
    }
    let ChangeEffect::SetTable { policies: of, settings, .. } = &shown[5].changes[0].effect else { panic!() };
    assert_eq!((of, settings.retention.is_some()), (&policies.unwrap(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_log_begins_when_a_standby_is_promoted() {
    let Some(cluster) = Cluster::start_with_standby() else { return };
    let database = cluster.database();
    let (server, table) = (open(&cluster.either(&database)).await, table("Failover"));
    let (log, begin) = (log_of(&server), log_of(&server).kept().next);
    server.create_table(&table).await.unwrap();
    commit_one(&server, &table, upsert("p", "before", 1)).await.unwrap();
    wait_for(&log, begin, 2).await;
    cluster.kill();
    cluster.promote();
    eventually("a write to the new primary", async || {
        commit_one(&server, &table, upsert("p", "during", 1)).await.is_ok()
    })
    .await;
    eventually("a new log", async || log.kept().first > begin + 2).await;
    let all = ChangeSelection::default();
    assert!(matches!(log.read(begin + 2, &all, 1).await, Err(ChangesError::Dropped(_))));
    let next = log.kept().next;
    commit_one(&server, &table, upsert("p", "after", 1)).await.unwrap();
    let shown = wait_for(&log, next, 1).await;
    let ChangeEffect::Put { key: shown, .. } = &shown[0].changes[0].effect else { panic!() };
    assert_eq!(*shown, key("p", "after").encode());
}
