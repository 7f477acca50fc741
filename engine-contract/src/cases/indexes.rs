use super::settings::retain;
use crate::support::*;
use engine::{CatalogError, Engine, EngineExt, IndexState, Order, ReadError, Scan, ScanEnd, TableKey};
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::{Condition, EdmValue, Entity, Filter, IndexedProperty, KeyRange, Mutation, Position, RecordBuilder};
use model::{Retention, TableSettingsUpdate, Transaction, Visibility};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn indexed(name: &str) -> IndexedProperty {
    IndexedProperty::new(name).unwrap()
}

fn by_value(name: &str, is_descending: bool) -> Order {
    Order::Value { property: indexed(name), is_descending }
}

pub async fn set_indexes(engine: &dyn Engine, table: &TableKey, names: &[&str]) {
    let indexes = Some(names.iter().map(|name| indexed(name)).collect());
    engine.update_settings(table, TableSettingsUpdate { indexes, ..TableSettingsUpdate::default() }).await.unwrap();
}

pub async fn wait_until_ready(engine: &dyn Engine, table: &TableKey) {
    let deadline = Instant::now() + TIMEOUT;
    while engine.indexes(table).await.unwrap().iter().any(|index| !index.is_ready) {
        assert!(Instant::now() < deadline, "an index must become ready");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn with_index(engine: &dyn Engine, name: &str) -> TableKey {
    let table = table(name);
    engine.create_table(&table).await.unwrap();
    set_indexes(engine, &table, &["value"]).await;
    wait_until_ready(engine, &table).await;
    table
}

fn value_is(operator: Operator, literal: Literal) -> Filter {
    Filter::Compare(Comparison { property: PropertyName::new("value"), operator, literal })
}

fn is_value(number: i64) -> Filter {
    value_is(Operator::Equal, Literal::Int64(number))
}

/// Returns the keys of the entities of a table, ordered by the property `value`, which has an index.
pub async fn ordered(engine: &dyn Engine, table: &TableKey, is_descending: bool) -> Vec<String> {
    let (entities, end) = page(engine, table, Scan { order: by_value("value", is_descending), ..scan_all() }).await;
    assert_eq!((end.next, end.index), (None, Some(indexed("value"))));
    names(&entities)
}

pub async fn indexes_follow_the_settings(engine: Arc<dyn Engine>, _: ManualClock) {
    let missing = table("Missing");
    assert!(matches!(engine.indexes(&missing).await, Err(ReadError::TableNotFound)));
    let update = TableSettingsUpdate { indexes: Some(Vec::new()), ..TableSettingsUpdate::default() };
    assert!(matches!(engine.update_settings(&missing, update).await, Err(CatalogError::NotFound)));
    let table = table("Indexed");
    engine.create_table(&table).await.unwrap();
    for rows in 0..3 {
        commit_one(&*engine, &table, insert("p", &rows.to_string(), 2 - rows)).await.unwrap();
    }
    let scan = |name, is_descending| Scan { order: by_value(name, is_descending), ..scan_all() };
    let is_missing = async |name| {
        let result = engine.scan(&table, scan(name, false), CollectingSink::default()).await;
        matches!(result, Err(ReadError::IndexNotFound))
    };
    assert!(engine.indexes(&table).await.unwrap().is_empty() && is_missing("value").await);
    set_indexes(&*engine, &table, &["value", "other"]).await;
    wait_until_ready(&*engine, &table).await;
    let state = |name| IndexState { property: indexed(name), is_ready: true };
    assert_eq!(engine.indexes(&table).await.unwrap(), [state("value"), state("other")]);
    assert_eq!(engine.settings(&table).await.unwrap().indexes, [indexed("value"), indexed("other")]);
    assert_eq!(ordered(&*engine, &table, false).await, ["p/2", "p/1", "p/0"]);
    assert!(page(&*engine, &table, scan("other", false)).await.0.is_empty());
    set_indexes(&*engine, &table, &["other"]).await;
    assert_eq!(engine.indexes(&table).await.unwrap(), [state("other")]);
    assert!(is_missing("value").await && !is_missing("other").await);
    // The new index contains nothing of the removed one.
    commit_one(&*engine, &table, delete("p", "1")).await.unwrap();
    set_indexes(&*engine, &table, &["other", "value"]).await;
    wait_until_ready(&*engine, &table).await;
    assert_eq!(ordered(&*engine, &table, true).await, ["p/0", "p/2"]);
    engine.delete_table(&table).await.unwrap();
    assert!(matches!(engine.indexes(&table).await, Err(ReadError::TableNotFound)));
    engine.create_table(&table).await.unwrap();
    assert!(engine.indexes(&table).await.unwrap().is_empty() && is_missing("value").await);
}

pub async fn every_mutation_changes_the_index(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_index(&*engine, "Mutations").await;
    let (key, other) = (|| key("p", "r"), || properties(&[("other", 1)]));
    let with_value = |number| properties(&[("value", number)]);
    let condition = || Condition::Any;
    for (mutation, expected) in [
        (Mutation::Insert { key: key(), properties: with_value(1) }, Some(1)),
        (Mutation::InsertOrReplace { key: key(), properties: with_value(2) }, Some(2)),
        (Mutation::InsertOrMerge { key: key(), properties: other() }, Some(2)),
        (Mutation::InsertOrMerge { key: key(), properties: with_value(3) }, Some(3)),
        (Mutation::Replace { key: key(), properties: other(), condition: condition() }, None),
        (Mutation::Merge { key: key(), properties: with_value(4), condition: condition() }, Some(4)),
        (Mutation::Replace { key: key(), properties: with_value(4), condition: condition() }, Some(4)),
        (Mutation::InsertOrReplace { key: key(), properties: other() }, None),
        (Mutation::InsertOrReplace { key: key(), properties: with_value(5) }, Some(5)),
        (Mutation::Delete { key: key(), condition: condition() }, None),
    ] {
        commit_one(&*engine, &table, mutation).await.unwrap();
        for number in 1..6 {
            let (found, end) = page(&*engine, &table, Scan { filter: Some(is_value(number)), ..scan_all() }).await;
            assert_eq!(found.len(), usize::from(expected == Some(number)), "{number}");
            assert_eq!((end.next, end.index), (None, Some(indexed("value"))));
        }
        assert_eq!(ordered(&*engine, &table, false).await.len(), usize::from(expected.is_some()));
    }
    // A refused transaction changes nothing.
    let mutations = vec![insert("p", "1", 7), delete("p", "missing")];
    assert!(engine.commit(&table, Transaction::new(mutations).unwrap()).await.is_err());
    assert!(ordered(&*engine, &table, false).await.is_empty());
}

/// A value of one of few numbers and strings, or none.
fn random_properties(random: &mut Random) -> RecordBuilder {
    let mut properties = RecordBuilder::default();
    let number = i32::try_from(random.below(5)).unwrap();
    properties.push("other", EdmValue::Int32(number));
    match random.below(8) {
        0 => {}
        1 | 2 => properties.push("value", EdmValue::Int64(number.into())),
        3 => properties.push("value", EdmValue::Double(f64::from(number) / 2.0)),
        4 => properties.push("value", EdmValue::String(&number.to_string())),
        5 => properties.push("value", EdmValue::Boolean(number > 2)),
        6 => properties.push("value", EdmValue::String(&"x".repeat(255 + usize::try_from(number).unwrap()))),
        _ => properties.push("value", EdmValue::Int32(number)),
    }
    properties
}

fn random_mutation(random: &mut Random) -> Mutation {
    let key = key(&format!("p{}", random.below(3)), &format!("r{:02}", random.below(25)));
    let properties = random_properties(random);
    match random.below(5) {
        0 => Mutation::Delete { key, condition: Condition::Any },
        1 => Mutation::InsertOrMerge { key, properties },
        _ => Mutation::InsertOrReplace { key, properties },
    }
}

fn random_literal(random: &mut Random) -> Literal {
    let number = i32::try_from(random.below(6)).unwrap();
    match random.below(6) {
        0 => Literal::Int64(number.into()),
        1 => Literal::Double(f64::from(number) / 2.0),
        2 => Literal::String(number.to_string().into()),
        3 => Literal::String("x".repeat(254 + usize::try_from(number).unwrap()).into()),
        4 => Literal::Boolean(number > 2),
        _ => Literal::Int32(number),
    }
}

fn random_filter(random: &mut Random, depth: usize) -> Filter {
    let operators = [
        Operator::Equal,
        Operator::Equal,
        Operator::NotEqual,
        Operator::LessThan,
        Operator::LessThanOrEqual,
        Operator::GreaterThan,
        Operator::GreaterThanOrEqual,
    ];
    let operands = |random: &mut Random| (0..2).map(|_| random_filter(random, depth - 1)).collect();
    match random.below(if depth == 0 { 4 } else { 8 }) {
        0 => Filter::Compare(Comparison {
            property: PropertyName::new("other"),
            operator: Operator::Equal,
            literal: Literal::Int32(3),
        }),
        4 | 5 => Filter::And(operands(random)),
        6 => Filter::Or(operands(random)),
        7 => Filter::Not(Box::new(random_filter(random, depth - 1))),
        _ => value_is(operators[usize::try_from(random.below(7)).unwrap()], random_literal(random)),
    }
}

fn random_ranges(random: &mut Random) -> Vec<KeyRange> {
    match random.below(4) {
        0 => vec![KeyRange::rows("p1", Bound::Included("r05"), Bound::Unbounded)],
        1 => vec![
            KeyRange::rows("p0", Bound::Unbounded, Bound::Excluded("r10")),
            KeyRange::partitions(Bound::Excluded("p0"), Bound::Unbounded),
        ],
        _ => vec![KeyRange::all()],
    }
}

/// Applies the same mutations to both tables, whether or not they are refused.
async fn mutate(engine: &dyn Engine, random: &mut Random, tables: [&TableKey; 2], count: usize) {
    for _ in 0..count {
        let mutation = random_mutation(random);
        for table in tables {
            drop(engine.commit(table, Transaction::single(mutation.clone())).await);
        }
    }
}

/// Reads all pages.
async fn pages(engine: &dyn Engine, table: &TableKey, scan: &Scan) -> (Vec<Entity>, ScanEnd) {
    let mut found = Vec::new();
    let mut scan = scan.clone();
    for _ in 0..1000 {
        let (entities, end) = page(engine, table, scan.clone()).await;
        found.extend(entities);
        scan.from.clone_from(&end.next);
        if scan.from.is_none() {
            return (found, end);
        }
    }
    panic!("the pages do not end");
}

pub async fn a_query_with_an_index_is_like_one_without(engine: Arc<dyn Engine>, _: ManualClock) {
    let mut random = Random::from_environment("a_query_with_an_index_is_like_one_without");
    let (plain, fast) = (table("Plain"), table("Fast"));
    engine.create_table(&plain).await.unwrap();
    engine.create_table(&fast).await.unwrap();
    mutate(&*engine, &mut random, [&plain, &fast], 80).await;
    set_indexes(&*engine, &fast, &["value"]).await;
    mutate(&*engine, &mut random, [&plain, &fast], 80).await;
    wait_until_ready(&*engine, &fast).await;
    let mut with_index = 0;
    for round in 0..300 {
        if round % 10 == 0 {
            mutate(&*engine, &mut random, [&plain, &fast], 3).await;
        }
        let filter = random_filter(&mut random, 2);
        let from = (random.below(3) == 0).then(|| Position::new("p1", &format!("r{:02}", random.below(25))));
        let limit = if random.below(2) == 0 { usize::try_from(random.below(6)).unwrap() } else { usize::MAX };
        let (ranges, is_confined) = (random_ranges(&mut random), random.below(2) == 0);
        let order = Order::Key { is_descending: random.below(2) == 0 };
        let scan = Scan { ranges, is_confined, order, from, filter: Some(filter), limit, ..scan_all() };
        let (expected, expected_end) = page(&*engine, &plain, scan.clone()).await;
        let (found, end) = page(&*engine, &fast, scan.clone()).await;
        assert_eq!((names(&found), &end.next), (names(&expected), &expected_end.next), "{scan:?}");
        assert!(expected_end.index.is_none() && (end.index.is_none() || end.examined <= expected_end.examined));
        with_index += usize::from(end.index.is_some());
        // A deadline in the past ends the pages elsewhere, but all pages have the same entities.
        let deadline = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let (found, _) = pages(&*engine, &fast, &Scan { deadline, limit: 3, ..scan.clone() }).await;
        let (expected, _) = pages(&*engine, &plain, &Scan { limit: usize::MAX, ..scan }).await;
        assert_eq!(names(&found), names(&expected));
    }
    assert!(with_index > 50, "{with_index}");
}

/// The order of the values in these tests: Booleans, numbers, strings.
fn sort_key(entity: &Entity) -> Option<(u8, f64, String)> {
    Some(match entity.record.view().unwrap().get("value").unwrap()? {
        EdmValue::Boolean(value) => (0, f64::from(u8::from(value)), String::new()),
        EdmValue::Int32(value) => (1, value.into(), String::new()),
        EdmValue::Int64(value) => (1, i32::try_from(value).unwrap().into(), String::new()),
        EdmValue::Double(value) => (1, value, String::new()),
        // Longer strings are equal.
        EdmValue::String(value) => (2, 0.0, value[..value.len().min(257)].to_owned()),
        other => panic!("{other:?}"),
    })
}

pub async fn entities_come_in_the_order_of_values(engine: Arc<dyn Engine>, _: ManualClock) {
    let mut random = Random::from_environment("entities_come_in_the_order_of_values");
    let (plain, sorted) = (table("Plain"), table("Sorted"));
    engine.create_table(&plain).await.unwrap();
    engine.create_table(&sorted).await.unwrap();
    set_indexes(&*engine, &sorted, &["value"]).await;
    mutate(&*engine, &mut random, [&plain, &sorted], 150).await;
    wait_until_ready(&*engine, &sorted).await;
    for _ in 0..100 {
        let is_descending = random.below(2) == 0;
        let filter = (random.below(3) > 0).then(|| random_filter(&mut random, 1));
        let scan = Scan { ranges: random_ranges(&mut random), filter, ..scan_all() };
        let mut expected: Vec<_> = page(&*engine, &plain, scan.clone()).await.0;
        expected.retain(|entity| sort_key(entity).is_some());
        // Entities with the same value stay in the order of keys.
        expected.sort_by(|a, b| sort_key(a).partial_cmp(&sort_key(b)).unwrap());
        if is_descending {
            expected.reverse();
        }
        let scan = Scan { order: by_value("value", is_descending), ..scan };
        let (found, end) = page(&*engine, &sorted, scan.clone()).await;
        assert_eq!((names(&found), end.next), (names(&expected), None), "{scan:?}");
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let limit = 1 + usize::try_from(random.below(5)).unwrap();
        let deadline = if random.below(2) == 0 { past } else { scan.deadline };
        let (found, _) = pages(&*engine, &sorted, &Scan { limit, deadline, ..scan }).await;
        assert_eq!(names(&found), names(&expected));
    }
}

pub async fn a_position_outlives_its_entity(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_index(&*engine, "Positions").await;
    for row in 0..6 {
        commit_one(&*engine, &table, insert("p", &row.to_string(), row / 2)).await.unwrap();
    }
    for (is_descending, expected) in [(false, ["p/4", "p/5", "p/2"]), (true, ["p/2", "p/1", "p/0"])] {
        let scan = Scan { order: by_value("value", is_descending), limit: 2, ..scan_all() };
        let (first, end) = page(&*engine, &table, scan.clone()).await;
        assert_eq!(names(&first), if is_descending { ["p/5", "p/4"] } else { ["p/0", "p/1"] });
        // The next entity is deleted or moves to the end, and another one disappears.
        let next = if is_descending { "3" } else { "2" };
        if is_descending {
            commit_one(&*engine, &table, delete("p", next)).await.unwrap();
        } else {
            commit_one(&*engine, &table, upsert("p", next, 9)).await.unwrap();
            commit_one(&*engine, &table, delete("p", "3")).await.unwrap();
        }
        let (rest, end) = page(&*engine, &table, Scan { from: end.next, limit: 10, ..scan }).await;
        assert_eq!((names(&rest), end.next), (expected.map(str::to_owned).to_vec(), None));
        commit_one(&*engine, &table, upsert("p", "2", 1)).await.unwrap();
        commit_one(&*engine, &table, upsert("p", "3", 1)).await.unwrap();
    }
}

/// An expired entity has entries until it is overwritten or deleted, but no page shows it.
pub async fn an_expired_entity_is_found_in_no_index(engine: Arc<dyn Engine>, clock: ManualClock) {
    let table = with_index(&*engine, "Retained").await;
    engine.update_settings(&table, retain(Retention::by_age(60))).await.unwrap();
    let mut stamps = Vec::new();
    for row in ["a", "b", "c", "d", "e"] {
        stamps.push(stamp(commit_one(&*engine, &table, insert("p", row, 1)).await.unwrap()));
    }
    assert_eq!(ordered(&*engine, &table, true).await.len(), 5);
    clock.set(stamps[4].ticks() + 60 * 10_000_000);
    commit_one(&*engine, &table, insert("p", "live", 1)).await.unwrap();
    let found = async |number, visible| {
        let scan = Scan { filter: Some(is_value(number)), visible, ..scan_all() };
        let (found, end) = page(&*engine, &table, scan).await;
        assert_eq!((end.next, end.index), (None, Some(indexed("value"))));
        names(&found).join(" ")
    };
    assert_eq!(ordered(&*engine, &table, false).await, ["p/live"]);
    assert_eq!(ordered(&*engine, &table, true).await, ["p/live"]);
    assert_eq!(found(1, Visibility::Live).await, "p/live");
    assert_eq!(found(1, Visibility::Expired).await, "p/a p/b p/c p/d p/e");
    let other = |row| Mutation::InsertOrMerge { key: key("p", row), properties: properties(&[("other", 1)]) };
    commit_one(&*engine, &table, insert("p", "a", 2)).await.unwrap();
    commit_one(&*engine, &table, other("b")).await.unwrap();
    engine.commit(&table, Transaction::new(vec![upsert("p", "c", 3), other("d")]).unwrap()).await.unwrap();
    assert_eq!(found(1, Visibility::Live).await, "p/live");
    assert_eq!(found(2, Visibility::Live).await, "p/a");
    assert_eq!(found(1, Visibility::Expired).await, "p/e");
    let sweep = Transaction::deleting_expired(vec![(key("p", "e"), stamps[4])]).unwrap();
    engine.commit(&table, sweep).await.unwrap();
    assert_eq!(found(1, Visibility::Expired).await, "");
    // A page without a filter would show an entity at an entry that is left.
    commit_one(&*engine, &table, other("e")).await.unwrap();
    engine.update_settings(&table, retain(None)).await.unwrap();
    assert_eq!(ordered(&*engine, &table, false).await, ["p/live", "p/a", "p/c"]);
}

pub async fn a_page_of_an_index_is_one_snapshot(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_index(&*engine, "Accounts").await;
    for row in ["a", "b", "c"] {
        commit_one(&*engine, &table, insert("p", row, 0)).await.unwrap();
    }
    let (writer, written) = (Arc::clone(&engine), table.clone());
    let writes = tokio::spawn(async move {
        for round in 1..200 {
            let mutations = ["a", "b", "c"].map(|row| upsert("p", row, round % 3)).into();
            writer.commit(&written, Transaction::new(mutations).unwrap()).await.unwrap();
        }
    });
    let mut pages = 0;
    while !writes.is_finished() || pages < 20 {
        let mut found = Vec::new();
        let scan = Scan { order: by_value("value", pages % 2 == 0), ..scan_all() };
        found.push(page(&*engine, &table, scan).await.0);
        for number in 0..3 {
            let (entities, end) = page(&*engine, &table, Scan { filter: Some(is_value(number)), ..scan_all() }).await;
            assert!(end.index.is_some());
            found.push(entities);
        }
        for entities in found {
            assert!(entities.is_empty() || entities.len() == 3, "{:?}", names(&entities));
            assert!(entities.iter().all(|entity| value(&entity.record) == value(&entities[0].record)));
        }
        pages += 1;
    }
    writes.await.unwrap();
}

pub async fn an_index_is_built_while_entities_change(engine: Arc<dyn Engine>, _: ManualClock) {
    let mut random = Random::from_environment("an_index_is_built_while_entities_change");
    let table = table("Busy");
    engine.create_table(&table).await.unwrap();
    let rows: Vec<String> = (0..3000).map(|row| format!("{row:04}")).collect();
    fill(&*engine, &table, "p", &rows).await;
    let (writer, written) = (Arc::clone(&engine), table.clone());
    let writes = tokio::spawn(async move {
        for round in 0..400 {
            let row = format!("{:04}", random.below(3000));
            let mutation = if round % 3 == 0 { delete("p", &row) } else { upsert("p", &row, 2 + round % 5) };
            drop(writer.commit(&written, Transaction::single(mutation)).await);
        }
    });
    set_indexes(&*engine, &table, &["value"]).await;
    writes.await.unwrap();
    wait_until_ready(&*engine, &table).await;
    let mut expected = all(&*engine, &table).await;
    expected.sort_by_key(|entity| value(&entity.record));
    assert_eq!(ordered(&*engine, &table, false).await, names(&expected));
}

pub async fn too_many_hits_are_read_without_the_index(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_index(&*engine, "Many").await;
    let rows: Vec<String> = (0..10_100).map(|row| format!("{row:05}")).collect();
    fill(&*engine, &table, "p", &rows).await;
    commit_one(&*engine, &table, upsert("p", "05000", 2)).await.unwrap();
    for (number, expected, has_index) in [(1, 10_099, false), (2, 1, true), (3, 0, true)] {
        let (found, end) = page(&*engine, &table, Scan { filter: Some(is_value(number)), ..scan_all() }).await;
        assert_eq!((found.len(), end.next, end.index.is_some()), (expected, None, has_index));
    }
}

/// Returns a scan that may not depend on what lies outside its range, in which it looks for the number 1 or more.
fn confined(operator: Operator, range: KeyRange, from: Option<Position>) -> Scan {
    let filter = Some(value_is(operator, Literal::Int64(1)));
    Scan { ranges: vec![range], is_confined: true, filter, from, ..scan_all() }
}

pub async fn a_confined_page_depends_on_nothing_outside_its_range(engine: Arc<dyn Engine>, _: ManualClock) {
    let (alone, shared) = (with_index(&*engine, "Alone").await, with_index(&*engine, "Shared").await);
    for table in [&alone, &shared] {
        fill(&*engine, table, "p2", &["a", "b", "c"].map(str::to_owned)).await;
        fill(&*engine, table, "p3", &["a", "b"].map(str::to_owned)).await;
        commit_one(&*engine, table, upsert("p2", "b", 2)).await.unwrap();
    }
    // More than a query reads from an index, before and after the range.
    let rows: Vec<String> = (0..5_100).map(|row| format!("{row:05}")).collect();
    fill(&*engine, &shared, "p1", &rows).await;
    fill(&*engine, &shared, "p4", &rows).await;
    let partitions = |from, to| KeyRange::partitions(Bound::Included(from), Bound::Included(to));
    let rows = KeyRange::rows("p2", Bound::Included("b"), Bound::Unbounded);
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    for operator in [Operator::Equal, Operator::GreaterThanOrEqual, Operator::LessThan, Operator::NotEqual] {
        for range in [partitions("p2", "p3"), partitions("p2", "p2"), partitions("p3", "p3"), rows.clone()] {
            for from in
                [None, Some(Position::new("p1", "")), Some(Position::new("p2", "b")), Some(Position::new("p4", ""))]
            {
                for limit in [0, 1, usize::MAX] {
                    for deadline in [None, Some(past)] {
                        let scan = Scan { limit, ..confined(operator, range.clone(), from.clone()) };
                        let scan = Scan { deadline: deadline.unwrap_or(scan.deadline), ..scan };
                        let (expected, expected_end) = page(&*engine, &alone, scan.clone()).await;
                        let (found, end) = page(&*engine, &shared, scan.clone()).await;
                        assert_eq!((names(&found), end), (names(&expected), expected_end), "{scan:?}");
                    }
                }
            }
        }
    }
    // The index still helps to find a value.
    let (found, end) = page(&*engine, &shared, confined(Operator::Equal, partitions("p2", "p3"), None)).await;
    assert_eq!((found.len(), end.examined, end.index), (4, 4, Some(indexed("value"))));
}
