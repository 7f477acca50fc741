//! The tests of plans use the same generators of filters and entities.

use super::*;
use crate::edm::EdmValue;
use crate::key::KeyText;
use crate::record::{DamagedRecord, Record, RecordBuilder};
use crate::{Entity, EntityKey, EntityView, StoredEntity};
use proptest::prelude::*;

pub(crate) const OPERATORS: [Operator; 6] = [
    Operator::Equal,
    Operator::NotEqual,
    Operator::LessThan,
    Operator::LessThanOrEqual,
    Operator::GreaterThan,
    Operator::GreaterThanOrEqual,
];

pub(crate) const STRING_FUNCTIONS: [StringFunction; 3] =
    [StringFunction::StartsWith, StringFunction::EndsWith, StringFunction::Contains];

pub(crate) fn compare(property: &str, operator: Operator, literal: Literal) -> Filter {
    Filter::Compare(Comparison { property: PropertyName::new(property), operator, literal })
}

pub(crate) fn call(function: StringFunction, property: &str, text: &str) -> Filter {
    Filter::Call(Call { function, property: PropertyName::new(property), text: Box::from(text) })
}

pub(crate) fn text(text: &str) -> Literal {
    Literal::String(Box::from(text))
}

pub(crate) fn not(operand: Filter) -> Filter {
    Filter::Not(Box::new(operand))
}

pub(crate) fn entity(partition: &str, row: &str, properties: &[(&str, EdmValue<'_>)]) -> Entity {
    let mut builder = RecordBuilder::default();
    for (name, value) in properties {
        builder.push(name, *value);
    }
    let key = EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() };
    Entity { key, record: builder.finish(instant("2024-05-06T07:08:09.1234567Z")) }
}

fn instant(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn guid(text: &str) -> Guid {
    Guid::parse(text).unwrap()
}

pub(crate) fn matches(filter: &Filter, entity: &Entity) -> bool {
    filter.matches(&EntityView::from_parts(&entity.key, &entity.record).unwrap()).unwrap()
}

/// Returns the results of `eq ne lt le gt ge` as a string of `1` and `0`.
fn answers(value: EdmValue<'_>, literal: &Literal) -> String {
    let entity = entity("p", "r", &[("P", value)]);
    let answer = |operator| if matches(&compare("P", operator, literal.clone()), &entity) { '1' } else { '0' };
    OPERATORS.into_iter().map(answer).collect()
}

const EQUAL: &str = "100101";
const LESS: &str = "011100";
const GREATER: &str = "010011";
const MISMATCH: &str = "011100";
const NOT_A_NUMBER: &str = "010000";

#[test]
fn values_of_one_type_order_as_specified() {
    let low = guid("00000000-0000-4000-8000-000000000001");
    let high = guid("ff000000-0000-4000-8000-000000000000");
    let early = instant("2024-01-01T00:00:00Z");
    for (value, literal, expected) in [
        (EdmValue::String("B"), text("b"), LESS),
        (EdmValue::String("b"), text("bB"), LESS),
        (EdmValue::String("bB"), text("bB"), EQUAL),
        (EdmValue::String(""), text(""), EQUAL),
        (EdmValue::String("\u{1F600}"), text("\u{E000}"), LESS),
        (EdmValue::Boolean(false), Literal::Boolean(true), LESS),
        (EdmValue::Boolean(true), Literal::Boolean(true), EQUAL),
        (EdmValue::Binary(&[1]), Literal::Binary(Box::from([1, 0])), LESS),
        (EdmValue::Binary(&[2]), Literal::Binary(Box::from([1, 255])), GREATER),
        (EdmValue::Binary(&[]), Literal::Binary(Box::from([])), EQUAL),
        (EdmValue::Guid(low), Literal::Guid(high), LESS),
        (EdmValue::Guid(high), Literal::Guid(high), EQUAL),
        (EdmValue::DateTime(early), Literal::DateTime(early.next()), LESS),
        (EdmValue::DateTime(early), Literal::DateTime(instant("2024-01-01T01:00:00+01:00")), EQUAL),
        (EdmValue::Int32(-3), Literal::Int32(2), LESS),
        (EdmValue::Int64(1 << 40), Literal::Int64(1 << 39), GREATER),
        (EdmValue::Double(2.5), Literal::Double(3.0), LESS),
        (EdmValue::Double(-0.0), Literal::Double(0.0), EQUAL),
        (EdmValue::Double(f64::NEG_INFINITY), Literal::Double(f64::MIN), LESS),
        (EdmValue::Double(f64::NAN), Literal::Double(1.0), NOT_A_NUMBER),
        (EdmValue::Double(f64::NAN), Literal::Double(f64::NAN), NOT_A_NUMBER),
        (EdmValue::Double(1.0), Literal::Double(f64::NAN), NOT_A_NUMBER),
        (EdmValue::Double(f64::NAN), Literal::Int32(3), NOT_A_NUMBER),
        (EdmValue::Double(3.5), Literal::Int64(3), GREATER),
    ] {
        assert_eq!(answers(value, &literal), expected, "{value:?} {literal:?}");
    }
}

/// 04 §3.2, §3.3: a literal is widened to the property's type, never the reverse. A value of another type behaves as if
/// it were smaller.
#[test]
fn a_value_of_another_type_is_smaller_than_the_literal() {
    let id = guid("0b0c0d0e-1111-4222-8333-444455556666");
    let values = [
        (EdmValue::String("3"), text("3")),
        (EdmValue::Binary(&[3]), Literal::Binary(Box::from([3]))),
        (EdmValue::Boolean(true), Literal::Boolean(true)),
        (EdmValue::DateTime(DateTime::MIN), Literal::DateTime(DateTime::MIN)),
        (EdmValue::Double(3.0), Literal::Double(3.0)),
        (EdmValue::Guid(id), Literal::Guid(id)),
        (EdmValue::Int32(3), Literal::Int32(3)),
        (EdmValue::Int64(3), Literal::Int64(3)),
    ];
    for (value, own) in &values {
        assert_eq!(value.edm_type(), own.edm_type());
        for (_, literal) in &values {
            let promoted = matches!(
                (value, literal),
                (EdmValue::Int64(_) | EdmValue::Double(_), Literal::Int32(_))
                    | (EdmValue::Double(_), Literal::Int64(_))
            );
            let expected = if value.edm_type() == literal.edm_type() || promoted { EQUAL } else { MISMATCH };
            assert_eq!(answers(*value, literal), expected, "{value:?} {literal:?}");
        }
    }
}

#[test]
fn every_comparison_with_a_missing_property_is_false() {
    let entity = entity("p", "r", &[("Here", EdmValue::Int32(1))]);
    for operator in OPERATORS {
        for name in ["Missing", "here", "partitionkey", "Her", "Heree"] {
            let comparison = compare(name, operator, Literal::Int32(1));
            assert!(!matches(&comparison, &entity), "{name}");
            assert!(matches(&not(comparison), &entity), "{name}");
        }
    }
}

#[test]
fn a_property_alone_is_true_only_if_it_is_boolean_and_true() {
    let properties = [
        ("Yes", EdmValue::Boolean(true)),
        ("No", EdmValue::Boolean(false)),
        ("Text", EdmValue::String("true")),
        ("One", EdmValue::Int32(1)),
    ];
    let entity = entity("p", "r", &properties);
    for (name, expected) in [
        ("Yes", true),
        ("No", false),
        ("Text", false),
        ("One", false),
        ("Missing", false),
        ("PartitionKey", false),
        ("Timestamp", false),
    ] {
        let filter = Filter::IsTrue(PropertyName::new(name));
        assert_eq!(matches(&filter, &entity), expected, "{name}");
        assert_eq!(matches(&not(filter), &entity), !expected, "{name}");
    }
}

#[test]
fn system_properties_are_properties() {
    let entity = entity("p", "r", &[]);
    let stamp = Literal::DateTime(instant("2024-05-06T07:08:09.1234567Z"));
    for (name, operator, literal, expected) in [
        ("PartitionKey", Operator::Equal, text("p"), true),
        ("PartitionKey", Operator::Equal, text("r"), false),
        ("RowKey", Operator::GreaterThan, text("q"), true),
        ("RowKey", Operator::Equal, Literal::Int32(1), false),
        ("RowKey", Operator::NotEqual, Literal::Int32(1), true),
        ("RowKey", Operator::GreaterThan, Literal::Int32(1), false),
        ("Timestamp", Operator::Equal, stamp.clone(), true),
        ("Timestamp", Operator::LessThan, stamp, false),
        ("Timestamp", Operator::NotEqual, text("2024"), true),
    ] {
        assert_eq!(matches(&compare(name, operator, literal), &entity), expected, "{name} {operator:?}");
    }
}

#[test]
fn string_functions_look_for_the_literal_where_they_say() {
    let properties = [("S", EdmValue::String("aé😀a")), ("Empty", EdmValue::String("")), ("I", EdmValue::Int32(1))];
    let entity = entity("partition", "row", &properties);
    // The results of startswith, endswith and contains.
    for (property, text, expected) in [
        ("S", "", "111"),
        ("S", "a", "111"),
        ("S", "aé", "101"),
        ("S", "😀a", "011"),
        ("S", "é😀", "001"),
        ("S", "aé😀a", "111"),
        ("S", "aé😀aa", "000"),
        ("S", "A", "000"),
        ("S", "\u{FFFD}", "000"),
        ("Empty", "", "111"),
        ("Empty", "a", "000"),
        ("PartitionKey", "part", "101"),
        ("PartitionKey", "ition", "011"),
        ("PartitionKey", "", "111"),
        ("RowKey", "row", "111"),
        ("RowKey", "o", "001"),
        ("RowKey", "R", "000"),
        // A missing property and one of another type have no strings, not even the empty one.
        ("Missing", "", "000"),
        ("s", "", "000"),
        ("I", "", "000"),
        ("I", "1", "000"),
        ("Timestamp", "", "000"),
        ("Timestamp", "2024", "000"),
    ] {
        let answers = STRING_FUNCTIONS.map(|function| {
            let call = call(function, property, text);
            let answer = matches(&call, &entity);
            assert_ne!(matches(&not(call), &entity), answer, "{property} {text} {function:?}");
            if answer { '1' } else { '0' }
        });
        assert_eq!(answers.iter().collect::<String>(), expected, "{property} {text}");
    }
}

#[test]
fn only_what_decides_is_read() {
    let mut builder = RecordBuilder::default();
    builder.push("A", EdmValue::Int32(1));
    builder.push("B", EdmValue::Int32(2));
    let mut bytes = builder.finish(DateTime::MIN).as_bytes().to_vec();
    bytes.truncate(bytes.len() - 2);
    let record = Record::from_bytes(bytes);
    let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
    let view = EntityView::from_parts(&key, &record).unwrap();
    let a = compare("A", Operator::Equal, Literal::Int32(1));
    let b = compare("B", Operator::Equal, Literal::Int32(2));
    assert_eq!(a.matches(&view), Ok(true));
    assert_eq!(b.matches(&view), Err(DamagedRecord));
    assert_eq!(Filter::Or(vec![a.clone(), b.clone()]).matches(&view), Ok(true));
    assert_eq!(Filter::And(vec![a, b.clone()]).matches(&view), Err(DamagedRecord));
    assert_eq!(Filter::And(vec![Filter::Constant(false), b]).matches(&view), Ok(false));
}

#[test]
fn a_key_is_decoded_only_for_filters_on_keys() {
    let Entity { record, .. } = entity("p", "r", &[("A", EdmValue::Int32(1))]);
    let stored = || StoredEntity::new(b"a key without a separator", record.as_bytes()).unwrap();
    let answer = |filter| Matcher::new(filter).matches(&mut stored());
    let a = |number| compare("A", Operator::Equal, Literal::Int32(number));
    let row = compare("RowKey", Operator::NotEqual, text("x"));
    assert_eq!((answer(a(1)), answer(a(2))), (Ok(true), Ok(false)));
    assert_eq!(answer(compare("Timestamp", Operator::Equal, text("x"))), Ok(false));
    assert_eq!(answer(row.clone()), Err(DamagedRecord));
    assert_eq!(answer(Filter::And(vec![a(2), row.clone()])), Ok(false));
    assert_eq!(answer(Filter::And(vec![a(1), row])), Err(DamagedRecord));
    assert_eq!(stored().into_view().unwrap_err(), DamagedRecord);
}

#[test]
fn a_stored_string_that_is_not_utf8_never_panics() {
    let mut builder = RecordBuilder::default();
    builder.push("S", EdmValue::String("abc"));
    let mut bytes = builder.finish(DateTime::MIN).as_bytes().to_vec();
    *bytes.last_mut().unwrap() = 0xFF;
    let record = Record::from_bytes(bytes);
    let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
    let view = EntityView::from_parts(&key, &record).unwrap();
    assert_eq!(compare("S", Operator::Equal, text("abc")).matches(&view), Ok(false));
    assert_eq!(compare("S", Operator::LessThan, text("abc")).matches(&view), Err(DamagedRecord));
    assert_eq!(call(StringFunction::StartsWith, "S", "ab").matches(&view), Ok(true));
    assert_eq!(call(StringFunction::EndsWith, "S", "c").matches(&view), Ok(false));
    assert_eq!(call(StringFunction::Contains, "S", "ab").matches(&view), Err(DamagedRecord));
}

#[test]
fn tables_are_compared_without_regard_to_case() {
    let name = |operator, literal| compare("TableName", operator, text(literal));
    for (filter, expected) in [
        (name(Operator::Equal, "MyTable"), true),
        (name(Operator::Equal, "mytable"), true),
        (name(Operator::NotEqual, "MYTABLE"), false),
        (name(Operator::GreaterThanOrEqual, "My"), true),
        (name(Operator::LessThan, "mY{"), true),
        (name(Operator::LessThan, "É"), true),
        (compare("TableName", Operator::Equal, Literal::Int32(1)), false),
        (compare("TableName", Operator::NotEqual, Literal::Int32(1)), true),
        (Filter::IsTrue(PropertyName::new("TableName")), false),
        (call(StringFunction::StartsWith, "TableName", "mYt"), true),
        (call(StringFunction::StartsWith, "TableName", "yt"), false),
        (call(StringFunction::StartsWith, "TableName", "É"), false),
        (call(StringFunction::EndsWith, "TableName", "BLE"), true),
        (call(StringFunction::EndsWith, "TableName", "mytab"), false),
        (call(StringFunction::EndsWith, "TableName", "amytable"), false),
        (call(StringFunction::Contains, "TableName", "TAB"), true),
        (call(StringFunction::Contains, "TableName", "mytable"), true),
        (call(StringFunction::Contains, "TableName", "ta b"), false),
        (Filter::And(STRING_FUNCTIONS.map(|function| call(function, "TableName", "")).to_vec()), true),
        (Filter::And(vec![name(Operator::GreaterThan, "m"), not(name(Operator::Equal, "x"))]), true),
        (Filter::Or(vec![name(Operator::Equal, "a"), name(Operator::Equal, "b")]), false),
    ] {
        assert!(filter.uses_only_table_name(), "{filter:?}");
        assert_eq!(filter.matches_table("mytable"), expected, "{filter:?}");
    }
    for property in ["PartitionKey", "tablename", "Name"] {
        let other = compare(property, Operator::NotEqual, text("a"));
        assert!(!other.matches_table("mytable"));
        let filter = Filter::And(vec![name(Operator::Equal, "mytable"), not(other)]);
        assert!(!filter.uses_only_table_name(), "{property}");
        let other = call(StringFunction::Contains, property, "");
        assert!(!other.matches_table("mytable") && !other.uses_only_table_name(), "{property}");
    }
}

/// Uses a small alphabet, so that equal keys, prefixes and both sides of a bound occur often.
pub(crate) fn key_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![Just('a'), Just('b'), Just(' '), Just('\u{E000}'), Just('😀')];
    proptest::collection::vec(character, 0..3).prop_map(|characters| characters.into_iter().collect())
}

fn literal_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => key_text(),
        // A literal may contain characters that are not allowed in keys.
        1 => (key_text(), prop_oneof![Just('\0'), Just('\u{1}'), Just('\u{2}'), Just('/')], key_text())
            .prop_map(|(head, character, tail)| format!("{head}{character}{tail}")),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        5 => literal_text().prop_map(|value| text(&value)),
        1 => prop_oneof![Just(1), Just(2)].prop_map(Literal::Int32),
        1 => any::<bool>().prop_map(Literal::Boolean),
    ]
}

fn leaf() -> impl Strategy<Value = Filter> {
    let name = prop_oneof![
        4 => Just("PartitionKey"),
        4 => Just("RowKey"),
        1 => Just("Timestamp"),
        1 => Just("Custom"),
        1 => Just("TableName"),
        1 => Just("partitionkey"),
    ];
    let operator = proptest::sample::select(OPERATORS.to_vec());
    let function = proptest::sample::select(STRING_FUNCTIONS.to_vec());
    prop_oneof![
        12 => (name.clone(), operator, literal())
            .prop_map(|(name, operator, literal)| compare(name, operator, literal)),
        6 => (name, function, literal_text()).prop_map(|(name, function, text)| call(function, name, &text)),
        1 => Just(Filter::IsTrue(PropertyName::new("Custom"))),
        1 => any::<bool>().prop_map(Filter::Constant),
    ]
}

pub(crate) fn filter() -> impl Strategy<Value = Filter> {
    leaf().prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Filter::Or),
            inner.prop_map(not),
        ]
    })
}

pub(crate) fn any_entity() -> impl Strategy<Value = Entity> {
    let custom = proptest::option::of(prop_oneof![
        any::<bool>().prop_map(crate::record::tests::OwnedValue::Boolean),
        key_text().prop_map(crate::record::tests::OwnedValue::String),
        prop_oneof![Just(1), Just(2)].prop_map(crate::record::tests::OwnedValue::Int32),
    ]);
    (key_text(), key_text(), custom).prop_map(|(partition, row, custom)| {
        let properties: Vec<_> = custom.iter().map(|value| ("Custom", value.view())).collect();
        entity(&partition, &row, &properties)
    })
}

/// More names than are remembered.
const CUSTOM_NAMES: [&str; 12] =
    ["A", "B", "C", "AA", "AB", "Ab", "Property", "Propertz", "PropertyB", "Ä", "D", "PropertyThatHasALongName"];

fn filter_of_custom_properties() -> impl Strategy<Value = Filter> {
    let name = proptest::sample::select(CUSTOM_NAMES.to_vec());
    let literal = prop_oneof![
        Just(Literal::Boolean(true)),
        Just(Literal::Int32(0)),
        Just(Literal::Int64(0)),
        Just(Literal::Double(0.0)),
        Just(Literal::Binary(Box::from([9]))),
        Just(Literal::DateTime(instant("2024-01-01T00:00:00Z"))),
        literal_text().prop_map(|value| text(&value)),
    ];
    let operator = proptest::sample::select(OPERATORS.to_vec());
    let function = proptest::sample::select(STRING_FUNCTIONS.to_vec());
    let leaf = prop_oneof![
        6 => (name.clone(), operator, literal).prop_map(|(name, operator, literal)| compare(name, operator, literal)),
        2 => (name.clone(), function, literal_text()).prop_map(|(name, function, text)| call(function, name, &text)),
        1 => name.prop_map(|name| Filter::IsTrue(PropertyName::new(name))),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Filter::Or),
            inner.prop_map(not),
        ]
    })
}

/// Evaluates the filter with a separate pass through the record for each operand.
fn matches_in_turn(filter: &Filter, entity: &EntityView<'_>) -> Result<bool, DamagedRecord> {
    match filter {
        Filter::And(operands) => operands.iter().try_fold(true, |all, f| Ok(all && matches_in_turn(f, entity)?)),
        Filter::Or(operands) => operands.iter().try_fold(false, |any, f| Ok(any || matches_in_turn(f, entity)?)),
        Filter::Not(operand) => Ok(!matches_in_turn(operand, entity)?),
        leaf => leaf.matches(entity),
    }
}

/// Evaluates the filter with a new property cache for each operand and without short-circuiting.
fn matches_simply(filter: &Filter, entity: &Entity) -> bool {
    match filter {
        Filter::And(operands) => operands.iter().filter(|f| matches_simply(f, entity)).count() == operands.len(),
        Filter::Or(operands) => operands.iter().filter(|f| matches_simply(f, entity)).count() > 0,
        Filter::Not(operand) => !matches_simply(operand, entity),
        leaf => matches(leaf, entity),
    }
}

proptest! {
    #[test]
    fn a_filter_is_worth_what_its_operands_are_worth(filter in filter(), entity in any_entity()) {
        prop_assert_eq!(matches(&filter, &entity), matches_simply(&filter, &entity));
    }

    /// The properties are in any order, some are missing or stored twice, and the record may be truncated.
    #[test]
    fn one_pass_finds_what_a_pass_for_each_operand_finds(
        filter in filter_of_custom_properties(),
        stored in proptest::collection::vec((0..CUSTOM_NAMES.len(), crate::record::tests::value()), 0..14),
        damage in proptest::option::of((0..100_usize, any::<u8>())),
    ) {
        let mut builder = RecordBuilder::default();
        for (name, value) in &stored {
            builder.push(CUSTOM_NAMES[*name], value.view());
        }
        let mut bytes = builder.finish(DateTime::MIN).as_bytes().to_vec();
        if let Some((at, byte)) = damage {
            match bytes.get_mut(at) {
                // The header stays intact.
                Some(damaged) if at > 8 => *damaged = byte,
                _ => bytes.truncate(bytes.len().max(11) - 1),
            }
        }
        let (key, record) = (EntityKey::new("p", "r").unwrap(), Record::from_bytes(bytes));
        let entity = EntityView::from_parts(&key, &record).unwrap();
        prop_assert_eq!(filter.matches(&entity), matches_in_turn(&filter, &entity));
    }

    #[test]
    fn more_properties_than_are_remembered_are_still_found(order in proptest::collection::vec(0..15, 1..40)) {
        let names: Vec<String> = (0..14).map(|i| format!("p{i}")).collect();
        let properties: Vec<_> = names.iter().zip(0..).map(|(name, i)| (name.as_str(), EdmValue::Int32(i))).collect();
        let entity = entity("p", "r", &properties);
        let comparisons = order.iter().map(|i| {
            let comparison = compare(&format!("p{i}"), Operator::Equal, Literal::Int32(*i));
            if *i < 14 { comparison } else { not(comparison) }
        });
        prop_assert!(matches(&Filter::And(comparisons.collect()), &entity));
    }
}
