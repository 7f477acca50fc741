//! Tests that entries are ordered like values.

use super::*;
use crate::DateTime;
use crate::edm::{Guid, compare_ordinal};
use crate::record::tests::OwnedValue;
use proptest::prelude::*;

/// Values near the bounds of types, of what is cut, and of what numbers can represent exactly.
pub(super) fn value() -> impl Strategy<Value = OwnedValue> {
    const EDGES: [i64; 9] =
        [i64::MIN, -(1 << 53) - 1, i32::MIN as i64 - 1, -1, 0, 1, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
    let number = || prop_oneof![proptest::sample::select(EDGES.to_vec()), -3..3_i64, any::<i64>()];
    #[allow(clippy::cast_precision_loss, reason = "any number will do")]
    let double = prop_oneof![
        proptest::sample::select(vec![
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN,
            5e-324
        ]),
        number().prop_map(|number| number as f64),
        (-3..3).prop_map(|number| f64::from(number) / 2.0),
        any::<f64>(),
    ];
    let bytes = prop_oneof![
        proptest::collection::vec(prop_oneof![Just(0), Just(1), Just(2), Just(255), any::<u8>()], 0..4),
        (250..260_usize, 0..3_u8).prop_map(|(length, last)| [vec![7; length], vec![last]].concat()),
    ];
    let string = prop_oneof![
        proptest::collection::vec(proptest::sample::select(vec!['\0', '\u{1}', 'a', 'b', '\u{E000}', '😀']), 0..4)
            .prop_map(String::from_iter),
        (250..260_usize, "[abé]{0,2}").prop_map(|(length, end)| format!("{}{end}", "a".repeat(length))),
    ];
    prop_oneof![
        any::<bool>().prop_map(OwnedValue::Boolean),
        any::<i32>().prop_map(OwnedValue::Int32),
        (-3..3).prop_map(OwnedValue::Int32),
        number().prop_map(OwnedValue::Int64),
        double.prop_map(OwnedValue::Double),
        (0..3_i64).prop_map(OwnedValue::DateTime),
        proptest::array::uniform16(prop_oneof![Just(0), Just(255)]).prop_map(OwnedValue::Guid),
        bytes.prop_map(OwnedValue::Binary),
        string.prop_map(OwnedValue::String),
    ]
}

/// Returns a value as an exact number, if it is one.
fn exact(value: EdmValue<'_>) -> Option<(i128, f64)> {
    match value {
        EdmValue::Int32(value) => Some((value.into(), 0.0)),
        EdmValue::Int64(value) => Some((value.into(), 0.0)),
        #[allow(clippy::cast_possible_truncation, reason = "what is out of range compares like its bound")]
        EdmValue::Double(value) if !value.is_nan() => Some((value.floor() as i128, value - value.floor())),
        _ => None,
    }
}

/// Returns the expected order of two values, or `None` if it is arbitrary.
fn order(a: EdmValue<'_>, b: EdmValue<'_>) -> Option<Ordering> {
    fn cut(bytes: &[u8]) -> (&[u8], bool) {
        (&bytes[..bytes.len().min(INDEXED_BYTES_MAX)], bytes.len() > INDEXED_BYTES_MAX)
    }
    match (a, b) {
        (EdmValue::Boolean(a), EdmValue::Boolean(b)) => Some(a.cmp(&b)),
        (EdmValue::DateTime(a), EdmValue::DateTime(b)) => Some(a.cmp(&b)),
        (EdmValue::Guid(a), EdmValue::Guid(b)) => Some(a.to_string().cmp(&b.to_string())),
        (EdmValue::Binary(a), EdmValue::Binary(b)) => Some(cut(a).cmp(&cut(b))),
        (EdmValue::String(a), EdmValue::String(b)) if a.len().max(b.len()) <= INDEXED_BYTES_MAX => {
            Some(compare_ordinal(a, b))
        }
        // Large numbers have no exact integer.
        (EdmValue::Double(a), EdmValue::Double(b)) => a.partial_cmp(&b),
        _ => {
            let ((a, a_part), (b, b_part)) = (exact(a)?, exact(b)?);
            Some(a.cmp(&b).then(a_part.total_cmp(&b_part)))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn entries_are_ordered_by_value_and_then_by_key(a in value(), b in value(), keys in ("[ab]{0,2}", "[ab]{0,2}")) {
        let (a, b) = (a.view(), b.view());
        let (a_entry, b_entry) = (entry_of_value(a, keys.0.as_bytes()), entry_of_value(b, keys.1.as_bytes()));
        let compared = compare_entries(&a_entry, &b_entry);
        prop_assert_eq!(compared, compare_entries(&b_entry, &a_entry).reverse());
        if let Some(expected) = order(a, b) {
            prop_assert_eq!(compared, expected.then(keys.0.cmp(&keys.1)), "{:?} {:?}", a, b);
        }
        if a.edm_type() == b.edm_type() {
            prop_assert_eq!(compared, a_entry.cmp(&b_entry), "entries of one type are in the order of their bytes");
        }
    }

    #[test]
    fn the_order_of_entries_is_transitive(values in proptest::collection::vec(value(), 3)) {
        let mut entries: Vec<_> = values.iter().map(|value| entry_of_value(value.view(), b"k")).collect();
        entries.sort_by(|a, b| compare_entries(a, b));
        for (index, a) in entries.iter().enumerate() {
            prop_assert!(entries[index..].iter().all(|b| compare_entries(a, b).is_le()));
        }
    }

    #[test]
    fn the_key_of_an_entry_reads_back(value in value(), key in proptest::collection::vec(any::<u8>(), 0..5)) {
        let entry = entry_of_value(value.view(), &key);
        prop_assert_eq!(key_of_entry(&entry), Some(key.as_slice()));
    }

    #[test]
    fn any_bytes_are_compared_and_decoded_without_panic(
        a in proptest::collection::vec(0..10_u8, 0..5), b in proptest::collection::vec(0..10_u8, 0..5),
    ) {
        let _ = key_of_entry(&a);
        prop_assert_eq!(compare_entries(&a, &b), compare_entries(&b, &a).reverse());
        for is_descending in [false, true] {
            let _ = ordered_groups(&[KeyRange::all()], Some(&a), is_descending);
        }
    }

    #[test]
    fn a_list_continues_at_any_entry(values in proptest::collection::vec(value(), 1..12), at in any::<prop::sample::Index>()) {
        let mut entries: Vec<_> = values.iter().zip(0..).map(|(value, key)| entry_of_value(value.view(), &[key])).collect();
        entries.sort_by(|a, b| compare_entries(a, b));
        let from = at.get(&entries).clone();
        for is_descending in [false, true] {
            let ranges = [KeyRange { start: vec![1], end: Some(vec![6]) }, KeyRange { start: vec![6], end: None }];
            let mut listed = Vec::new();
            for group in ordered_groups(&ranges, Some(&from), is_descending) {
                let is_in = |entry: &&Vec<u8>| group.iter().flatten().any(|range| range.contains(entry));
                let mut members: Vec<_> = entries.iter().filter(is_in).cloned().collect();
                if is_descending {
                    members.reverse();
                }
                listed.extend(members);
            }
            let expected: Vec<_> = entries
                .iter()
                .filter(|entry| if is_descending { compare_entries(entry, &from).is_le() } else { compare_entries(entry, &from).is_ge() })
                .cloned()
                .collect();
            let expected: Vec<_> = if is_descending { expected.into_iter().rev().collect() } else { expected };
            prop_assert_eq!(&listed, &expected);
        }
    }
}

#[test]
fn the_encoding_is_pinned() {
    for (value, expected) in [
        (EdmValue::Boolean(true), "\\x01\\x01"),
        (EdmValue::Int32(5), "\\x02\\xc0\\x14\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00"),
        (EdmValue::Int32(-5), "\\x02?\\xeb\\xff\\xff\\xff\\xff\\xff\\xff\\x80\\x00"),
        (EdmValue::Int64(i64::MAX), "\\x03\\xc3\\xe0\\x00\\x00\\x00\\x00\\x00\\x00\\x7f\\xff"),
        (EdmValue::Double(-0.0), "\\x04\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00"),
        (EdmValue::Double(f64::NAN), "\\x04\\xff\\xf8\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00"),
        (EdmValue::DateTime(DateTime::from_ticks(7).unwrap()), "\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07"),
        (EdmValue::Guid(Guid::from_bytes([b'g'; 16])), "\\x06gggggggggggggggg"),
        (EdmValue::Binary(b"a\0\xEE"), "\\x07a\\x00\\x01\\xee\\x00\\x00"),
        (EdmValue::String("é\u{E000}"), "\\x08\\xc3\\xa9\\xf3\\x80\\x80\\x00\\x00"),
    ] {
        assert_eq!(encoded(value).escape_ascii().to_string(), expected, "{value:?}");
    }
    let long = encoded(EdmValue::String(&"a".repeat(257)));
    assert_eq!((long.len(), &long[256..]), (1 + 256 + 2, &b"a\0\x02"[..]));
}

#[test]
fn only_custom_properties_have_indexes() {
    for (name, expected) in [
        ("Total", true),
        ("é", true),
        ("partitionkey", true),
        ("PartitionKey", false),
        ("RowKey", false),
        ("Timestamp", false),
        ("", false),
        ("a b", false),
    ] {
        assert_eq!(IndexedProperty::new(name).is_some(), expected, "{name:?}");
    }
}
