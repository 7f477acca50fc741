//! Entities and tables in the format that a request selects. Only this module chooses between JSON and Atom.
//!
//! This module must not depend on the details of either format.

pub use crate::entities::response_context::{EntityContext, ResponseContext};
use crate::entity_body::{BodyError, EntityBody, KeyLocation};
pub use crate::json::EncoderCache;
use crate::negotiation::Format;
use crate::version::Version;
use crate::{atom, json};
use model::record::DamagedRecord;
use model::{EntityLimits, EntityView};

/// Parses the body of an insert, update, merge or upsert.
pub fn read_entity(
    format: Format,
    body: &[u8],
    keys: KeyLocation,
    version: Version,
    limits: &'static EntityLimits,
) -> Result<EntityBody, BodyError> {
    match format {
        Format::Json(_) => json::read_entity(body, keys, limits),
        Format::Atom => atom::read_entity(body, keys, version, limits),
    }
}

/// Parses the body of Create Table. Returns the table name without validating it, or `None` if it is missing or null.
pub fn read_table(format: Format, body: &[u8]) -> Result<Option<String>, BodyError> {
    match format {
        Format::Json(_) => json::read_table(body),
        Format::Atom => atom::read_table(body),
    }
}

/// Writes one entity as a complete response.
pub fn write_single_entity(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    match context.response.format {
        Format::Json(level) => json::write_single_entity(out, context, level, entity),
        Format::Atom => atom::write_single_entity(out, context, entity),
    }
}

/// Writes the beginning of a set, up to its first entity. `count` is the number of all entities that match the query,
/// an extension.
pub fn write_start_of_entity_set(out: &mut Vec<u8>, context: &EntityContext<'_>, is_empty: bool, count: Option<u64>) {
    match context.response.format {
        Format::Json(level) => json::write_start_of_entity_set(out, context, level, count),
        Format::Atom => atom::write_start_of_entity_feed(out, context, is_empty, count),
    }
}

/// Writes one entity of a set. `cache` is reused for all entities of the set.
pub fn write_entity_in_set(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
    cache: &mut EncoderCache,
    is_first: bool,
) -> Result<(), DamagedRecord> {
    match context.response.format {
        Format::Json(level) => {
            if !is_first {
                out.push(b',');
            }
            json::write_entity_in_set(out, context, level, entity, cache)
        }
        Format::Atom => atom::write_entity_in_feed(out, context, entity),
    }
}

/// Writes the end of a set, after its last entity.
pub fn end_entity_set(out: &mut Vec<u8>, context: &EntityContext<'_>) {
    match context.response.format {
        Format::Json(level) => json::end_entity_set(out, context, level),
        Format::Atom => atom::end_feed(out, context.response),
    }
}

/// Writes the response to Create Table and to a query of one table.
pub fn write_single_table(out: &mut Vec<u8>, context: ResponseContext<'_>, table: &str) {
    match context.format {
        Format::Json(level) => json::write_single_table(out, context, level, table),
        Format::Atom => atom::write_single_table(out, context, table),
    }
}

/// Writes the response to Query Tables.
pub fn write_table_set<'t>(out: &mut Vec<u8>, context: ResponseContext<'_>, tables: impl Iterator<Item = &'t str>) {
    match context.format {
        Format::Json(level) => json::write_table_set(out, context, level, tables),
        Format::Atom => atom::write_table_feed(out, context, tables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::{EntityBounds, UnwrittenEntity};
    use crate::{MetadataLevel, Select};
    use model::{AccountName, DateTime, Dialect, EdmValue, EntityKey, Guid, KeyText, Record, RecordBuilder};
    use proptest::prelude::*;

    const TYPED: [Format; 3] = [Format::Json(MetadataLevel::Minimal), Format::Json(MetadataLevel::Full), Format::Atom];

    const KEY: &str = "[ a-zA-Z0-9!\"$%&'()*+,.:;<=>@^_`|~é😀-]{0,8}";

    #[derive(Debug, Clone)]
    enum Value {
        String(String),
        Binary(Vec<u8>),
        Boolean(bool),
        DateTime(i64),
        Double(f64),
        Guid(u128),
        Int32(i32),
        Int64(i64),
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<String>().prop_map(Value::String),
            "[ \t\r\n<&>\"'\u{0}-\u{1F}a\u{FFFE}]{0,6}".prop_map(Value::String),
            any::<Vec<u8>>().prop_map(Value::Binary),
            any::<bool>().prop_map(Value::Boolean),
            (0..=DateTime::MAX.ticks()).prop_map(Value::DateTime),
            // JSON omits the sign of zero (01 §6.2).
            any::<f64>().prop_map(|double| Value::Double(double + 0.0)),
            prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(5.0), Just(1e300)]
                .prop_map(Value::Double),
            any::<u128>().prop_map(Value::Guid),
            any::<i32>().prop_map(Value::Int32),
            any::<i64>().prop_map(Value::Int64),
        ]
    }

    /// Names of different lengths. The last one is longer than a group (64 bytes) in the search for characters to
    /// escape.
    const NAMES: [&str; 5] = [
        "a",
        "b",
        "thirteen_long",
        "fourteen_longx",
        "so_long_that_its_beginning_and_its_annotation_take_more_than_one_block",
    ];

    fn record(values: &[Value]) -> Record {
        let names: Vec<String> = (0..values.len()).map(|index| format!("p{index}é")).collect();
        named_record(names.iter().map(String::as_str).zip(values))
    }

    fn named_record<'a>(properties: impl Iterator<Item = (&'a str, &'a Value)>) -> Record {
        let mut builder = RecordBuilder::default();
        for (name, value) in properties {
            let value = match value {
                Value::String(text) => EdmValue::String(text),
                Value::Binary(bytes) => EdmValue::Binary(bytes),
                Value::Boolean(value) => EdmValue::Boolean(*value),
                Value::DateTime(ticks) => EdmValue::DateTime(DateTime::from_ticks(*ticks).unwrap()),
                // Use a single NaN value, because its bits are lost when it is written as text.
                Value::Double(double) => EdmValue::Double(if double.is_nan() { f64::NAN } else { *double }),
                Value::Guid(value) => EdmValue::Guid(Guid::from_bytes(value.to_be_bytes())),
                Value::Int32(number) => EdmValue::Int32(*number),
                Value::Int64(number) => EdmValue::Int64(*number),
            };
            builder.push(name, value);
        }
        builder.finish(DateTime::from_ticks(638_000_000_000_000_001).unwrap())
    }

    fn written(format: Format, key: &EntityKey, record: &Record) -> Vec<u8> {
        let first = written_at(Version::UPSERT, format, key, record);
        let last = written_at(Version::JSON, format, key, record);
        assert_eq!(
            read_entity(format, &first, KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE),
            read_entity(format, &last, KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE)
        );
        last
    }

    fn written_at(version: Version, format: Format, key: &EntityKey, record: &Record) -> Vec<u8> {
        let account = AccountName::new("acct").unwrap();
        let response = ResponseContext {
            base: "http://127.0.0.1:10002/acct",
            account: &account,
            dialect: Dialect::Storage,
            format,
            version,
            now: DateTime::MAX,
        };
        let select = Select::parse("missing,é,another").unwrap();
        let view = EntityView::from_parts(key, record).unwrap();
        for select in [Some(&select), None] {
            let context = EntityContext { response, table: "cars", select };
            let mut out = Vec::new();
            write_single_entity(&mut out, &context, &view).unwrap();
            let most = EntityBounds::new(&context).measured_bound(&UnwrittenEntity::stored(&view), context.select);
            assert!(out.len() <= most, "{} bytes instead of at most {most}", out.len());
            assert!(most <= EntityBounds::new(&context).upper_bound(&UnwrittenEntity::stored(&view)));
            if select.is_none() {
                return out;
            }
        }
        unreachable!("the last projection is `None`")
    }

    fn read(format: Format, body: &[u8], timestamp: DateTime) -> (EntityKey, Record) {
        let entity = read_entity(format, body, KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE)
            .unwrap_or_else(|error| panic!("{format:?} {error:?}: {}", String::from_utf8_lossy(body)));
        let key = EntityKey { partition: entity.partition.unwrap(), row: entity.row.unwrap() };
        (key, entity.properties.finish(timestamp))
    }

    proptest! {
        #[test]
        fn an_entity_goes_from_every_format_to_every_other(
            values in proptest::collection::vec(value(), 0..8),
            partition in KEY,
            row in KEY,
        ) {
            let key = EntityKey { partition: KeyText::new(&partition).unwrap(), row: KeyText::new(&row).unwrap() };
            let record = record(&values);
            let timestamp = record.view().unwrap().timestamp();
            for from in TYPED {
                let (key_read, record_read) = read(from, &written(from, &key, &record), timestamp);
                prop_assert_eq!((&key_read, &record_read), (&key, &record), "{:?}", from);
                for to in TYPED {
                    let again = read(to, &written(to, &key_read, &record_read), timestamp);
                    prop_assert_eq!(again, (key.clone(), record.clone()), "{:?} to {:?}", from, to);
                }
            }
        }

        #[test]
        fn an_entity_of_escapes_is_not_longer_than_its_bound(
            character in prop_oneof![Just('\u{7F}'), Just('\u{1}'), Just('<'), Just('"'), Just('é'), Just('\u{FFFE}'), Just('😀')],
            (name, value, key) in (1..80_usize, 0..2000_usize, 0..200_usize),
            properties in 0..20_usize,
        ) {
            let text = |count| character.to_string().repeat(count);
            let key = text(if "<\"é😀".contains(character) { key } else { 0 });
            let key = EntityKey { partition: KeyText::new(&key).unwrap(), row: KeyText::new(&key).unwrap() };
            let name = if character.is_alphabetic() { text(name) } else { "n".repeat(name) };
            let names: Vec<String> = (0..properties).map(|index| format!("{name}{index}")).collect();
            let values = [Value::String(text(value)), Value::Double(f64::NEG_INFINITY), Value::Binary(vec![0; value])];
            let record = named_record(names.iter().map(String::as_str).zip(values.iter().cycle()));
            for format in TYPED {
                written(format, &key, &record);
            }
        }

        #[test]
        fn an_entity_of_a_set_is_written_as_it_is_alone(
            shapes in proptest::collection::vec(
                proptest::collection::vec((0..NAMES.len(), value()), 0..4),
                1..6,
            ),
        ) {
            let account = AccountName::new("acct").unwrap();
            let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
            for format in TYPED.into_iter().chain([Format::Json(MetadataLevel::None)]) {
                let response = ResponseContext { base: "B", account: &account, dialect: Dialect::Storage, format, version: Version::JSON, now: DateTime::MAX };
                let context = EntityContext { response, table: "cars", select: None };
                let mut cache = EncoderCache::default();
                for shape in &shapes {
                    let names: std::collections::BTreeMap<_, _> = shape.iter().map(|(name, value)| (NAMES[*name], value)).collect();
                    let record = named_record(names.into_iter());
                    let entity = EntityView::from_parts(&key, &record).unwrap();
                    let (mut among, mut alone) = (Vec::new(), Vec::new());
                    write_entity_in_set(&mut among, &context, &entity, &mut cache, true).unwrap();
                    write_entity_in_set(&mut alone, &context, &entity, &mut EncoderCache::default(), true).unwrap();
                    prop_assert_eq!(String::from_utf8(among).unwrap(), String::from_utf8(alone).unwrap());
                }
            }
        }

        #[test]
        fn without_metadata_the_types_of_json_are_kept(values in proptest::collection::vec(value(), 0..8)) {
            let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
            let record = record(&values);
            let (_, bare) = read(TYPED[0], &written(Format::Json(MetadataLevel::None), &key, &record), DateTime::MIN);
            for (before, after) in record.view().unwrap().properties().zip(bare.view().unwrap().properties()) {
                let (before, after) = (before.unwrap(), after.unwrap());
                prop_assert_eq!(before.name().unwrap(), after.name().unwrap());
                match before.value().unwrap() {
                    value @ (EdmValue::String(_) | EdmValue::Boolean(_) | EdmValue::Int32(_)) => {
                        prop_assert_eq!(value, after.value().unwrap());
                    }
                    EdmValue::Double(double) if double.is_finite() => {
                        prop_assert_eq!(EdmValue::Double(double), after.value().unwrap());
                    }
                    _ => prop_assert!(matches!(after.value().unwrap(), EdmValue::String(_))),
                }
            }
        }
    }
}
