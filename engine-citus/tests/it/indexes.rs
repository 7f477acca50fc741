//! Tests of indexes that several servers use, build and change, and of what remains in the database.

use engine::{CommitError, Engine, EngineExt, Order, ReadError, Scan};
use engine_contract::cases::indexes::{set_indexes, wait_until_ready};
use engine_contract::support::*;
use engine_postgres::{Postgres, PostgresOptions};
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{Condition, DateTime, EdmValue, Filter, IndexedProperty, Mutation, MutationError};
use model::{RecordBuilder, Retention, TableSettingsUpdate, Transaction};
use rowhouse_engine_citus::{Balance, open as open_database};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_support::cluster::Cluster;
use test_support::eventually;

type Server = Arc<Postgres>;

const ENTRIES: &str = "SELECT count(*) FROM rowhouse_index_entries";
const INDEXES: &str = "SELECT count(*) FROM rowhouse_indexes";

async fn open(url: &str) -> Server {
    let options = PostgresOptions::new(url.to_owned(), 6);
    Arc::new(open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap())
}

fn by_value() -> Scan {
    let property = IndexedProperty::new("value").unwrap();
    Scan { order: Order::Value { property, is_descending: false }, ..scan_all() }
}

fn value_is(number: i64) -> Scan {
    let comparison =
        Comparison { property: PropertyName::new("value"), operator: Operator::Equal, literal: Literal::Int64(number) };
    Scan { filter: Some(Filter::Compare(comparison)), ..scan_all() }
}

async fn ordered(engine: &Server, table: &engine::TableKey) -> Vec<String> {
    names(&page(&**engine, table, by_value()).await.0)
}

/// The index has an entry for every entity, and nothing else.
async fn assert_complete(engine: &Server, table: &engine::TableKey) {
    let mut expected = all(&**engine, table).await;
    expected.sort_by_key(|entity| value(&entity.record));
    assert_eq!(ordered(engine, table).await, names(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_other_indexes_writes_the_entries_of_the_current_ones() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (one, other) = tokio::join!(open(&url), open(&url));
    let table = table("Stale");
    one.create_table(&table).await.unwrap();
    commit_one(&*other, &table, insert("p", "0", 5)).await.unwrap();
    set_indexes(&*one, &table, &["value"]).await;
    wait_until_ready(&*one, &table).await;
    // The other server does not know the index yet. From here on, nothing is built.
    commit_one(&*other, &table, upsert("p", "0", 7)).await.unwrap();
    commit_one(&*other, &table, insert("p", "1", 6)).await.unwrap();
    assert_eq!(ordered(&one, &table).await, ["p/1", "p/0"]);
    set_indexes(&*one, &table, &["other"]).await;
    wait_until_ready(&*one, &table).await;
    let missing = other.scan(&table, by_value(), CollectingSink::default()).await;
    assert!(matches!(missing, Err(ReadError::IndexNotFound)));
    commit_one(&*other, &table, upsert("p", "2", 1)).await.unwrap();
    set_indexes(&*one, &table, &["other", "value"]).await;
    wait_until_ready(&*one, &table).await;
    // A server that has not written since finds the index, too: first without, then with the help of the first page.
    for has_index in [false, true] {
        let (found, end) = page(&*other, &table, value_is(6)).await;
        assert_eq!((names(&found), end.index.is_some()), (vec!["p/1".to_owned()], has_index));
    }
    assert_eq!(ordered(&other, &table).await, ["p/2", "p/1", "p/0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_another_retention_obeys_the_current_one() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (one, other) = tokio::join!(open(&url), open(&url));
    let table = table("Stale");
    one.create_table(&table).await.unwrap();
    set_indexes(&*one, &table, &["value"]).await;
    wait_until_ready(&*one, &table).await;
    let mut properties = properties(&[("value", 5)]);
    properties.push("Ends", EdmValue::DateTime(DateTime::from_ticks(START_TICKS - 1).unwrap()));
    let insert = Mutation::Insert { key: key("p", "0"), properties };
    commit_one(&*other, &table, insert.clone()).await.unwrap();
    let expiring = Retention::by_property("Ends", 0);
    for operation in ["get", "query", "query by index", "list", "insert"] {
        for retention in [expiring.clone(), None] {
            let update = TableSettingsUpdate { retention: Some(retention.clone()), ..TableSettingsUpdate::default() };
            one.update_settings(&table, update).await.unwrap();
            let is_found = match operation {
                "get" => other.get(&table, &key("p", "0")).await.unwrap().is_some(),
                "query" => !all(&*other, &table).await.is_empty(),
                "query by index" => !page(&*other, &table, value_is(5)).await.0.is_empty(),
                "list" => !ordered(&other, &table).await.is_empty(),
                _ => commit_one(&*other, &table, insert.clone()).await.is_err(),
            };
            assert_eq!(is_found, retention.is_none(), "{operation}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_built_only_after_a_commit_that_does_not_know_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let engine = open(&url).await;
    let table = table("Early");
    engine.create_table(&table).await.unwrap();
    let mut properties = RecordBuilder::default();
    properties.push("value", EdmValue::Int64(3));
    let record = properties.finish(DateTime::from_ticks(START_TICKS).unwrap());
    let mut hex = String::new();
    record.as_bytes().iter().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
    let early = cluster.open_transaction(
        &url,
        &format!(
            "DO $do$ BEGIN PERFORM rowhouse_commit(int8send(id) || convert_to('p', 'UTF8'), id, 0, ARRAY[convert_to('r', 'UTF8')], \
             ARRAY[NULL::bytea], ARRAY[decode('{hex}', 'hex')], NULL, NULL, NULL) FROM rowhouse_tables; END $do$"
        ),
    );
    set_indexes(&*engine, &table, &["value"]).await;
    // The table appears empty, but the commit may still be completed.
    for _ in 0..20 {
        assert!(engine.indexes(&table).await.unwrap().iter().all(|index| !index.is_ready));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let early_page = engine.scan(&table, by_value(), CollectingSink::default()).await;
    assert!(matches!(early_page, Err(ReadError::IndexNotReady)));
    assert!(page(&*engine, &table, value_is(3)).await.1.index.is_none());
    early.commit();
    wait_until_ready(&*engine, &table).await;
    assert_eq!(ordered(&engine, &table).await, ["p/r"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_does_not_delay_the_index_of_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let engine = open(&url).await;
    let (large, small) = (table("Large"), table("Small"));
    for table in [&large, &small] {
        engine.create_table(table).await.unwrap();
    }
    let row = |number: i64| insert("p", &format!("{number:05}"), number);
    for first in (0..3000).step_by(100) {
        engine.commit(&large, Transaction::new((first..first + 100).map(row).collect()).unwrap()).await.unwrap();
    }
    commit_one(&*engine, &small, row(1)).await.unwrap();
    // While this transaction runs, nothing is built.
    let blocking = cluster.open_transaction(&url, "DO $do$ BEGIN PERFORM pg_current_xact_id(); END $do$");
    for table in [&small, &large] {
        set_indexes(&*engine, table, &["value"]).await;
    }
    blocking.commit();
    for table in [&small, &large] {
        wait_until_ready(&*engine, table).await;
        assert_complete(&engine, table).await;
    }
    // The rows contain the number of the transaction that marked the index as ready.
    let order = "SELECT t.name FROM rowhouse_indexes AS x JOIN rowhouse_tables AS t ON t.id = x.table_id \
         ORDER BY x.xmin::text::bigint";
    assert_eq!(cluster.sql(&url, order).trim(), "Small\nLarge");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_added_only_to_entities_that_are_unchanged() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let engine = open(&url).await;
    let table = table("Changed");
    engine.create_table(&table).await.unwrap();
    set_indexes(&*engine, &table, &["other"]).await;
    commit_one(&*engine, &table, insert("p", "r", 1)).await.unwrap();
    let add = |generation: i64, row: &str, stamp: &str| {
        cluster.sql(
            &url,
            &format!(
                "DO $do$ BEGIN PERFORM rowhouse_add_entries(e.partition, t.id, {generation}, ARRAY[{row}], \
                 ARRAY[{stamp}], ARRAY[{row}], ARRAY[77::bigint], ARRAY['\\x01'::bytea]) \
                 FROM rowhouse_entities AS e, rowhouse_tables AS t; \
                 EXCEPTION WHEN SQLSTATE 'RH001' THEN END $do$"
            ),
        );
        cluster.sql(&url, ENTRIES).trim().to_owned()
    };
    let stamp = "substring(e.record FROM 2 FOR 8)";
    assert_eq!(add(1, "e.row", "int8send(7)"), "0", "the entity has changed");
    assert_eq!(add(1, "e.row || '\\x61'", stamp), "0", "there is no such entity");
    assert_eq!(add(2, "e.row", stamp), "0", "the table has other indexes");
    assert_eq!(add(1, "e.row", stamp), "1");
    assert_eq!(add(1, "e.row", stamp), "1", "repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_continues_to_build_an_index() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let engine = open(&url).await;
    let table = table("Continued");
    engine.create_table(&table).await.unwrap();
    let rows: Vec<_> = (0..5000).map(|row| format!("{row:04}")).collect();
    fill(&*engine, &table, "p", &rows).await;
    cluster.sql(
        &url,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not yet''; END'; \
         CREATE TRIGGER fail BEFORE INSERT ON rowhouse_index_entries FOR EACH ROW \
         WHEN (NEW.row = convert_to('4900', 'UTF8')) EXECUTE FUNCTION fail()",
    );
    set_indexes(&*engine, &table, &["value"]).await;
    let stored = "SELECT count(*) FROM rowhouse_indexes WHERE built_before <> ''";
    eventually("progress", || (cluster.sql(&url, stored).trim() != "0").then_some(()));
    drop(engine);
    // The lease of the server that died has expired. The next one does not start from the beginning.
    cluster.sql(
        &url,
        "UPDATE rowhouse_leases SET renewed = now() - interval '1 hour' WHERE number = 65; \
         DELETE FROM rowhouse_index_entries WHERE row = convert_to('0000', 'UTF8'); \
         DROP TRIGGER fail ON rowhouse_index_entries",
    );
    let engine = open(&url).await;
    wait_until_ready(&*engine, &table).await;
    assert_eq!(ordered(&engine, &table).await.len(), 4999);
    set_indexes(&*engine, &table, &[]).await;
    set_indexes(&*engine, &table, &["value"]).await;
    wait_until_ready(&*engine, &table).await;
    assert_complete(&engine, &table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_indexes_and_deleted_tables_leave_no_entries() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let engine = open(&url).await;
    let table = table("Removed");
    engine.create_table(&table).await.unwrap();
    let rows: Vec<_> = (0..2500).map(|row| format!("{row:04}")).collect();
    fill(&*engine, &table, "p", &rows).await;
    set_indexes(&*engine, &table, &["value"]).await;
    wait_until_ready(&*engine, &table).await;
    assert_eq!(cluster.sql(&url, ENTRIES).trim(), "2500");
    set_indexes(&*engine, &table, &["other"]).await;
    commit_one(&*engine, &table, delete("p", "0007")).await.unwrap();
    cluster.sql(&url, "UPDATE rowhouse_indexes SET removed = now() - interval '1 hour' WHERE property = 'value'");
    eventually("the removal", || (cluster.sql(&url, INDEXES).trim() == "1").then_some(()));
    assert_eq!(cluster.sql(&url, ENTRIES).trim(), "0");
    set_indexes(&*engine, &table, &["value"]).await;
    wait_until_ready(&*engine, &table).await;
    assert_eq!(cluster.sql(&url, ENTRIES).trim(), "2499");
    engine.delete_table(&table).await.unwrap();
    eventually("the purge", || (cluster.sql(&url, "SELECT count(*) FROM rowhouse_tables").trim() == "0").then_some(()));
    assert_eq!((cluster.sql(&url, ENTRIES).trim(), cluster.sql(&url, INDEXES).trim()), ("0", "0"));
}

fn random_mutation(random: &mut Random, partition: &str) -> Mutation {
    let (row, number) = (format!("{:02}", random.below(40)), i64::try_from(random.below(10)).unwrap());
    let (key, properties) = (key(partition, &row), properties(&[("value", number)]));
    match random.below(5) {
        0 => Mutation::Delete { key, condition: Condition::Any },
        1 => Mutation::InsertOrMerge { key, properties },
        2 => Mutation::Insert { key, properties },
        _ => Mutation::InsertOrReplace { key, properties },
    }
}

fn random_transaction(random: &mut Random) -> Transaction {
    let partition = format!("p{}", random.below(3));
    let count = if random.below(2) == 0 { 1 } else { 4 };
    let mut mutations: Vec<Mutation> = Vec::new();
    while mutations.len() < count {
        let mutation = random_mutation(random, &partition);
        if mutations.iter().all(|known| known.key() != mutation.key()) {
            mutations.push(mutation);
        }
    }
    Transaction::new(mutations).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_complete_although_servers_write_while_the_list_of_indexes_changes() {
    const ROUNDS: usize = 6;
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let servers = [open(&url).await, open(&url).await, open(&url).await];
    let table = table("Changing");
    servers[0].create_table(&table).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut seeds = Random::from_environment("indexes_are_complete");
    let mut writers = Vec::new();
    for writer in 0..6_usize {
        let (server, table, is_over) = (Arc::clone(&servers[writer % 3]), table.clone(), Arc::clone(&is_over));
        let transactions: Vec<_> = (0..400).map(|_| random_transaction(&mut seeds)).collect();
        writers.push(tokio::spawn(async move {
            let mut written = 0;
            for transaction in transactions.iter().cycle() {
                match server.commit(&table, transaction.clone()).await {
                    Ok(_) => written += 1,
                    Err(CommitError::Refused(..)) => {}
                    Err(other) => panic!("{other:?}"),
                }
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
            written
        }));
    }
    for round in 0..ROUNDS {
        set_indexes(&*servers[round % 3], &table, [&["value"][..], &[], &["other", "value"]][round % 3]).await;
        if round % 3 != 1 {
            wait_until_ready(&*servers[(round + 1) % 3], &table).await;
        }
    }
    is_over.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.unwrap() > 10);
    }
    for server in &servers {
        assert_complete(server, &table).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_whose_entry_is_too_long_is_refused() {
    let Some(cluster) = Cluster::shared() else { return };
    let engine = open(&cluster.database()).await;
    let table = table("Long");
    engine.create_table(&table).await.unwrap();
    let mut random = Random::from_environment("an_entity_whose_entry_is_too_long_is_refused");
    // Nothing that the database could compress.
    let mut text = |length| {
        (0..length)
            .map(|_| char::from_u32(0x4E00 + u32::try_from(random.below(20_000)).unwrap()).unwrap())
            .collect::<String>()
    };
    let key = key(&text(400), &text(430));
    let mut properties = RecordBuilder::default();
    properties.push("value", EdmValue::String(&text(100)));
    let upsert = || Mutation::InsertOrReplace { key: key.clone(), properties: properties.clone() };
    commit_one(&*engine, &table, upsert()).await.unwrap();
    commit_one(&*engine, &table, Mutation::Delete { key: key.clone(), condition: Condition::Any }).await.unwrap();
    set_indexes(&*engine, &table, &["value"]).await;
    let refused = commit_one(&*engine, &table, upsert()).await;
    assert!(matches!(refused, Err(CommitError::Refused(0, MutationError::EntityTooLarge))), "{refused:?}");
    wait_until_ready(&*engine, &table).await;
    assert!(ordered(&engine, &table).await.is_empty());
    // An index is not built without an existing entity, but it does not delay the next one.
    set_indexes(&*engine, &table, &[]).await;
    commit_one(&*engine, &table, upsert()).await.unwrap();
    let next = table_of(ACCOUNT, "Next");
    engine.create_table(&next).await.unwrap();
    set_indexes(&*engine, &table, &["value"]).await;
    set_indexes(&*engine, &next, &["value"]).await;
    wait_until_ready(&*engine, &next).await;
    let state = engine.indexes(&table).await.unwrap();
    assert!(state.len() == 1 && !state[0].is_ready, "{state:?}");
    commit_one(&*engine, &table, Mutation::Delete { key: key.clone(), condition: Condition::Any }).await.unwrap();
    wait_until_ready(&*engine, &table).await;
}
