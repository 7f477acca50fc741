//! Indexes that are built, interrupted, removed and damaged.

use super::*;
use engine::Order;
use engine::check::CheckReport;
use engine_contract::cases::indexes::{set_indexes, wait_until_ready};
use engine_contract::support::{names, page};
use model::IndexedProperty;
use std::fs;
use std::path::Path;

fn with_total(number: usize, total: Option<i32>) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push("Other", EdmValue::Int32(1));
    if let Some(total) = total {
        properties.push("Total", EdmValue::Int32(total));
    }
    Mutation::InsertOrReplace { key: key(number), properties }
}

/// Adds entities with totals in descending order, except for every seventh one.
async fn fill_with_totals(engine: &Embedded, count: usize) {
    engine.create_table(&table()).await.unwrap();
    for first in (0..count).step_by(100) {
        let mutation = |number: usize| {
            with_total(number, (!number.is_multiple_of(7)).then(|| 9999 - i32::try_from(number).unwrap()))
        };
        let mutations = (first..count.min(first + 100)).map(mutation).collect();
        engine.commit(&table(), Transaction::new(mutations).unwrap()).await.unwrap();
    }
}

async fn ordered(engine: &Embedded) -> Vec<String> {
    let order = Order::Value { property: IndexedProperty::new("Total").unwrap(), is_descending: false };
    names(&page(engine, &table(), Scan { order, ..scan_all() }).await.0)
}

async fn sorted(engine: &Embedded) -> Vec<String> {
    let mut entities = page(engine, &table(), scan_all()).await.0;
    let total = |entity: &model::Entity| match entity.record.view().unwrap().get("Total").unwrap() {
        Some(EdmValue::Int32(total)) => Some(total),
        _ => None,
    };
    entities.retain(|entity| total(entity).is_some());
    entities.sort_by_key(total);
    names(&entities)
}

fn problems(folder: &Path) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let report: CheckReport = check_folder(folder, scratch.path(), &|_| true).unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Copies the folder of an engine that is open. On a busy machine, the engine may seem idle by then. If it flushed its
/// memtable during the copy, the copy would have parts of both states, which no crash leaves.
async fn copy_open(engine: &Embedded, from: &Path, to: &Path) {
    let _held = engine.shared.upkeep_held.lock().await;
    copy(from, to);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_an_index_is_built_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill_with_totals(&engine, 2000).await;
    let mut held = engine.shared.builds_held.lock().await;
    set_indexes(&engine, &table(), &["Total"]).await;
    let index = engine.shared.catalog.read().get(&table()).unwrap().table.indexes()[0].id;
    let entries = || engine.shared.storage.tree.snapshot().range(index.to_bytes()..index.next().to_bytes()).count();
    // The lock is fair, so each release lets the indexer begin one step.
    let began = Instant::now();
    while entries() < 400 {
        assert!(began.elapsed() < TIMEOUT, "no step is made");
        drop(held);
        held = engine.shared.builds_held.lock().await;
    }
    assert!(entries() < 1500, "the index is not finished");
    let state = engine.indexes(&table()).await.unwrap();
    assert!(!state[0].is_ready);
    let order = Order::Value { property: state[0].property.clone(), is_descending: true };
    let early = engine.scan(&table(), Scan { order, ..scan_all() }, Count(0)).await;
    assert!(matches!(early, Err(ReadError::IndexNotReady)));
    // Changes before and after the place that the indexer has reached.
    for number in [1, 2, 3, 1997, 1998, 1999, 2000] {
        let mutation = if number % 2 == 0 {
            Mutation::Delete { key: key(number), condition: Condition::Any }
        } else {
            with_total(number, Some(5))
        };
        drop(commit(&engine, mutation).await);
    }
    let crashed = tempfile::tempdir().unwrap();
    copy_open(&engine, folder.path(), &crashed.path().join("data")).await;
    drop(held);
    wait_until_ready(&engine, &table()).await;
    assert_eq!(ordered(&engine).await, sorted(&engine).await);
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(problems(folder.path()), [""; 0]);

    let path = crashed.path().join("data");
    assert_eq!(problems(&path), [""; 0], "an unfinished index is not damage");
    let engine = Embedded::open(&path, &EmbeddedOptions::default(), TestClock::at(1000)).unwrap();
    wait_until_ready(&engine, &table()).await;
    assert_eq!(ordered(&engine).await, sorted(&engine).await);
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(problems(&path), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_does_not_delay_the_index_of_another_account() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill_with_totals(&engine, 2560).await;
    let small = TableKey { account: AccountName::new("zebra").unwrap(), ..table() };
    engine.create_table(&small).await.unwrap();
    engine.commit(&small, Transaction::single(with_total(1, Some(1)))).await.unwrap();
    let mut held = engine.shared.builds_held.lock().await;
    set_indexes(&engine, &table(), &["Total"]).await;
    set_indexes(&engine, &small, &["Total"]).await;
    let is_ready = async |table: &TableKey| engine.indexes(table).await.unwrap()[0].is_ready;
    let began = Instant::now();
    while !is_ready(&small).await {
        assert!(began.elapsed() < TIMEOUT, "no step is made");
        // The lock is fair, so each release lets the indexer begin one step. The large table needs ten.
        drop(held);
        held = engine.shared.builds_held.lock().await;
    }
    assert!(!is_ready(&table()).await, "the large table was indexed first");
    drop(held);
    wait_until_ready(&engine, &table()).await;
    assert_eq!(ordered(&engine).await, sorted(&engine).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_a_removed_index_and_of_a_deleted_table_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill_with_totals(&engine, 1500).await;
    let without_index = stored(&engine.shared.storage);
    set_indexes(&engine, &table(), &["Total", "Other"]).await;
    wait_until_ready(&engine, &table()).await;
    assert_eq!(stored(&engine.shared.storage), without_index + sorted(&engine).await.len() + 1500);
    set_indexes(&engine, &table(), &["Other"]).await;
    assert_eq!(stored_after_purge(&engine).await, without_index + 1500);
    // An index that is removed while it is being built gets no further entries.
    let held = engine.shared.builds_held.lock().await;
    set_indexes(&engine, &table(), &["Total"]).await;
    set_indexes(&engine, &table(), &[]).await;
    drop(held);
    assert_eq!(stored_after_purge(&engine).await, without_index);
    set_indexes(&engine, &table(), &["Total"]).await;
    engine.delete_table(&table()).await.unwrap();
    assert_eq!(stored_after_purge(&engine).await, 0);
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(problems(folder.path()), [""; 0]);
}

/// A purge of indexes, or of a table with its indexes, is about to begin, has begun, or is interrupted by a shutdown.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_during_a_purge_finds_no_damage() {
    for (has_begun, is_table_deleted) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder);
        fill_with_totals(&engine, 1500).await;
        set_indexes(&engine, &table(), &["Total", "Other"]).await;
        wait_until_ready(&engine, &table()).await;
        let before = stored(&engine.shared.storage);
        let mut held = engine.shared.purges_held.lock().await;
        if is_table_deleted {
            engine.delete_table(&table()).await.unwrap();
        } else {
            set_indexes(&engine, &table(), &[]).await;
        }
        // The lock is fair, so each release lets the purger begin one step.
        let began = Instant::now();
        while has_begun && stored(&engine.shared.storage) == before {
            assert!(began.elapsed() < TIMEOUT, "no step is made");
            drop(held);
            held = engine.shared.purges_held.lock().await;
        }
        let left = stored(&engine.shared.storage);
        assert!(left > 0 && (left < before) == has_begun, "{left} of {before}");
        let stopped = tempfile::tempdir().unwrap();
        engine.shared.storage.sync().unwrap();
        copy_open(&engine, folder.path(), &stopped.path().join("data")).await;
        assert_eq!(problems(&stopped.path().join("data")), [""; 0], "{left} of {before}");
        drop(held);
        engine.close().await.unwrap();
        drop(engine);
        assert_eq!(problems(folder.path()), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_entries_and_entities_that_do_not_agree() {
    let entity = |total| with_total(5, total);
    let entry = |total, number: usize| model::index::entry_of_value(EdmValue::Int32(total), &key(number).encode());
    for (is_deleted, key_in_index, value, expected) in [
        (false, entry(7, 5), &b""[..], None),
        (true, entry(7, 5), b"", Some("the index of Total lacks the entity")),
        (false, entry(8, 5), b"", Some("no entity has this entry in the index of Total")),
        (false, entry(7, 6), b"", Some("no entity has this entry in the index of Total")),
        (false, entry(7, 5), b"x", Some("no entity has this entry in the index of Total")),
        (false, b"damaged".to_vec(), b"", Some("no entity has this entry in the index of Total")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder);
        engine.create_table(&table()).await.unwrap();
        commit(&engine, entity(Some(7))).await.unwrap();
        set_indexes(&engine, &table(), &["Total"]).await;
        wait_until_ready(&engine, &table()).await;
        let index = engine.shared.catalog.read().get(&table()).unwrap().table.indexes()[0].id;
        let mut operations = Operations::default();
        let full_key = layout::entity_key(index, &key_in_index);
        if is_deleted {
            operations.delete(full_key);
        } else {
            operations.put(full_key, value);
        }
        engine.shared.storage.write(vec![operations.into_transaction(Origin::Index)], None, true).unwrap();
        engine.close().await.unwrap();
        drop(engine);
        let found = problems(folder.path());
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_has_no_entries_and_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    fill_with_totals(&engine, 10).await;
    let id = engine.shared.catalog.read().get(&table()).unwrap().table.id;
    let mut operations = Operations::default();
    operations.put(layout::entity_key(id, &key(5).encode()), b"garbage".as_slice());
    engine.shared.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
    set_indexes(&engine, &table(), &["Total"]).await;
    wait_until_ready(&engine, &table()).await;
    assert_eq!(ordered(&engine).await.len(), 7);
    commit(&engine, with_total(5, Some(1))).await.unwrap();
    assert_eq!(ordered(&engine).await[0], "p/000005");
}
