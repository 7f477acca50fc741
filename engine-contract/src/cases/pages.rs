use crate::support::*;
use engine::{Engine, EngineExt, EntitySink, Order, Scan, SinkDecision, TableKey};
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::plan::plan;
use model::{EdmValue, EntityView, Filter, KeyRange, Mutation, Position, RecordBuilder, Transaction};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entities are written as `partition/row`. The value of each entity is its index in the list.
async fn with_entities(engine: &dyn Engine, entities: &[&str]) -> TableKey {
    let table = table("Entities");
    engine.create_table(&table).await.unwrap();
    for (value, entity) in (0..).zip(entities) {
        let (partition, row) = entity.split_once('/').unwrap();
        commit_one(engine, &table, upsert(partition, row, value)).await.unwrap();
    }
    table
}

async fn with_numbers(engine: &dyn Engine, count: usize) -> TableKey {
    let table = table("Numbers");
    engine.create_table(&table).await.unwrap();
    fill(engine, &table, "p", &(0..count).map(|n| format!("{n:05}")).collect::<Vec<_>>()).await;
    table
}

fn value_is(number: i64) -> Filter {
    Filter::Compare(Comparison {
        property: PropertyName::Custom("value".into()),
        operator: Operator::Equal,
        literal: Literal::Int64(number),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "it stands where a page ends, which may be nowhere")]
fn at(partition: &str, row: &str) -> Option<Position> {
    Some(Position::new(partition, row))
}

pub async fn entities_come_in_the_order_of_utf16_code_units(engine: Arc<dyn Engine>, _: ManualClock) {
    let ordered = [
        "/",
        "/a",
        " /x",
        "A/",
        "A/ ",
        "A/1",
        "A /0",
        "A\u{A0}/0",
        "B/0",
        "a/0",
        "ab/0",
        "b/A",
        "b/a",
        "é/0",
        "日/0",
        "\u{D7FF}/0",
        "😀/0",
        "😀/\u{D7FF}",
        "😀/😀",
        "😀/\u{E000}",
        "\u{10FFFF}/0",
        "\u{E000}/0",
        "\u{FFFD}/0",
    ];
    let mut shuffled = ordered;
    shuffled.reverse();
    shuffled.swap(2, 15);
    shuffled.swap(7, 20);
    let table = with_entities(&*engine, &shuffled).await;
    for order in KEY_ORDERS {
        let (entities, end) = page(&*engine, &table, Scan { order: order.clone(), ..scan_all() }).await;
        assert_eq!((names(&entities), end.next), (in_order(&order, &ordered.map(str::to_owned)), None));
    }
}

pub async fn ranges_are_visited_in_order_and_nothing_else_is(engine: Arc<dyn Engine>, _: ManualClock) {
    let entities = ["a/1", "a/2", "a/3", "b/1", "b/2", "ba/1", "c/1", "c/2", "😀/1"];
    let table = with_entities(&*engine, &entities).await;
    let rows = |partition, from, to| KeyRange::rows(partition, from, to);
    let whole = |partition| KeyRange::rows(partition, Bound::Unbounded, Bound::Unbounded);
    let none = KeyRange { start: b"x".to_vec(), end: Some(b"x".to_vec()) };
    let backwards = KeyRange { start: b"b".to_vec(), end: Some(b"a".to_vec()) };
    let cases: [(Vec<KeyRange>, &[&str]); 9] = [
        (vec![], &[]),
        (vec![none], &[]),
        (vec![backwards], &[]),
        (vec![whole("b")], &["b/1", "b/2"]),
        (vec![whole("a"), whole("c")], &["a/1", "a/2", "a/3", "c/1", "c/2"]),
        (vec![rows("a", Bound::Included("2"), Bound::Excluded("3"))], &["a/2"]),
        (vec![rows("a", Bound::Excluded("1"), Bound::Included("3")), whole("ba")], &["a/2", "a/3", "ba/1"]),
        (vec![KeyRange::partitions(Bound::Excluded("b"), Bound::Unbounded)], &["ba/1", "c/1", "c/2", "😀/1"]),
        (vec![KeyRange::partitions(Bound::Unbounded, Bound::Excluded("b")), whole("z")], &["a/1", "a/2", "a/3"]),
    ];
    for (ranges, expected) in cases {
        for order in KEY_ORDERS {
            let scan = Scan { ranges: ranges.clone(), order: order.clone(), ..scan_all() };
            let (entities, end) = page(&*engine, &table, scan.clone()).await;
            assert_eq!(names(&entities), in_order(&order, expected), "{scan:?}");
            assert_eq!((end.next, end.examined), (None, expected.len() as u64), "{scan:?}");
        }
    }
}

fn key_is(property: PropertyName, operator: Operator, key: &str) -> Filter {
    Filter::Compare(Comparison { property, operator, literal: Literal::String(key.into()) })
}

/// Queries of many named entities, and of ranges in several partitions, cost as much as what they name.
pub async fn many_ranges_are_read_as_if_they_were_one(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_numbers(&*engine, 400).await;
    for partition in ["q", "r", "s"] {
        fill(&*engine, &table, partition, &(0..100).map(|n| format!("{n:05}")).collect::<Vec<_>>()).await;
    }
    let partition = |key: &str| key_is(PropertyName::PartitionKey, Operator::Equal, key);
    let row = |operator, number: usize| key_is(PropertyName::RowKey, operator, &format!("{number:05}"));
    let rows =
        |numbers: &mut dyn Iterator<Item = usize>| Filter::Or(numbers.map(|n| row(Operator::Equal, n)).collect());
    let named = |key: &str, filter: Filter| Filter::And(vec![partition(key), filter]);
    let one_partition = named("p", rows(&mut (0..1500)));
    let every_third = named("p", rows(&mut (0..1500).step_by(3)));
    let several = Filter::Or(vec![
        every_third.clone(),
        Filter::And(vec![Filter::Or(["q", "r", "x"].map(partition).into()), rows(&mut (50..150).step_by(7))]),
        named("s", Filter::Or(vec![row(Operator::LessThan, 20), row(Operator::GreaterThanOrEqual, 90), value_is(40)])),
    ]);
    for (filter, count, examined) in [(one_partition, 400, 400), (every_third, 134, 134), (several, 180, 250)] {
        let ranges = plan(Some(&filter)).ranges;
        let scan = Scan { ranges, filter: Some(filter.clone()), ..scan_all() };
        let everything = Scan { ranges: vec![KeyRange::all()], ..scan.clone() };
        let expected = names(&page(&*engine, &table, everything).await.0);
        for order in KEY_ORDERS {
            let expected = in_order(&order, &expected);
            let scan = Scan { order, ..scan.clone() };
            let (found, end) = page(&*engine, &table, scan.clone()).await;
            assert_eq!((expected.len(), end.examined, end.next), (count, examined, None));
            assert!(names(&found) == expected);
            for limit in [7, 100] {
                let (mut found, mut from) = (Vec::new(), None);
                loop {
                    let (entities, end) = page(&*engine, &table, Scan { from, limit, ..scan.clone() }).await;
                    found.extend(names(&entities));
                    from = end.next;
                    if from.is_none() {
                        break;
                    }
                }
                assert!(found == expected, "limit {limit}");
            }
        }
    }
}

pub async fn a_page_starts_at_its_position(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2", "b/1", "c/1"]).await;
    let ranges = vec![
        KeyRange::rows("a", Bound::Unbounded, Bound::Unbounded),
        KeyRange::partitions(Bound::Included("c"), Bound::Unbounded),
    ];
    for (from, expected, descending) in [
        (at("", ""), &["a/1", "a/2", "c/1"][..], &[][..]),
        (at("a", "1"), &["a/1", "a/2", "c/1"], &["a/1"]),
        (at("a", "2"), &["a/2", "c/1"], &["a/2", "a/1"]),
        (at("a", "20"), &["c/1"], &["a/2", "a/1"]),
        (at("b", "1"), &["c/1"], &["a/2", "a/1"]),
        (at("c", "1"), &["c/1"], &["c/1", "a/2", "a/1"]),
        (at("c", "2"), &[], &["c/1", "a/2", "a/1"]),
        (Some(Position::start_of_partition("c")), &["c/1"], &["a/2", "a/1"]),
    ] {
        for (order, expected) in KEY_ORDERS.into_iter().zip([expected, descending]) {
            let scan = Scan { ranges: ranges.clone(), order, from: from.clone(), ..scan_all() };
            assert_eq!(names(&page(&*engine, &table, scan.clone()).await.0), expected, "{scan:?}");
        }
    }
}

/// The entity at the position, and entities around it, change between two pages.
pub async fn a_position_outlives_changes_around_it(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/3", "b/1", "b/3", "c/1"]).await;
    for (order, seen, next, rest) in [
        (Order::KEYS, ["a/1", "a/3"], at("b", "1"), ["b/2", "b/3", "c/1"]),
        (Order::Key { is_descending: true }, ["c/1", "b/3"], at("b", "1"), ["b/0", "a/3", "a/1"]),
    ] {
        let scan = Scan { order, limit: 2, ..scan_all() };
        let (entities, end) = page(&*engine, &table, scan.clone()).await;
        assert_eq!((names(&entities), &end.next), (seen.map(str::to_owned).to_vec(), &next));
        for changed in [delete("b", "1"), insert("b", "0", 0), insert("b", "2", 0)] {
            commit_one(&*engine, &table, changed).await.unwrap();
        }
        let (entities, end) = page(&*engine, &table, Scan { from: end.next, limit: 10, ..scan }).await;
        assert_eq!((names(&entities), end.next), (rest.map(str::to_owned).to_vec(), None));
        for changed in [upsert("b", "1", 0), delete("b", "0"), delete("b", "2")] {
            commit_one(&*engine, &table, changed).await.unwrap();
        }
    }
}

pub async fn the_limit_bounds_the_page_and_a_last_page_says_so(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2", "a/3"]).await;
    for order in KEY_ORDERS {
        let rows = in_order(&order, &["1", "2", "3"]);
        for limit in [1, 2, 3, 4] {
            let (entities, end) = page(&*engine, &table, Scan { order: order.clone(), limit, ..scan_all() }).await;
            let expected: Vec<_> = rows.iter().take(limit).map(|row| format!("a/{row}")).collect();
            assert_eq!((names(&entities), end.next), (expected, rows.get(limit).and_then(|row| at("a", row))));
        }
    }
}

pub async fn a_limit_of_zero_looks_for_a_match_only(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2"]).await;
    for (order, first) in KEY_ORDERS.into_iter().zip(["1", "2"]) {
        let (entities, end) = page(&*engine, &table, Scan { order, limit: 0, ..scan_all() }).await;
        assert_eq!((entities.len(), end.next), (0, at("a", first)));
    }
    let (entities, end) = page(&*engine, &table, Scan { limit: 0, filter: Some(value_is(1)), ..scan_all() }).await;
    assert_eq!((entities.len(), end.next), (0, at("a", "2")));
    let (entities, end) = page(&*engine, &table, Scan { limit: 0, filter: Some(value_is(9)), ..scan_all() }).await;
    assert_eq!((entities.len(), end.next), (0, None));
}

pub async fn a_page_ends_by_what_the_sink_takes_and_not_by_what_is_stored(engine: Arc<dyn Engine>, _: ManualClock) {
    let keys: Vec<String> = (0..100).map(|n| format!("a/{n:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let table = with_entities(&*engine, &keys).await;
    for bytes_expected in [0, 1, 500, usize::MAX] {
        let (entities, end) = page(&*engine, &table, Scan { bytes_expected, ..scan_all() }).await;
        assert_eq!((entities.len(), end.next), (100, None), "{bytes_expected}");
    }
}

pub async fn a_sink_that_has_enough_ends_the_page(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2", "a/3"]).await;
    for (most, next, descending) in [(1, at("a", "2"), at("a", "2")), (2, at("a", "3"), at("a", "1")), (3, None, None)]
    {
        for (order, next) in KEY_ORDERS.into_iter().zip([next, descending]) {
            let sink = CollectingSink { most: Some(most), ..CollectingSink::default() };
            let (kept, end) = engine.scan(&table, Scan { order, ..scan_all() }, sink).await.unwrap();
            assert_eq!((kept.entities.len(), end.next), (most, next));
        }
    }
}

struct RefusingSink {
    kept: CollectingSink,
    taken_max: usize,
}

impl EntitySink for RefusingSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        if self.kept.entities.len() == self.taken_max { SinkDecision::Refused } else { self.kept.entity(entity) }
    }
}

pub async fn an_entity_that_a_sink_refuses_begins_the_next_page(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2", "a/3"]).await;
    for order in KEY_ORDERS {
        let rows = in_order(&order, &["1", "2", "3"]);
        for taken_max in 0..=3 {
            let sink = RefusingSink { kept: CollectingSink::default(), taken_max };
            let (sink, end) = engine.scan(&table, Scan { order: order.clone(), ..scan_all() }, sink).await.unwrap();
            let next = rows.get(taken_max).and_then(|row| at("a", row));
            assert_eq!((sink.kept.entities.len(), end.next), (taken_max, next));
        }
    }
}

pub async fn the_filter_decides_and_the_look_ahead_obeys_it(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_entities(&*engine, &["a/1", "a/2", "a/3", "a/4"]).await;
    let filtered = |filter, limit| Scan { filter: Some(filter), limit, ..scan_all() };
    let (entities, end) = page(&*engine, &table, filtered(value_is(2), 10)).await;
    assert_eq!((names(&entities), end.next, end.examined), (vec!["a/3".to_owned()], None, 4));
    let (entities, end) = page(&*engine, &table, filtered(value_is(1), 1)).await;
    assert_eq!((names(&entities), end.next), (vec!["a/2".to_owned()], None), "no further match, so no next page");
    let first_or_last = Filter::Or(vec![value_is(0), value_is(3)]);
    let (entities, end) = page(&*engine, &table, filtered(first_or_last, 1)).await;
    assert_eq!(
        (names(&entities), end.next),
        (vec!["a/1".to_owned()], at("a", "4")),
        "the next match, not the next entity"
    );
    assert!(page(&*engine, &table, filtered(Filter::Constant(false), 10)).await.0.is_empty());
    assert_eq!(page(&*engine, &table, filtered(Filter::Constant(true), 10)).await.0.len(), 4);
}

pub async fn successive_pages_return_every_entity_once(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_numbers(&*engine, 1000).await;
    let expected = names(&all(&*engine, &table).await);
    let ranges = vec![
        KeyRange::rows("p", Bound::Unbounded, Bound::Excluded("00500")),
        KeyRange::rows("p", Bound::Included("00500"), Bound::Unbounded),
    ];
    let orders = KEY_ORDERS.into_iter().flat_map(|order| [7, 100, 250, 1000].map(|limit| (order.clone(), limit)));
    for (order, limit) in orders {
        let expected = in_order(&order, &expected);
        let (mut found, mut from, mut pages) = (Vec::new(), None, 0);
        loop {
            let scan = Scan { ranges: ranges.clone(), order: order.clone(), from, limit, ..scan_all() };
            let (entities, end) = page(&*engine, &table, scan).await;
            found.extend(names(&entities));
            pages += 1;
            from = end.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!((found == expected, pages), (true, expected.len().div_ceil(limit)), "limit {limit}");
    }
}

pub async fn a_deadline_in_the_past_still_makes_progress(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_numbers(&*engine, 20).await;
    for order in KEY_ORDERS {
        let (mut from, mut found) = (None, 0);
        for scans in 1.. {
            let deadline = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            let filter = Some(Filter::Constant(scans % 2 == 0));
            let scan = Scan { order: order.clone(), deadline, from, filter, ..scan_all() };
            let (entities, end) = page(&*engine, &table, scan).await;
            assert!(end.examined >= 1);
            found += entities.len();
            from = end.next;
            if from.is_none() {
                break;
            }
            assert!(scans <= 20, "each scan examines at least one entity");
        }
        assert!(found <= 20);
    }
}

pub async fn a_deadline_ends_a_long_scan_before_its_end(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = table("Large");
    engine.create_table(&table).await.unwrap();
    for chunk in 0..100 {
        let entity = |n: usize| {
            let mut properties = RecordBuilder::default();
            properties.push("value", model::EdmValue::Int64(1));
            Mutation::InsertOrReplace { key: key("p", &format!("{chunk:03}-{n:03}")), properties }
        };
        engine.commit(&table, Transaction::new((0..100).map(entity).collect()).unwrap()).await.unwrap();
    }
    // This filter is slow on each entity.
    let slow = Filter::Or((0..2000).map(|n| value_is(n + 2)).collect());
    for order in KEY_ORDERS {
        let deadline = Instant::now() + Duration::from_millis(3);
        let is_descending = order.is_descending();
        let scan = Scan { order, deadline, filter: Some(slow.clone()), ..scan_all() };
        let (entities, end) = page(&*engine, &table, scan).await;
        let next = end.next.expect("the deadline comes long before the end");
        assert!(entities.is_empty() && end.examined >= 1 && end.examined < 10_000);
        let examined = usize::try_from(end.examined).unwrap();
        let number = if is_descending { 9_999 - examined } else { examined };
        let expected = at("p", &format!("{:03}-{:03}", number / 100, number % 100));
        assert_eq!(Some(next), expected, "the first entity not examined");
    }
}

/// Engines may read small pages, or their first parts, in a different way.
pub async fn small_pages_are_parts_of_the_whole(engine: Arc<dyn Engine>, _: ManualClock) {
    const ENTITIES: usize = 120;
    let table = table("Small");
    engine.create_table(&table).await.unwrap();
    let row = |number: usize| format!("{number:03}");
    for number in 0..ENTITIES {
        let mut properties = RecordBuilder::default();
        properties.push("value", EdmValue::Int64(i64::from(number % 45 == 7)));
        properties.push("filler", EdmValue::Binary(&vec![7; [10, 10, 3000, 40_000][number / 10 % 4]]));
        let entity = Mutation::InsertOrReplace { key: key("p", &row(number)), properties };
        commit_one(&*engine, &table, entity).await.unwrap();
    }
    commit_one(&*engine, &table, delete("p", &row(31))).await.unwrap();
    let point = |number: usize| KeyRange::rows("p", Bound::Included(&row(number)), Bound::Included(&row(number)));
    let points = |first: usize, count: usize| (first..first + count).map(point).collect::<Vec<_>>();
    for ranges in [vec![KeyRange::all()], points(30, 1), points(31, 1), points(17, 8), points(10, 30), Vec::new()] {
        let filters = [None, Some(value_is(1)), Some(value_is(2))];
        let orders = KEY_ORDERS.into_iter().flat_map(|order| filters.clone().map(|filter| (order.clone(), filter)));
        for (order, filter) in orders {
            let scan = Scan { ranges: ranges.clone(), order: order.clone(), filter, ..scan_all() };
            let (whole, end) = page(&*engine, &table, scan.clone()).await;
            assert_eq!(end.next, None);
            let expected = |number: usize| {
                let is_inside = ranges.iter().any(|range| range.contains(&key("p", &row(number)).encode()));
                let value = i64::from(number % 45 == 7);
                is_inside && number != 31 && scan.filter.as_ref().is_none_or(|filter| *filter == value_is(value))
            };
            let rows: Vec<_> =
                (0..ENTITIES).filter(|number| expected(*number)).map(|n| format!("p/{}", row(n))).collect();
            assert_eq!(names(&whole), in_order(&order, &rows), "{scan:?}");
            for limit in [1, 2, 31, 32, 33] {
                let (mut from, mut collected) = (None, Vec::new());
                loop {
                    let (entities, end) = page(&*engine, &table, Scan { from, limit, ..scan.clone() }).await;
                    assert!(entities.len() <= limit);
                    collected.extend(entities);
                    assert_eq!(end.next.is_none(), collected.len() == whole.len(), "{limit} of {scan:?}");
                    from = end.next;
                    if from.is_none() {
                        break;
                    }
                }
                assert_eq!(collected, whole, "{limit} of {scan:?}");
            }
        }
    }
}
