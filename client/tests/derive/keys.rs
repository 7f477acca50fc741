//! Key templates: written keys can be read, and the formats preserve or invert the order.

use proptest::prelude::*;
use rowhouse_client::entity::{DateTime, Entity, EntityError, EntityKey, Guid, KeyFormat, KeyName, Padded, Plain};
use std::cmp::Ordering;
use std::fmt::Debug;

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{tenant}", row_key = "{kind}_{day:inverted}_{number:08}")]
struct Log {
    tenant: String,
    kind: String,
    day: DateTime,
    number: u32,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{a:inverted}{b:04}{c}--{d}{e:inverted}", row_key = "x{{{a:inverted}}}{f}")]
struct Dense {
    a: u16,
    b: u64,
    c: String,
    d: String,
    e: i8,
    f: Guid,
}

#[derive(Debug, Clone, PartialEq, Entity)]
struct Inverted {
    #[entity(partition_key, padded = 5)]
    p: i64,
    #[entity(row_key, inverted)]
    r: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "settings", row_key = "")]
struct Singleton {
    level: i32,
}

fn log(kind: &str) -> Log {
    let day = DateTime::parse("2026-01-02T03:04:05Z").unwrap();
    Log { tenant: "t".into(), kind: kind.into(), day, number: 42 }
}

#[test]
fn keys_are_made_of_their_parts() {
    let key = log("web").key().unwrap();
    assert_eq!((key.partition.as_str(), key.row.as_str()), ("t", "web_2516349777549999999_00000042"));
    assert_eq!(Log::key_of("t", "web", log("web").day, 42).unwrap(), key);
    assert_eq!(Log::from_bag(log("web").to_bag().unwrap()).unwrap(), log("web"));
    assert!(log("web").to_bag().unwrap().properties.is_empty(), "key parts are not stored as properties");
    let singleton = Singleton { level: 1 };
    assert_eq!(singleton.key().unwrap(), EntityKey::new("settings", "").unwrap());
    assert_eq!(Singleton::key_of().unwrap(), EntityKey::new("settings", "").unwrap());
    assert_eq!(Singleton::from_bag(singleton.to_bag().unwrap()).unwrap(), singleton);
}

#[test]
fn a_part_that_could_not_be_read_back_is_an_error() {
    let error = log("we_b").key().unwrap_err();
    assert!(matches!(error, EntityError::KeyPart { key: KeyName::Row, field: "kind", .. }), "{error}");
    assert!(matches!(log("a/b").key().unwrap_err(), EntityError::Key { key: KeyName::Row, .. }));
    let error = Log { number: 123_456_789, ..log("web") }.key().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the field 'number' cannot be written to the RowKey: 123456789 has more than 8 digits"
    );
    let negative = Inverted { p: 1, r: -1 }.key().unwrap_err();
    assert!(matches!(negative, EntityError::KeyPart { key: KeyName::Row, field: "r", .. }));
    let overlap = Dense { c: "x-".into(), ..dense() }.key().unwrap_err();
    assert!(matches!(overlap, EntityError::KeyPart { key: KeyName::Partition, field: "c", .. }));
}

fn dense() -> Dense {
    Dense { a: 1, b: 2, c: String::new(), d: "--".into(), e: 3, f: Guid::from_bytes([9; 16]) }
}

#[test]
fn a_key_of_another_form_is_an_error() {
    let good = log("web").to_bag().unwrap();
    for (row, reason) in [
        ("", "a part is missing"),
        ("web", "a part is missing"),
        ("web_1_00000042", "a part is missing, too short"),
        ("web_2516349777549999999", "'_' is missing"),
        ("web_2516349777549999999-00000042", "'_' is missing"),
        ("web_2516349777549999999_42", "too short"),
        ("web_2516349777549999999_000000042", "too long"),
        ("web_2516349777549999999_+0000042", "'+0000042' is not a number of 8 digits"),
        ("web_9916349777549999999_00000042", "is more than 3155378975999999999"),
        ("web_251634977754999999é_00000042", "a part is missing"),
    ] {
        let mut bag = good.clone();
        bag.key = EntityKey::new("t", row).unwrap();
        let error = Log::from_bag(bag).unwrap_err();
        assert!(matches!(&error, EntityError::KeyForm { key: KeyName::Row, .. }), "{row}: {error}");
        assert!(error.to_string().contains(reason), "{row}: {error}");
    }
    let mut other = dense().to_bag().unwrap();
    other.key =
        EntityKey::new(other.key.partition.as_str(), &other.key.row.as_str().replace("65534", "65533")).unwrap();
    let error = Dense::from_bag(other).unwrap_err();
    assert!(error.to_string().contains("the field 'a' would be written as '65534' instead of '65533'"), "{error}");
    let mut trailing = Singleton { level: 1 }.to_bag().unwrap();
    trailing.key = EntityKey::new("settings2", "").unwrap();
    assert!(Singleton::from_bag(trailing).is_err());
}

#[test]
fn a_text_that_would_be_written_otherwise_is_not_read() {
    for text in ["042", "+42", "", " 42"] {
        assert!(<Plain as KeyFormat<u32>>::read(text).is_err(), "{text}");
    }
    assert!(<Plain as KeyFormat<Guid>>::read("0B0C0D0E-1111-4222-8333-444455556666").is_err());
    assert!(<Plain as KeyFormat<DateTime>>::read("2026-01-02T03:04:05Z").is_err());
    assert!(<Padded<4> as KeyFormat<u32>>::read("42").is_err());
    assert!(<Padded<4> as KeyFormat<u8>>::read("0256").is_err());
}

fn text() -> impl Strategy<Value = String> {
    "[a-c0-9_ é😀-]{0,6}"
}

fn instant() -> impl Strategy<Value = DateTime> {
    (0..=DateTime::MAX.ticks()).prop_map(|ticks| DateTime::from_ticks(ticks).unwrap())
}

/// Checks that a value is read as it was written. A value that cannot be written must cause an error.
fn assert_inverse<E: Entity + PartialEq + Debug>(entity: &E) -> Result<bool, TestCaseError> {
    match entity.to_bag() {
        Ok(bag) => {
            prop_assert_eq!(&E::from_bag(bag).unwrap(), entity);
            Ok(true)
        }
        Err(error) => {
            let is_key = matches!(error, EntityError::KeyPart { .. } | EntityError::Key { .. });
            prop_assert!(is_key, "{}", error);
            Ok(false)
        }
    }
}

fn order<T, F: KeyFormat<T>>(a: &T, b: &T) -> Ordering {
    let text = |value| {
        let mut text = String::new();
        F::write(value, &mut text).unwrap();
        assert_eq!(text.len(), F::WIDTH.unwrap_or(text.len()));
        text
    };
    text(a).cmp(&text(b))
}

proptest! {
    #[test]
    fn writing_and_reading_are_inverse(
        texts in (text(), text()), day in instant(), numbers in any::<(u16, u64, i8, u32)>(), guid in any::<[u8; 16]>(),
    ) {
        let number = numbers.3 % 100_000_000;
        let is_written =
            assert_inverse(&Log { tenant: texts.1.clone(), kind: texts.0.clone(), day, number })?;
        prop_assert_eq!(is_written, !texts.0.contains('_'));
        let (a, b, e) = (numbers.0, numbers.1 % 10_000, numbers.2.max(0));
        let f = Guid::from_bytes(guid);
        let is_written = assert_inverse(&Dense { a, b, c: texts.0.clone(), d: texts.1, e, f })?;
        let is_ambiguous = texts.0.contains("--") || texts.0.ends_with('-');
        prop_assert_eq!(is_written, !is_ambiguous);
    }

    #[test]
    fn padded_texts_order_as_the_numbers(a in any::<u64>(), b in any::<u64>()) {
        prop_assert_eq!(order::<_, Padded<20>>(&a, &b), a.cmp(&b));
    }

    #[test]
    fn inverted_texts_order_the_other_way_round(a in any::<(u64, u32, u8)>(), b in any::<(u64, u32, u8)>(), days in (instant(), instant())) {
        use rowhouse_client::entity::Inverted;
        prop_assert_eq!(order::<_, Inverted>(&a.0, &b.0), b.0.cmp(&a.0));
        prop_assert_eq!(order::<_, Inverted>(&a.1, &b.1), b.1.cmp(&a.1));
        prop_assert_eq!(order::<_, Inverted>(&a.2, &b.2), b.2.cmp(&a.2));
        let (i, j) = ((a.0 >> 1).cast_signed(), (b.0 >> 1).cast_signed());
        prop_assert_eq!(order::<_, Inverted>(&i, &j), j.cmp(&i));
        prop_assert_eq!(order::<_, Inverted>(&days.0, &days.1), days.1.cmp(&days.0));
        prop_assert_eq!(order::<_, Plain>(&days.0, &days.1), days.0.cmp(&days.1));
    }
}
