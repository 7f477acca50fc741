use super::settings::retain;
use crate::support::*;
use engine::{CommitError, Engine, Scan, TableKey};
use model::{
    Clock, Condition, DateTime, EdmValue, EntityKey, Mutation, MutationError, MutationResult, RecordBuilder, Retention,
    Transaction, Visibility,
};
use std::sync::Arc;

const SECOND: i64 = 10_000_000;

fn at(ticks: i64) -> DateTime {
    DateTime::from_ticks(ticks).unwrap()
}

fn ending(row: &str, ends: i64) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push("Ends", EdmValue::DateTime(at(ends)));
    Mutation::InsertOrReplace { key: key("p", row), properties }
}

async fn create(engine: &dyn Engine, retention: Option<Retention>) -> TableKey {
    let table = table("Retained");
    engine.create_table(&table).await.unwrap();
    engine.update_settings(&table, retain(retention)).await.unwrap();
    table
}

async fn names_seen(engine: &dyn Engine, table: &TableKey, visible: Visibility) -> Vec<String> {
    names(&page(engine, table, Scan { visible, ..scan_all() }).await.0)
}

fn refused<T>(result: &Result<T, CommitError>) -> Option<MutationError> {
    match result {
        Err(CommitError::Refused(_, error)) => Some(*error),
        _ => None,
    }
}

/// An entity is visible before its expiry, and from then on to deletions of expired entities only.
pub async fn an_expired_entity_is_never_returned(engine: Arc<dyn Engine>, clock: ManualClock) {
    let table = create(&*engine, Retention::by_age(60)).await;
    let written = commit_one(&*engine, &table, insert("p", "a", 1)).await.unwrap();
    let expiry = stamp(written).ticks() + 60 * SECOND;
    clock.set(expiry - 1);
    commit_one(&*engine, &table, insert("p", "b", 1)).await.unwrap();
    assert!(engine.get(&table, &key("p", "a")).await.unwrap().is_some());
    assert_eq!(names_seen(&*engine, &table, Visibility::Live).await, ["p/a", "p/b"]);
    assert!(names_seen(&*engine, &table, Visibility::Expired).await.is_empty());
    clock.set(expiry);
    assert!(engine.get(&table, &key("p", "a")).await.unwrap().is_none());
    assert_eq!(names_seen(&*engine, &table, Visibility::Live).await, ["p/b"]);
    let (expired, end) = page(&*engine, &table, Scan { visible: Visibility::Expired, ..scan_all() }).await;
    assert_eq!((names(&expired).concat(), end.examined, end.accepted), ("p/a".to_owned(), 2, 1));
    let next = end.earliest_expiry.unwrap().ticks();
    assert!(next >= expiry + 59 * SECOND && next < expiry + 61 * SECOND, "the entity that is left");
    // The last page says so, although a stored entity follows.
    let first = Scan { limit: 1, ..scan_all() };
    commit_one(&*engine, &table, insert("o", "", 1)).await.unwrap();
    commit_one(&*engine, &table, delete("p", "b")).await.unwrap();
    assert_eq!(page(&*engine, &table, first).await.1.next, None);
    // Without the retention, the entity exists again.
    engine.update_settings(&table, retain(None)).await.unwrap();
    assert!(engine.get(&table, &key("p", "a")).await.unwrap().is_some());
    assert!(names_seen(&*engine, &table, Visibility::Expired).await.is_empty());
}

pub async fn an_expired_entity_meets_no_condition(engine: Arc<dyn Engine>, clock: ManualClock) {
    let table = create(&*engine, Retention::by_age(60)).await;
    let rows: Vec<String> = (0..8).map(|row| row.to_string()).collect();
    let mut last = DateTime::MIN;
    for row in &rows {
        last = stamp(commit_one(&*engine, &table, insert("p", row, 1)).await.unwrap());
    }
    clock.set(last.ticks() + 60 * SECOND);
    let set = |name| {
        let mut properties = RecordBuilder::default();
        properties.push(name, EdmValue::Int32(2));
        properties
    };
    let (any, exact) = (Condition::Any, Condition::from_timestamp(last));
    for condition in [any, exact] {
        let (key, properties) = (key("p", "7"), set("new"));
        for mutation in [
            Mutation::Replace { key: key.clone(), properties: properties.clone(), condition: condition.clone() },
            Mutation::Merge { key: key.clone(), properties, condition: condition.clone() },
            Mutation::Delete { key, condition },
        ] {
            let what = format!("{mutation:?}");
            assert_eq!(refused(&commit_one(&*engine, &table, mutation).await), Some(MutationError::NotFound), "{what}");
        }
    }
    // A refused mutation of a transaction is named, and nothing of the transaction happens.
    let delete_last = Mutation::Delete { key: key("p", "7"), condition: Condition::Any };
    let mutations = vec![insert("p", "6", 3), delete_last];
    let result = engine.commit(&table, Transaction::new(mutations).unwrap()).await;
    assert!(matches!(result, Err(CommitError::Refused(1, MutationError::NotFound))), "{result:?}");
    assert!(names_seen(&*engine, &table, Visibility::Live).await.is_empty());
    // Mutations that accept a missing entity start from nothing, each alone and all together.
    let merge = |row| Mutation::InsertOrMerge { key: key("p", row), properties: set("new") };
    let replace = |row| Mutation::InsertOrReplace { key: key("p", row), properties: set("new") };
    for mutation in [insert("p", "0", 2), merge("1"), replace("2")] {
        let written = commit_one(&*engine, &table, mutation).await.unwrap();
        assert!(stamp(written) > last);
    }
    let together = vec![insert("p", "3", 2), merge("4"), replace("5")];
    let written = engine.commit(&table, Transaction::new(together).unwrap()).await.unwrap();
    assert!(written.into_iter().all(|written| stamp(written) > last));
    for row in ["1", "4"] {
        let record = engine.get(&table, &key("p", row)).await.unwrap().unwrap();
        assert_eq!(record.view().unwrap().len(), 1, "nothing is left of the expired entity");
    }
    assert_eq!(names_seen(&*engine, &table, Visibility::Expired).await, ["p/6", "p/7"]);
    // What was written exists, and is refused again.
    assert_eq!(refused(&commit_one(&*engine, &table, insert("p", "0", 2)).await), Some(MutationError::AlreadyExists));
}

pub async fn the_timestamp_of_an_expired_entity_is_exceeded(engine: Arc<dyn Engine>, clock: ManualClock) {
    let start = clock.now().ticks();
    let table = create(&*engine, Retention::by_property("Ends", 0)).await;
    clock.set(start + 100 * SECOND);
    let mut before = Vec::new();
    for row in ["0", "1", "2"] {
        before.push(stamp(commit_one(&*engine, &table, ending(row, start - SECOND)).await.unwrap()));
    }
    // The clock was set back, but the entities have still expired.
    clock.set(start);
    let merge = Mutation::InsertOrMerge { key: key("p", "1"), properties: RecordBuilder::default() };
    for (mutation, before) in [insert("p", "0", 1), merge, upsert("p", "2", 1)].into_iter().zip(before) {
        let written = commit_one(&*engine, &table, mutation).await.unwrap();
        assert!(stamp(written) > before);
    }
}

pub async fn the_property_of_the_retention_decides(engine: Arc<dyn Engine>, clock: ManualClock) {
    let now = clock.now().ticks();
    let table = create(&*engine, Retention::by_property("Ends", 5)).await;
    for (row, ends) in [("early", now - 6 * SECOND), ("just", now - 5 * SECOND), ("late", now - 4 * SECOND)] {
        commit_one(&*engine, &table, ending(row, ends)).await.unwrap();
    }
    let mut number = RecordBuilder::default();
    number.push("Ends", EdmValue::Int64(0));
    commit_one(&*engine, &table, Mutation::Insert { key: key("p", "number"), properties: number }).await.unwrap();
    commit_one(&*engine, &table, insert("p", "without", 1)).await.unwrap();
    assert_eq!(names_seen(&*engine, &table, Visibility::Live).await, ["p/late", "p/number", "p/without"]);
    assert_eq!(names_seen(&*engine, &table, Visibility::Expired).await, ["p/early", "p/just"]);
    // A change of the time revives nothing, because a merge finds nothing, but a write of a later time inserts.
    commit_one(&*engine, &table, ending("early", now)).await.unwrap();
    assert!(engine.get(&table, &key("p", "early")).await.unwrap().is_some());
    // A different property decides at once, also about entities that were written before.
    engine.update_settings(&table, retain(Retention::by_property("Other", 0))).await.unwrap();
    assert!(engine.get(&table, &key("p", "just")).await.unwrap().is_some());
    commit_one(&*engine, &table, delete("p", "just")).await.unwrap();
}

pub async fn only_expired_entities_are_swept(engine: Arc<dyn Engine>, clock: ManualClock) {
    assert!(engine.tables_to_sweep().await.unwrap().is_empty());
    let retention = Retention::by_age(60);
    let table = create(&*engine, retention.clone()).await;
    engine.create_table(&super::settings::other()).await.unwrap();
    assert_eq!(engine.tables_to_sweep().await.unwrap(), [(table.clone(), retention.unwrap())]);
    let mut stamps = Vec::new();
    for row in ["a", "b", "c"] {
        stamps.push(stamp(commit_one(&*engine, &table, insert("p", row, 1)).await.unwrap()));
    }
    clock.set(stamps[2].ticks() + 60 * SECOND - 1);
    let live = stamp(commit_one(&*engine, &table, upsert("p", "c", 2)).await.unwrap());
    let sweep = |entities: &[(&str, DateTime)]| {
        let entities = entities.iter().map(|(row, stamp)| (key("p", row), *stamp));
        engine.commit(&table, Transaction::deleting_expired(entities.collect::<Vec<(EntityKey, _)>>()).unwrap())
    };
    clock.set(stamps[2].ticks() + 61 * SECOND);
    assert_eq!(refused(&sweep(&[("c", live)]).await), Some(MutationError::NotFound), "it is live");
    assert_eq!(refused(&sweep(&[("a", live)]).await), Some(MutationError::ConditionNotMet), "another version");
    assert_eq!(refused(&sweep(&[("x", live)]).await), Some(MutationError::NotFound));
    let deleted = sweep(&[("a", stamps[0]), ("b", stamps[1])]).await.unwrap();
    assert_eq!(deleted, [MutationResult::Deleted, MutationResult::Deleted]);
    assert!(names_seen(&*engine, &table, Visibility::Expired).await.is_empty());
    assert_eq!(names_seen(&*engine, &table, Visibility::Live).await, ["p/c"]);
}
