//! Entities in JSON Lines format, and diagnoses of malformed lines.

use super::LineError;
use client::{ETag, PropertyBag};
use model::limits::EXPORT_LINE_BYTES_MAX;
use model::mutation::{MutationError, check_size};
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name_within};
use model::record::DamagedRecord;
use model::{DateTime, EntityKey, EntityLimits};
use serde_json::{Map, Value};
use wire::entity_body::{BodyError, StoredEntity};
use wire::json::{SystemProperties, read_stored_entity, write_entity_line};

const TYPE: &str = "@odata.type";

/// Appends no line break. Includes the Timestamp and the `ETag` if they are requested and known.
pub(crate) fn write_line(out: &mut Vec<u8>, entity: &PropertyBag, with_timestamp: bool) -> Result<(), DamagedRecord> {
    let key = SystemProperties {
        partition: entity.key.partition.as_str(),
        row: entity.key.row.as_str(),
        timestamp: entity.timestamp.filter(|_| with_timestamp),
        etag: entity.etag.as_ref().map(ETag::as_str),
    };
    write_entity_line(out, &key, entity.properties.as_record_builder().properties())
}

/// Returns an entity that can be stored. A service may accept less.
pub(crate) fn read_line(line: &[u8]) -> Result<PropertyBag, LineError> {
    let StoredEntity { body, timestamp, etag } = read_stored_entity(line).map_err(|error| diagnose(line, &error))?;
    let (Some(partition), Some(row)) = (body.partition, body.row) else {
        return Err(LineError::at_column(1, format!("{PARTITION_KEY} or {ROW_KEY} is missing")));
    };
    let entity = PropertyBag {
        key: EntityKey { partition, row },
        properties: body.properties.into(),
        timestamp,
        etag: etag.map(Into::into),
    };
    check(&entity)?;
    Ok(entity)
}

pub(super) fn check(entity: &PropertyBag) -> Result<(), LineError> {
    let properties = entity.properties.as_record_builder();
    check_size(&entity.key, properties).map_err(|error| {
        let reason = match error {
            MutationError::TooManyProperties => {
                format!(
                    "the entity has {} properties, more than {}",
                    properties.len(),
                    properties.limits().properties_max
                )
            }
            _ => format!("the entity is larger than {} bytes", properties.limits().stored_bytes_max),
        };
        LineError::at_column(1, reason)
    })
}

/// The record spans the given number of lines.
pub(crate) fn too_long(lines: u64) -> LineError {
    match lines {
        1 => LineError::at_column(EXPORT_LINE_BYTES_MAX, "the line is longer than any entity"),
        _ => LineError::at_column(
            1,
            "a quote that begins in this record is not closed, or the record is longer than any entity",
        ),
    }
}

pub(super) fn forbidden_character(name: &str) -> String {
    format!("the {name} contains a character that keys cannot have: / \\ # ? or a control character")
}

fn diagnose(line: &[u8], error: &BodyError) -> LineError {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => return LineError::at_column(error.valid_up_to() + 1, "this is not UTF-8"),
    };
    let members: Map<String, Value> = match serde_json::from_str(text) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return LineError::at_column(1, "expected a JSON object"),
        Err(error) => {
            let message = error.to_string();
            let reason = message.split(" at line ").next().unwrap_or_default();
            return LineError::at_column(error.column(), format!("this is not JSON: {reason}"));
        }
    };
    let column = |name: &str| text.find(&format!("\"{name}\"")).map_or(1, |at| at + 1);
    match error {
        BodyError::KeyMissing => {
            let is_missing = |name: &&str| members.get(*name).is_none_or(Value::is_null);
            let name = [PARTITION_KEY, ROW_KEY].into_iter().find(is_missing).unwrap_or(PARTITION_KEY);
            LineError::at_column(1, format!("the {name} is missing"))
        }
        BodyError::OutOfRange(name, _) if [PARTITION_KEY, ROW_KEY].contains(&name.as_str()) => {
            LineError::at_column(column(name), forbidden_character(name))
        }
        BodyError::OutOfRange(name, _) => {
            LineError::at_column(column(name), format!("the time of '{name}' is before the year 1601"))
        }
        BodyError::KeyTooLong => LineError::at_column(1, "a key is longer than 512 characters"),
        BodyError::PropertyNameTooLong | BodyError::PropertyNameInvalid => {
            let is_valid = |name: &str| check_property_name_within(name, EntityLimits::WIDEST.name_units_max).is_ok();
            let is_name = |name: &&String| !name.contains("odata.") && !is_valid(name);
            let name = members.keys().find(is_name).map_or("", String::as_str);
            LineError::at_column(column(name), format!("'{name}' is not a valid property name"))
        }
        BodyError::TooManyProperties => LineError::at_column(1, "there are more properties than an entity can have"),
        BodyError::KeyNotText => {
            let name = if members.get(PARTITION_KEY).is_some_and(Value::is_string) { ROW_KEY } else { PARTITION_KEY };
            LineError::at_column(column(name), key_not_text(name, &members))
        }
        BodyError::Malformed => malformed(&members, column),
    }
}

fn key_not_text(name: &str, members: &Map<String, Value>) -> String {
    match members.get(name) {
        Some(number @ Value::Number(_)) => {
            format!("the {name} is a number, but keys are strings: write it in quotes, \"{number}\"")
        }
        Some(Value::String(_)) => format!("the {name} is declared with a type other than Edm.String"),
        _ => format!("the {name} is not a string"),
    }
}

/// Finds the malformed member by reading each member separately.
fn malformed(members: &Map<String, Value>, column: impl Fn(&str) -> usize) -> LineError {
    for (name, value) in members.iter().filter(|(name, _)| !name.contains("odata.") && *name != TIMESTAMP) {
        let declared = members.get(&format!("{name}{TYPE}"));
        let mut alone = Map::new();
        for key in [PARTITION_KEY, ROW_KEY] {
            alone.insert(key.to_owned(), Value::String(String::new()));
        }
        alone.insert(name.clone(), value.clone());
        if let Some(declared) = declared {
            alone.insert(format!("{name}{TYPE}"), declared.clone());
        }
        if read_stored_entity(Value::Object(alone).to_string().as_bytes()) == Err(BodyError::Malformed) {
            let reason = match declared.and_then(Value::as_str) {
                Some(declared) => format!("the value of '{name}' is not {declared}"),
                None => format!("'{name}' has a value that no property can have"),
            };
            return LineError::at_column(column(name), reason);
        }
    }
    let timestamp = members.get(TIMESTAMP).filter(|value| !value.is_null());
    if timestamp.is_some_and(|value| value.as_str().is_none_or(|text| DateTime::parse(text).is_err())) {
        return LineError::at_column(column(TIMESTAMP), "the Timestamp is not a time such as 2031-04-01T06:30:00Z");
    }
    LineError::at_column(1, "a name occurs twice, or an annotation has an invalid value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_where() {
        let long = "x".repeat(2 * 1024 * 1024);
        for (line, column, reason) in [
            ("", 0, "this is not JSON"),
            ("{\"PartitionKey\":\"p\",}", 21, "this is not JSON: trailing comma"),
            ("{\"PartitionKey\":\"p\"", 19, "this is not JSON: EOF while parsing an object"),
            ("[1]", 1, "expected a JSON object"),
            ("{\"PartitionKey\":\"p\"}", 1, "the RowKey is missing"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"a/b\"}", 21, "the RowKey contains a character"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a-b\":1}", 34, "'a-b' is not a valid property name"),
            (
                "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N@odata.type\":\"Edm.Int64\",\"N\":\"x\"}",
                61,
                "the value of 'N' is not Edm.Int64",
            ),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":[1]}", 34, "'N' has a value that no property can have"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":1,\"N\":1}", 1, "a name occurs twice"),
            (
                "{\"PartitionKey\":\"p\",\"RowKey\":17}",
                21,
                "the RowKey is a number, but keys are strings: write it in quotes, \"17\"",
            ),
            ("{\"PartitionKey\":1.50,\"RowKey\":\"r\"}", 2, "the PartitionKey is a number"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":true}", 21, "the RowKey is not a string"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":5}", 34, "the Timestamp is not a time such as"),
            (
                &format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":\"{long}\"}}"),
                1,
                "the entity is larger than 2097152 bytes",
            ),
        ] {
            let error = read_line(line.as_bytes()).unwrap_err();
            assert_eq!(error.column, column, "{line}: {error:?}");
            assert!(error.reason.starts_with(reason), "{line}: {error:?}");
        }
        assert_eq!(read_line(b"{\"a\":\"\xFF\"}").unwrap_err(), LineError::at_column(7, "this is not UTF-8"));
    }
}
