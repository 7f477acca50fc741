//! Tests that plans scan no more than necessary and never miss a match.

use super::*;
use crate::edm::compare_ordinal;
use crate::filter::tests::{OPERATORS, any_entity, call, compare, entity, filter, matches, not, text};
use crate::filter::{Literal, Operator, PropertyName, StringFunction};
use crate::{EdmValue, Entity, StoredEntity};
use Operator::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, NotEqual};
use proptest::prelude::*;

fn partition(operator: Operator, key: &str) -> Filter {
    compare("PartitionKey", operator, text(key))
}

fn row(operator: Operator, key: &str) -> Filter {
    compare("RowKey", operator, text(key))
}

fn starts_with(property: &str, prefix: &str) -> Filter {
    call(StringFunction::StartsWith, property, prefix)
}

fn other() -> Filter {
    compare("Age", Operator::GreaterThan, Literal::Int32(3))
}

fn and<const N: usize>(operands: [Filter; N]) -> Filter {
    Filter::And(operands.into())
}

fn or<const N: usize>(operands: [Filter; N]) -> Filter {
    Filter::Or(operands.into())
}

#[test]
fn bounds_are_independent_of_each_other() {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let bounds = |filter| plan_bounds(Some(&filter)).map(|bounds| (bounds.partitions, bounds.rows));
    assert_eq!(bounds(row(GreaterThan, "7")), Some((all.clone(), (Bound::Excluded("7".to_owned()), Bound::Unbounded))));
    let between = and([partition(GreaterThanOrEqual, "p"), row(GreaterThan, "7"), row(LessThan, "9"), other()]);
    let partitions = (Bound::Included("p".to_owned()), Bound::Unbounded);
    let rows = (Bound::Excluded("7".to_owned()), Bound::Excluded("9".to_owned()));
    assert_eq!(bounds(between), Some((partitions, rows)));
    assert_eq!(bounds(other()), Some((all.clone(), all)));
    assert_eq!(bounds(and([row(Equal, "1"), row(Equal, "2")])), None);
}

#[test]
fn one_range_is_as_tight_as_the_keys_allow() {
    let point = and([partition(Equal, "p"), row(Equal, "r")]);
    for (filter, kind, range) in [
        (point.clone(), PlanKind::Point, KeyRange::rows("p", Bound::Included("r"), Bound::Included("r"))),
        (and([row(Equal, "r"), other(), partition(Equal, "p")]), PlanKind::Point, plan(Some(&point)).ranges[0].clone()),
        (
            and([and([partition(Equal, "p")]), row(Equal, "")]),
            PlanKind::Point,
            KeyRange::rows("p", Bound::Included(""), Bound::Included("")),
        ),
        (partition(Equal, "p"), PlanKind::RowRange, KeyRange::rows("p", Bound::Unbounded, Bound::Unbounded)),
        (partition(Equal, ""), PlanKind::RowRange, KeyRange::rows("", Bound::Unbounded, Bound::Unbounded)),
        (
            and([partition(Equal, "p"), row(GreaterThanOrEqual, "a"), row(LessThan, "b"), other()]),
            PlanKind::RowRange,
            KeyRange::rows("p", Bound::Included("a"), Bound::Excluded("b")),
        ),
        (
            and([partition(GreaterThanOrEqual, "p"), partition(LessThanOrEqual, "p"), row(GreaterThan, "a")]),
            PlanKind::RowRange,
            KeyRange::rows("p", Bound::Excluded("a"), Bound::Unbounded),
        ),
        (
            and([partition(GreaterThanOrEqual, "ab"), partition(LessThan, "ac")]),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Included("ab"), Bound::Excluded("ac")),
        ),
        (
            not(or([partition(LessThan, "ab"), partition(GreaterThanOrEqual, "ac")])),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Included("ab"), Bound::Excluded("ac")),
        ),
        (
            and([
                partition(GreaterThanOrEqual, "a"),
                partition(LessThanOrEqual, "c"),
                row(GreaterThan, "x"),
                row(LessThan, "y"),
            ]),
            PlanKind::PartitionRange,
            KeyRange {
                start: KeyRange::rows("a", Bound::Excluded("x"), Bound::Unbounded).start,
                end: KeyRange::rows("c", Bound::Unbounded, Bound::Excluded("y")).end,
            },
        ),
        (
            partition(GreaterThan, "p"),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Excluded("p"), Bound::Unbounded),
        ),
        (
            and([starts_with("PartitionKey", "ab"), other()]),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Included("ab"), Bound::Excluded("ac")),
        ),
        (
            starts_with("PartitionKey", "a\u{10FFFF}"),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Included("a\u{10FFFF}"), Bound::Excluded("a\u{E000}")),
        ),
        (
            starts_with("PartitionKey", "\u{FFFF}"),
            PlanKind::PartitionRange,
            KeyRange::partitions(Bound::Included("\u{FFFF}"), Bound::Unbounded),
        ),
        (
            not(or([not(starts_with("RowKey", "r")), partition(NotEqual, "p")])),
            PlanKind::RowRange,
            KeyRange::rows("p", Bound::Included("r"), Bound::Excluded("s")),
        ),
        (
            or([
                and([partition(Equal, "p"), row(LessThan, "m")]),
                and([partition(Equal, "p"), row(GreaterThanOrEqual, "m")]),
            ]),
            PlanKind::RowRange,
            KeyRange::rows("p", Bound::Unbounded, Bound::Unbounded),
        ),
    ] {
        let plan = plan(Some(&filter));
        assert_eq!(plan.kind, kind, "{filter:?}");
        assert_eq!(plan.ranges, [range], "{filter:?}");
    }
}

#[test]
fn what_says_nothing_about_keys_scans_the_table() {
    let mismatch = compare("PartitionKey", Equal, Literal::Int32(1));
    assert_eq!(plan(None).kind, PlanKind::TableScan);
    for filter in [
        other(),
        not(other()),
        mismatch.clone(),
        not(mismatch),
        row(Equal, "r"),
        Filter::Constant(true),
        Filter::IsTrue(PropertyName::PartitionKey),
        compare("partitionkey", Equal, text("p")),
        or([partition(Equal, "p"), other()]),
        not(and([not(partition(Equal, "p")), other()])),
        partition(NotEqual, "a\0"),
        starts_with("PartitionKey", ""),
        not(starts_with("PartitionKey", "a\u{1}")),
        starts_with("Timestamp", "2"),
        starts_with("Age", "3"),
        not(call(StringFunction::EndsWith, "PartitionKey", "p")),
        call(StringFunction::Contains, "PartitionKey", "p"),
    ] {
        assert_eq!(
            plan(Some(&filter)),
            Plan { ranges: vec![KeyRange::all()], kind: PlanKind::TableScan, is_reduced: false },
            "{filter:?}"
        );
    }
}

#[test]
fn contradictions_match_nothing() {
    for filter in [
        Filter::Constant(false),
        and([partition(Equal, "a"), partition(Equal, "b"), other()]),
        and([partition(Equal, "a"), row(GreaterThan, "x"), row(LessThanOrEqual, "x")]),
        and([partition(LessThan, ""), other()]),
        partition(Equal, "a\0"),
        not(partition(NotEqual, "a\u{1}b")),
        starts_with("PartitionKey", "\0"),
        not(starts_with("PartitionKey", "")),
        and([starts_with("PartitionKey", "ab"), starts_with("PartitionKey", "b")]),
        and([starts_with("PartitionKey", "ab"), not(starts_with("PartitionKey", "a"))]),
    ] {
        assert_eq!(
            plan(Some(&filter)),
            Plan { ranges: Vec::new(), kind: PlanKind::Nothing, is_reduced: false },
            "{filter:?}"
        );
    }
}

fn points(count: usize) -> Filter {
    Filter::Or((0..count).map(|i| and([partition(Equal, "p"), row(Equal, &format!("{i:04}"))])).collect())
}

/// The keys of a number of entities, joined by `or` from the left or from the right, in any nesting.
fn nested(operands: impl Iterator<Item = Filter>, join: fn(Filter, Filter) -> Filter) -> Filter {
    operands.reduce(join).expect("there are operands")
}

#[test]
fn every_alternative_has_its_own_range() {
    let point = |i: usize| and([partition(Equal, "p"), row(Equal, &format!("{i:04}"))]);
    for filter in [
        points(600),
        nested((0..600).map(point), |all, one| or([all, one])),
        nested((0..600).map(point), |all, one| or([one, all])),
        and([partition(Equal, "p"), Filter::Or((0..600).map(|i| row(Equal, &format!("{i:04}"))).collect())]),
        not(and([not(points(300)), not(Filter::Or((300..600).map(point).collect()))])),
    ] {
        let planned = plan(Some(&filter));
        assert_eq!((planned.kind, planned.is_reduced), (PlanKind::Ranges, false));
        assert!(
            planned.ranges.iter().eq((0..600).flat_map(|i| plan(Some(&point(i))).ranges).collect::<Vec<_>>().iter())
        );
    }
    let partitions = |count: usize| Filter::Or((0..count).map(|i| partition(Equal, &format!("{i:04}"))).collect());
    let rows = |count: usize| Filter::Or((0..count).map(|i| row(Equal, &format!("{i:04}"))).collect());
    let planned = plan(Some(&and([partitions(100), other()])));
    assert_eq!((planned.ranges.len(), planned.is_reduced), (100, false));
    assert!(planned.ranges.iter().all(|range| range.partition().is_some()));
    let product = plan(Some(&and([partitions(25), rows(25)])));
    assert_eq!((product.ranges.len(), product.is_reduced), (625, false));
    assert!(product.ranges.iter().all(KeyRange::is_point));
    let narrowed = plan(Some(&and([points(2000), row(LessThan, "0002"), other()])));
    assert_eq!((narrowed.ranges.len(), narrowed.is_reduced), (2, false));
    let except = plan(Some(&partition(NotEqual, "p")));
    assert_eq!(
        except.ranges,
        [
            KeyRange::partitions(Bound::Unbounded, Bound::Excluded("p")),
            KeyRange::partitions(Bound::Excluded("p"), Bound::Unbounded)
        ]
    );
}

/// A product that is too large becomes one range for each partition, from the least to the greatest row key.
#[test]
fn a_plan_with_too_many_ranges_is_reduced() {
    let partitions = Filter::Or((0..100).map(|i| partition(Equal, &format!("{i:04}"))).collect());
    let rows = Filter::Or((0..100).map(|i| row(Equal, &format!("{i:04}"))).collect());
    for filter in [and([partitions.clone(), rows.clone()]), and([rows, partitions])] {
        let planned = plan(Some(&filter));
        assert_eq!((planned.kind, planned.is_reduced, planned.ranges.len()), (PlanKind::Ranges, true, 100));
        assert_eq!(planned.ranges[7], KeyRange::rows("0007", Bound::Included("0000"), Bound::Included("0099")));
    }
    let count = PLAN_RANGES_MAX + 2;
    let planned = plan(Some(&points(count)));
    assert_eq!((planned.is_reduced, planned.ranges.len()), (true, count / 2));
    let pair = KeyRange::rows("p", Bound::Included("0000"), Bound::Included("0001"));
    assert_eq!(planned.ranges[0], pair);
    assert!(points_of(count).all(|entity| KeyRange::any_contains(&planned.ranges, &entity.key.encode())));
}

fn points_of(count: usize) -> impl Iterator<Item = Entity> {
    (0..count).map(|i| entity("p", &format!("{i:04}"), &[]))
}

/// Without a bound on its steps, planning would take hours, or all memory.
#[test]
fn planning_thousands_of_comparisons_ends() {
    let without = |axis: fn(Operator, &str) -> Filter| (0..1000).map(move |i| axis(NotEqual, &format!("{i:04}")));
    let excluded = Filter::And(without(partition).chain(without(row)).collect());
    assert!(plan(Some(&excluded)).is_reduced);
    let products = Filter::And((0..40).map(|_| points(50)).collect());
    let planned = plan(Some(&products));
    assert_eq!((planned.ranges.len(), planned.is_reduced), (50, true));
    let halves = |i: usize| or([row(LessThan, &format!("{:04}", i + 1)), row(GreaterThan, &format!("{i:04}"))]);
    let nested = nested((0..500).map(halves), |all, one| and([one, all]));
    assert!(plan(Some(&and([partition(Equal, "p"), nested]))).is_reduced);
}

/// Evaluates a filter for each entity as a query of many ranges does.
fn check_by_range(filter: &Filter, entities: &[Entity]) {
    let mut by_range = EntityFilter::new(filter.clone(), usize::MAX);
    for entity in entities {
        let key = entity.key.encode();
        let mut stored = StoredEntity::new(&key, entity.record.as_bytes()).unwrap();
        let found = by_range.matches(&key, &mut stored).unwrap();
        assert_eq!(found, matches(filter, entity), "{:?} {filter:?}", entity.key);
    }
}

#[test]
fn a_filter_of_many_ranges_decides_as_a_whole() {
    let named = |name: &str| compare("Name", Equal, text(name));
    let entities: Vec<Entity> = ["0001", "0002", "0003", "0004", "1000"]
        .iter()
        .flat_map(|row| ["a", "p"].map(|partition| (partition, *row)))
        .flat_map(|(partition, row)| ["x", "y"].map(|name| entity(partition, row, &[("Name", EdmValue::String(name))])))
        .collect();
    for filter in [
        points(3),
        and([points(3), named("x")]),
        and([points(3), row(GreaterThan, "0001"), or([named("x"), row(Equal, "0002")])]),
        or([and([points(3), named("x")]), and([row(GreaterThan, "0001"), named("y")])]),
        // The ranges of these overlap.
        or([and([partition(Equal, "p"), named("x")]), and([partition(Equal, "p"), row(Equal, "0002"), named("y")])]),
        or([
            and([partition(GreaterThan, "a"), row(Equal, "0002")]),
            and([partition(LessThan, "z"), row(Equal, "0003")]),
        ]),
        and([or([partition(LessThan, "b"), partition(GreaterThanOrEqual, "a")]), named("x")]),
        not(or([not(points(2)), named("x")])),
        not(and([or([row(NotEqual, "0001"), named("x")]), or([row(NotEqual, "0004"), not(named("y"))])])),
        Filter::Constant(false),
        named("y"),
    ] {
        check_by_range(&filter, &entities);
    }
}

fn table(operator: Operator, name: &str) -> Filter {
    compare("TableName", operator, text(name))
}

#[test]
fn tables_are_bounded_by_their_folded_name() {
    let range = |from: &str, to: Option<&str>| TableRange { from: from.to_owned(), to: to.map(str::to_owned) };
    for (filter, expected) in [
        (and([table(GreaterThanOrEqual, "Abc"), table(LessThan, "abC{")]), range("abc", Some("abc{"))),
        (table(Equal, "MyTable"), range("mytable", Some("mytable\0"))),
        (table(GreaterThan, "a"), range("a\0", None)),
        (not(table(GreaterThan, "a")), range("", Some("a\0"))),
        (or([table(Equal, "c"), table(Equal, "a"), table(Equal, "b")]), range("a", Some("c\0"))),
        (or([table(GreaterThan, "a"), table(GreaterThanOrEqual, "A")]), range("a", None)),
        (or([table(LessThanOrEqual, "a"), table(LessThan, "A")]), range("", Some("a\0"))),
        (and([table(GreaterThan, "a"), table(GreaterThanOrEqual, "A")]), range("a\0", None)),
        (and([table(LessThanOrEqual, "a"), table(LessThan, "A")]), range("", Some("a"))),
        (or([table(Equal, "c"), other()]), range("", None)),
        (Filter::Constant(false), range("", Some(""))),
        (partition(Equal, "a"), range("", None)),
        (starts_with("TableName", "AbZ"), range("abz", Some("ab{"))),
        (starts_with("TableName", ""), range("", None)),
        (not(starts_with("TableName", "b")), range("", None)),
        (and([not(starts_with("TableName", "b")), table(GreaterThanOrEqual, "b")]), range("c", None)),
        (call(StringFunction::EndsWith, "TableName", "b"), range("", None)),
        (call(StringFunction::Contains, "TableName", "b"), range("", None)),
    ] {
        assert_eq!(plan_tables(Some(&filter)), expected, "{filter:?}");
    }
    assert_eq!(plan_tables(None), range("", None));
    assert!(plan_tables(Some(&Filter::Constant(false))).is_empty());
}

fn about_tables(filter: Filter) -> Filter {
    match filter {
        Filter::And(operands) => Filter::And(operands.into_iter().map(about_tables).collect()),
        Filter::Or(operands) => Filter::Or(operands.into_iter().map(about_tables).collect()),
        Filter::Not(operand) => not(about_tables(*operand)),
        Filter::Compare(comparison) if comparison.property != PropertyName::RowKey => {
            compare("TableName", comparison.operator, comparison.literal)
        }
        Filter::Call(of) if of.property != PropertyName::RowKey => call(of.function, "TableName", &of.text),
        leaf => leaf,
    }
}

/// Strings of the characters before and after which the order of code points and of UTF-16 code units differs.
fn edge_text() -> impl Strategy<Value = String> {
    let edge = ['a', 'b', '\u{D7FF}', '\u{E000}', '\u{FFFE}', '\u{FFFF}', '\u{10000}', char::MAX];
    proptest::collection::vec(proptest::sample::select(edge.to_vec()), 0..4).prop_map(|text| text.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_plan_never_loses_a_match(filter in filter(), entities in proptest::collection::vec(any_entity(), 1..12)) {
        let plan = plan(Some(&filter));
        for entity in &entities {
            let covered = plan.ranges.iter().any(|range| range.contains(&entity.key.encode()));
            prop_assert!(covered || !matches(&filter, entity), "{:?} {:?}", entity.key, plan);
        }
    }

    #[test]
    fn ranges_ascend_and_never_overlap(filter in filter()) {
        let plan = plan(Some(&filter));
        prop_assert!(plan.ranges.len() <= PLAN_RANGES_MAX);
        prop_assert!(!plan.ranges.iter().any(KeyRange::is_empty));
        for pair in plan.ranges.windows(2) {
            prop_assert!(pair[0].end.as_ref().is_some_and(|end| *end < pair[1].start), "{:?}", plan);
        }
        prop_assert_eq!(plan.kind == PlanKind::Nothing, plan.ranges.is_empty());
    }

    #[test]
    fn a_filter_of_any_ranges_decides_as_a_whole(
        filters in proptest::collection::vec(filter(), 1..6), is_or in any::<bool>(),
        entities in proptest::collection::vec(any_entity(), 1..12),
    ) {
        let filter = if is_or { Filter::Or(filters) } else { Filter::And(filters) };
        check_by_range(&filter, &entities);
    }

    #[test]
    fn a_list_of_ranges_contains_what_one_of_them_contains(filter in filter(), entity in any_entity()) {
        let (ranges, key) = (plan(Some(&filter)).ranges, entity.key.encode());
        prop_assert_eq!(KeyRange::any_contains(&ranges, &key), ranges.iter().any(|range| range.contains(&key)));
    }

    #[test]
    fn one_comparison_of_a_partition_key_is_exact(
        operator in proptest::sample::select(OPERATORS.to_vec()), key in ".{0,3}", entity in any_entity(),
    ) {
        let filter = partition(operator, &key);
        let covered = plan(Some(&filter)).ranges.iter().any(|range| range.contains(&entity.key.encode()));
        prop_assert_eq!(covered, matches(&filter, &entity));
    }

    #[test]
    fn one_prefix_of_a_partition_key_is_exact(prefix in edge_text(), other in edge_text(), row in edge_text()) {
        for key in [&prefix, &other, &format!("{prefix}{other}")] {
            let entity = entity(key, &row, &[]);
            for filter in [starts_with("PartitionKey", &prefix), not(starts_with("PartitionKey", &prefix))] {
                let covered = plan(Some(&filter)).ranges.iter().any(|range| range.contains(&entity.key.encode()));
                prop_assert_eq!(covered, matches(&filter, &entity), "{:?} {:?}", filter, entity.key);
            }
        }
    }

    #[test]
    fn bounds_never_lose_a_match(filter in filter(), entity in any_entity()) {
        let lies_between = |(lower, upper): &(Bound<String>, Bound<String>), key: &str| {
            let is_above = match lower {
                Bound::Unbounded => true,
                Bound::Included(lower) => compare_ordinal(key, lower).is_ge(),
                Bound::Excluded(lower) => compare_ordinal(key, lower).is_gt(),
            };
            is_above && match upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => compare_ordinal(key, upper).is_le(),
                Bound::Excluded(upper) => compare_ordinal(key, upper).is_lt(),
            }
        };
        let is_inside = plan_bounds(Some(&filter)).is_some_and(|bounds| {
            lies_between(&bounds.partitions, entity.key.partition.as_str())
                && lies_between(&bounds.rows, entity.key.row.as_str())
        });
        prop_assert!(is_inside || !matches(&filter, &entity), "{:?}", filter);
    }

    #[test]
    fn a_plan_of_tables_never_loses_a_match(filter in filter(), names in proptest::collection::vec("[ab]{1,3}", 1..12)) {
        let filter = about_tables(filter);
        let range = plan_tables(Some(&filter));
        for name in &names {
            prop_assert!(range.contains(name) || !filter.matches_table(name), "{name} {:?}", range);
        }
    }
}
