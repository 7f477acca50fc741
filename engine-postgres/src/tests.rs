//! Tests of slots, connections, and the plans of the statements. Plans must use the primary key, whatever the size of a
//! table.

use super::statements as sql;
use super::{Cluster as Places, PostgresOptions, Settings};
use crate::connections::attempt::AttemptError;
use crate::connections::node::Lease;
use crate::slot::INDEX_LEASE;
use crate::{Engine, Fault, Postgres, StoreError, TableKey};
use model::clock::SystemClock;
use model::{AccountName, Clock, Condition, DateTime, EntityKey, KeyText, Mutation};
use model::{RecordBuilder, TableName, Transaction};
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_support::TIMEOUT;
use test_support::cluster::Cluster;
use tokio::time::timeout;

/// A clock that stands still. The clocks of two servers may show the same time.
#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> DateTime {
        DateTime::parse("2026-01-02T03:04:05Z").unwrap()
    }
}

async fn open(options: &PostgresOptions, clock: impl Clock) -> Result<Postgres, StoreError> {
    Postgres::open(options, Arc::new(clock), &mut |_| Places::one_node()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_whose_clocks_agree_give_out_different_stamps_because_their_slots_differ() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 2);
    let table = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Slots").unwrap() };
    let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
    let insert = || {
        let insert = Mutation::Insert { key: key.clone(), properties: RecordBuilder::default() };
        Transaction::single(insert)
    };
    let delete = || Transaction::single(Mutation::Delete { key: key.clone(), condition: Condition::Any });
    let one = open(&options, StoppedClock).await.unwrap();
    let other = open(&options, StoppedClock).await.unwrap();
    one.create_table(&table).await.unwrap();
    for has_own_slot in [true, false] {
        if !has_own_slot {
            other.shared.slot().imitate(&one.shared.slot());
        }
        let first = one.commit(&table, insert()).await.unwrap();
        one.commit(&table, delete()).await.unwrap();
        let second = other.commit(&table, insert()).await.unwrap();
        other.commit(&table, delete()).await.unwrap();
        assert_eq!(first != second, has_own_slot, "{first:?} and {second:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_changes_hands_goes_on_after_what_its_former_server_may_have_given_out() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 2);
    let first = open(&options, StoppedClock).await.unwrap();
    let held = "SELECT number FROM rowhouse_leases WHERE holder IS NOT NULL";
    let number = cluster.sql(&options.url, held);
    let reserved = first.shared.stamp(DateTime::MIN).await.unwrap();
    // The former holder must not take the slot again before the other server does.
    let no_renewal = first.shared.reserving.lock().await;
    // All other slots are taken for a long time, and this one appears to have been abandoned.
    cluster.sql(
        &options.url,
        &format!(
            "UPDATE rowhouse_leases SET holder = 1, renewed = now() + interval '1 hour' WHERE number < 64; \
             UPDATE rowhouse_leases SET holder = 2, renewed = now() - interval '1 hour' WHERE number = {number}"
        ),
    );
    let second = open(&options, StoppedClock).await.unwrap();
    let begins = second.shared.stamp(DateTime::MIN).await.unwrap();
    // The former holder still issues the stamps that it reserved, but no others.
    let mut last = reserved;
    for _ in 0..100 {
        last = first.shared.stamp(last).await.unwrap();
    }
    assert!(last < begins, "{last:?} and {begins:?}");
    assert_eq!(last.ticks() % 64, begins.ticks() % 64);
    drop(no_renewal);
    let refused = timeout(TIMEOUT, open(&options, StoppedClock)).await.unwrap();
    assert!(refused.unwrap_err().to_string().contains("accepts no more servers"));
    let beyond = DateTime::from_ticks(begins.ticks() + 1).unwrap();
    let refused = timeout(TIMEOUT, first.shared.stamp(beyond)).await.unwrap();
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_for_indexes_outlives_a_long_step_but_not_its_holder() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 4);
    let engine = open(&options, SystemClock).await.unwrap();
    let held_by_another = |seconds: f64| {
        let sql = format!(
            "UPDATE rowhouse_leases SET holder = 1, renewed = now() - interval '{seconds} s' WHERE number = {INDEX_LEASE}"
        );
        cluster.sql(&options.url, &sql);
    };
    // Far in the future, so that a slow machine does not let it expire.
    held_by_another(-3600.0);
    assert!(!engine.shared.hold_short_lease(INDEX_LEASE).await.unwrap(), "the holder lives");
    held_by_another(4.0);
    assert!(engine.shared.hold_short_lease(INDEX_LEASE).await.unwrap(), "the holder has died");
    let renewed = format!("SELECT renewed FROM rowhouse_leases WHERE number = {INDEX_LEASE}");
    let before = cluster.sql(&options.url, &renewed);
    let long_step = async {
        while cluster.sql(&options.url, &renewed) == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, engine.shared.while_renewing(INDEX_LEASE, long_step)).await.expect("the lease is renewed");
}

const PARTITION: &str = r"'\x000000000000000170'::bytea";

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_about_entities_goes_by_the_primary_key_in_its_order() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 2);
    let engine = open(&options, SystemClock).await.unwrap();
    let table = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Planned").unwrap() };
    engine.create_table(&table).await.unwrap();
    // Insert many rows without planner statistics, as after an import.
    cluster.sql(
        &options.url,
        "INSERT INTO rowhouse_entities SELECT decode(lpad(to_hex(n % 3), 18, '0'), 'hex'), decode(md5(n::text), 'hex'), \
         '' FROM generate_series(1, 20000) n; \
         INSERT INTO rowhouse_index_entries SELECT partition, row, 7, substring(row FOR 3) FROM rowhouse_entities",
    );
    let table_is_current = engine.shared.names.table_is_current.as_str();
    let rows = r"ARRAY['\x61', '\x62']::bytea[]";
    let (from, to) = (r"'\x61'", r"'\x62'");
    let in_both_directions = [
        (sql::ROWS_FROM, format!("{PARTITION}, {from}, 100")),
        (sql::ROWS_BETWEEN, format!("{PARTITION}, {from}, {to}, 100")),
        (sql::PAIRS_BETWEEN, format!("{PARTITION}, {from}, '\\x01', {to}, 100")),
    ]
    .into_iter()
    .flat_map(|(statement, values)| [false, true].map(|is_descending| (statement.text(is_descending), values.clone())));
    let scans = [
        (sql::ENTITY_AT, format!("{PARTITION}, {from}, '\\x01', {to}, 100")),
        (sql::ENTRIES_BETWEEN, format!("7, {from}, {PARTITION}, {from}, {to}, {PARTITION}, {to}, 100")),
        (sql::ENTRIES_BETWEEN_DESCENDING, format!("7, {from}, {PARTITION}, {from}, {to}, {PARTITION}, {to}, 100")),
        (sql::ENTRY_AT, "7, 100".to_owned()),
    ];
    let points = [
        (sql::RECORD, format!("{PARTITION}, {from}")),
        (sql::LOCK_RECORDS, format!("{PARTITION}, {rows}")),
        (sql::RECORDS, format!("{PARTITION}, {rows}")),
        (sql::RECORD_OF_TABLE, format!("{PARTITION}, {from}, 1, 0")),
        (sql::DELETE_BETWEEN, format!("{PARTITION}, {from}, '\\x01', {to}")),
        (sql::DELETE_ENTRIES_BETWEEN, format!("{PARTITION}, {from}, '\\x01', {to}")),
        (sql::DELETE_ENTRIES_BEFORE, format!("7, {to}, {PARTITION}, {to}")),
        (sql::RECORDS_IN_ORDER, format!("ARRAY[{PARTITION}], {rows}")),
        (table_is_current, "1, 0".to_owned()),
        (sql::TABLE_BY_NAME, r"'\x61', '\x62'".to_owned()),
        (sql::COUNT_TABLES, r"'\x61', '\x62'".to_owned()),
        (sql::DELETE_TABLE, r"'\x61', '\x62'".to_owned()),
    ];
    let lease = engine.shared.pool.take().await.unwrap();
    for (is_scan, (statement, values)) in
        in_both_directions.chain(scans).map(|scan| (true, scan)).chain(points.into_iter().map(|point| (false, point)))
    {
        lease.batch_execute(&format!("DEALLOCATE ALL; PREPARE planned AS {statement}")).await.unwrap();
        let values = if values.is_empty() { values } else { format!("({values})") };
        let plan = lease.query(&format!("EXPLAIN (COSTS OFF) EXECUTE planned{values}"), &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        let has_bounds = plan.contains("Index Cond");
        assert!(has_bounds && !plan.contains("Seq Scan"), "{statement}\n{plan}");
        // A page must not read more than its limit.
        assert!(!is_scan || !plan.contains("Sort") && !plan.contains("Filter"), "{statement}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_given_up_leaves_no_session_waiting_in_the_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 4);
    let engine = Arc::new(open(&options, SystemClock).await.unwrap());
    let table = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Left").unwrap() };
    engine.create_table(&table).await.unwrap();
    let waiting = || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND application_name = 'rowhouse' AND wait_event_type = 'Lock'";
        cluster.sql(&options.url, waiting).trim().parse::<u32>().unwrap()
    };
    let held = cluster.open_transaction(&options.url, "LOCK TABLE rowhouse_entities IN ACCESS EXCLUSIVE MODE");
    let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
    let request = tokio::spawn({
        let (engine, table) = (Arc::clone(&engine), table.clone());
        async move { engine.get(&table, &key).await }
    });
    let began = Instant::now();
    while waiting() == 0 {
        assert!(began.elapsed() < TIMEOUT, "the read does not start to wait");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    request.abort();
    let given_up = Instant::now();
    while waiting() > 0 {
        // This is well before the statement timeout.
        assert!(given_up.elapsed() < Duration::from_secs(6));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(held);
    assert!(engine.table(&table).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_connection_that_is_too_long_is_without_effect() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 1);
    let engine = open(&options, SystemClock).await.unwrap();
    let lease = engine.shared.pool.take().await.ok().unwrap();
    let account = AccountName::new("account1").unwrap();
    let began = Instant::now();
    assert!(matches!(engine.list_tables(&account, "", 1).await, Err(Fault::Unavailable(_))));
    // The only connection has not been returned.
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    lease.return_to_pool();
    assert!(engine.list_tables(&account, "", 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unreachable_database_is_named_without_the_password() {
    let settings = Settings::new("postgres://me:inside@127.0.0.1:1/tables", None).unwrap();
    let error = crate::schema::opening::prepare(&settings, false).await.unwrap_err().to_string();
    assert!(error.contains("'tables' at 127.0.0.1:1") && !error.contains("inside"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_another_node_or_a_moved_shard_is_no_internal_error() {
    let Some(cluster) = Cluster::shared() else { return };
    let options = PostgresOptions::new(cluster.database(), 2);
    let engine = open(&options, SystemClock).await.unwrap();
    let lease = engine.shared.pool.take().await.unwrap();
    let lost = ["RetryElsewhere", "Fault(Unknown"];
    let transient = ["Retry(", "Retry("];
    let defect = ["Fault(Storage", "Fault(Storage"];
    for (code, message, [before, call]) in [
        // Citus forwards the message of libpq, which has further lines.
        ("XX000", "server closed the connection unexpectedly\n\tThis probably means the server terminated", lost),
        ("XX000", "failed to prepare transaction 'citus_0_1' on host 127.0.0.1:5432", lost),
        ("58030", "failed to complete COPY on 127.0.0.1:5432", lost),
        ("58030", "could not read block 7 in file \"base/1/2\": Input/output error", defect),
        ("XX000", "could not find valid entry for shard 102053", transient),
        ("XX000", "no active placements were found for shard 102066", transient),
        ("XX000", "duplicate key value violates unique constraint \"rowhouse_entities_pkey_102015\"", transient),
        ("XX000", "invalid page in block 7 of relation base/1/2", defect),
    ] {
        let raise = format!("DO $do$ BEGIN RAISE '%', $text${message}$text$ USING ERRCODE = '{code}'; END $do$");
        let error = lease.batch_execute(&raise).await.unwrap_err();
        for (found, expected) in [(AttemptError::before_commit(&error), before), (AttemptError::at_call(&error), call)]
        {
            let found = format!("{found:?}");
            assert!(found.starts_with(expected), "{message}: {found}");
        }
    }
    lease.return_to_pool();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_shared_fairly_among_equal_nodes() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    // The same server under two names.
    let (before, after) = url.split_once("127.0.0.1").expect("the cluster listens on this address");
    let (port, name) = after.split_once('/').unwrap();
    let url = format!("{before}127.0.0.1{port},localhost{port}/{name}?load_balance_hosts=random");
    let settings = Settings::new(&url, None).unwrap();
    assert_eq!(settings.nodes.len(), 2, "{url}");
    for (connections_max, each) in [(1, 1), (4, 2), (5, 3)] {
        let options = PostgresOptions::new(url.clone(), connections_max);
        let engine = open(&options, SystemClock).await.unwrap();
        let mut leases = Vec::new();
        for _ in 0..each {
            for node in &*engine.shared.pool.nodes() {
                leases.push(node.take().await.unwrap());
            }
        }
        let figures = engine.shared.pool.nodes().iter().map(|node| node.figures()).collect::<Vec<_>>();
        assert_eq!(figures.iter().map(|node| node.connections).collect::<Vec<_>>(), [each; 2]);
        assert!(figures.iter().all(|node| node.is_up && node.connections_idle == 0), "{figures:?}");
        assert!(engine.shared.pool.take().await.is_err(), "no node has another connection");
        leases.into_iter().for_each(Lease::return_to_pool);
    }
}
