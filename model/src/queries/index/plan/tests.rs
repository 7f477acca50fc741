//! Tests that ranges of an index never miss a match.

use super::super::tests::value;
use super::*;
use crate::DateTime;
use crate::edm::Guid;
use crate::filter::tests::{OPERATORS, STRING_FUNCTIONS, call, compare, entity, matches, not, text};
use crate::index::{entry, entry_of_value};
use crate::plan::plan;
use crate::record::tests::OwnedValue;
use Operator::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, NotEqual};
use proptest::prelude::*;

const PROPERTY: &str = "Total";

fn indexed(name: &str) -> IndexedProperty {
    IndexedProperty::new(name).unwrap()
}

fn literal() -> impl Strategy<Value = Literal> {
    value().prop_map(|value| match value {
        OwnedValue::Boolean(value) => Literal::Boolean(value),
        OwnedValue::Int32(value) => Literal::Int32(value),
        OwnedValue::Int64(value) => Literal::Int64(value),
        OwnedValue::Double(value) => Literal::Double(value),
        OwnedValue::DateTime(value) => Literal::DateTime(DateTime::from_ticks(value).unwrap()),
        OwnedValue::Guid(value) => Literal::Guid(Guid::from_bytes(value)),
        OwnedValue::Binary(value) => Literal::Binary(value.into()),
        OwnedValue::String(value) => text(&value),
    })
}

fn leaf() -> impl Strategy<Value = Filter> {
    let name = || prop_oneof![4 => Just(PROPERTY), 1 => Just("Other"), 1 => Just("PartitionKey")];
    let function = proptest::sample::select(STRING_FUNCTIONS.to_vec());
    prop_oneof![
        8 => (name(), proptest::sample::select(OPERATORS.to_vec()), literal())
            .prop_map(|(name, operator, literal)| compare(name, operator, literal)),
        2 => (name(), function, "a{0,3}|a{250,260}").prop_map(|(name, function, text)| call(function, name, &text)),
        1 => name().prop_map(|name| Filter::IsTrue(PropertyName::new(name))),
        1 => any::<bool>().prop_map(Filter::Constant),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    leaf().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(not),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_ranges_never_lose_a_match(filter in any_filter(), values in proptest::collection::vec(value(), 1..8)) {
        let property = indexed(PROPERTY);
        let Some(ranges) = value_ranges(&filter, &property) else { return Ok(()) };
        prop_assert!(ranges.len() <= INDEX_RANGES_MAX && !ranges.iter().any(KeyRange::is_empty));
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end.as_ref().is_some_and(|end| *end < pair[1].start)));
        prop_assert!(!matches(&filter, &entity("p", "r", &[])), "an entity without the property has no entry");
        for value in &values {
            let entity = entity("p", "r", &[(PROPERTY, value.view())]);
            let entry = entry(&property, &entity.key.encode(), entity.record.view().unwrap()).unwrap().unwrap();
            let is_covered = ranges.iter().any(|range| range.contains(&entry));
            prop_assert!(is_covered || !matches(&filter, &entity), "{:?} {:?}", value, ranges);
        }
    }

    #[test]
    fn a_comparison_reads_only_matches(
        operator in proptest::sample::select(OPERATORS.to_vec()), literal in literal(), value in value(),
    ) {
        let filter = compare(PROPERTY, operator, literal);
        let ranges = value_ranges(&filter, &indexed(PROPERTY)).unwrap();
        let entity = entity("p", "r", &[(PROPERTY, value.view())]);
        let entry = entry_of_value(value.view(), &entity.key.encode());
        let is_covered = ranges.iter().any(|range| range.contains(&entry));
        let is_exact = match value.view() {
            EdmValue::String(value) => value.len() < INDEXED_BYTES_MAX,
            EdmValue::Binary(value) => value.len() < INDEXED_BYTES_MAX,
            EdmValue::Double(value) => !value.is_nan(),
            _ => true,
        };
        if is_exact && operator != Operator::NotEqual {
            prop_assert_eq!(is_covered, matches(&filter, &entity));
        }
    }
}

#[test]
fn the_most_selective_index_is_chosen() {
    let total = |operator, number| compare("Total", operator, Literal::Int32(number));
    let name = |operator, value| compare("Name", operator, text(value));
    let partition = |operator, key| compare("PartitionKey", operator, text(key));
    let row = compare("RowKey", Operator::Equal, text("r"));
    let and = Filter::And;
    for (filter, expected) in [
        (total(Equal, 5), Some("Total")),
        (total(GreaterThan, 5), Some("Total")),
        (total(LessThan, 5), Some("Total")),
        (Filter::Or(vec![total(Equal, 5), total(Equal, 6)]), Some("Total")),
        (and(vec![total(GreaterThan, 5), name(Equal, "a")]), Some("Name")),
        (and(vec![total(GreaterThan, 5), total(LessThan, 9), name(GreaterThanOrEqual, "a")]), Some("Total")),
        (and(vec![total(Equal, 5), partition(Equal, "p")]), Some("Total")),
        (and(vec![total(Equal, 5), partition(GreaterThan, "p")]), Some("Total")),
        (and(vec![total(GreaterThan, 5), partition(GreaterThan, "p")]), Some("Total")),
        (call(StringFunction::StartsWith, "Name", "a"), Some("Name")),
        (not(not(total(Equal, 5))), Some("Total")),
        (Filter::IsTrue(PropertyName::new("Total")), Some("Total")),
        // The partition may be small.
        (and(vec![total(GreaterThan, 5), partition(Equal, "p")]), None),
        (and(vec![total(Equal, 5), partition(Equal, "p"), row]), None),
        (Filter::Or(vec![total(Equal, 5), partition(Equal, "p")]), None),
        (not(total(Equal, 5)), None),
        (total(NotEqual, 5), None),
        (call(StringFunction::Contains, "Name", "a"), None),
        (compare("Other", Equal, Literal::Int32(5)), None),
        (Filter::Constant(true), None),
    ] {
        let indexes = [indexed("Total"), indexed("Name")];
        let chosen = plan_index(&filter, &plan(Some(&filter)).ranges, &indexes);
        assert_eq!(chosen.as_ref().map(|plan| plan.property.as_str()), expected, "{filter:?}");
    }
    let contradiction = and(vec![total(Equal, 5), total(Equal, 6)]);
    let chosen = plan_index(&contradiction, &[KeyRange::all()], &[indexed("Total")]);
    assert_eq!(chosen, Some(IndexPlan { property: indexed("Total"), ranges: Vec::new() }));
}
