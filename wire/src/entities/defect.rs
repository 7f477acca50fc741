//! What is wrong with an entity that was refused, for the reason of the refusal. A refusal costs another scan of the body;
//! an accepted entity costs nothing.
//!
//! Invariant: values are only quoted, because a reason can be logged without them.

use crate::entity_body::{BodyError, KeyLocation, check_name};
use crate::negotiation::Format;
use crate::reason::{Reason, ReasonKind};
use crate::version::Version;
use crate::{atom, json};
use model::key::KeyError;
use model::limits::{KEY_UTF16_UNITS_MAX, UTF16_UNIT_BYTES};
use model::mutation::{check_size, entity_formula_bytes, entity_stored_bytes};
use model::name::{TableNameError, utf16_units};
use model::{EdmType, EdmValue, EntityKey, EntityLimits, KeyText, MutationError, RecordBuilder};

/// Returns why a body was refused with an error.
pub fn body_defect(
    format: Format,
    body: &[u8],
    keys: KeyLocation,
    version: Version,
    limits: &EntityLimits,
    error: &BodyError,
) -> Reason {
    match format {
        Format::Json(_) => json::defect(body, keys, limits, error),
        Format::Atom => atom::defect(body, keys, version, limits, error),
    }
}

/// Returns why a key is refused, or `None` if it is valid.
pub fn key_defect(name: &str, text: &str) -> Option<Reason> {
    let reason = match KeyText::new(text).err()? {
        KeyError::TooLong => {
            let length = utf16_units(text);
            let detail = format!("The {name} has {length} characters; the limit is {KEY_UTF16_UNITS_MAX}.");
            ReasonKind::KeyTooLong.because(detail)
        }
        KeyError::Slash | KeyError::ForbiddenCharacter => {
            let (character, position) = wrong_character(text, |text| KeyText::new(text).is_ok());
            ReasonKind::KeyInvalid.because(format!("The {name} contains {character} at position {position}."))
        }
    };
    Some(reason.quoting(text))
}

/// Returns why a string cannot be the name of a table.
pub fn table_name_defect(name: &str, error: TableNameError) -> Reason {
    let detail = match error {
        TableNameError::Length => format!("The length of the name is {} instead of 3 to 63.", utf16_units(name)),
        TableNameError::Reserved => "The name 'tables' is reserved.".to_owned(),
        TableNameError::Characters => {
            let fits = |(at, c): (usize, char)| c.is_ascii_alphanumeric() && (at > 0 || c.is_ascii_alphabetic());
            let wrong = name.char_indices().find(|indexed| !fits(*indexed)).unwrap_or_default();
            let position = utf16_units(name.get(..wrong.0).unwrap_or_default());
            match wrong {
                (0, '0'..='9') => "The name begins with a digit; its first character must be a letter.".to_owned(),
                (_, wrong) => format!("The name contains {} at position {position}.", shown(wrong)),
            }
        }
    };
    ReasonKind::TableNameWrong.because(detail).quoting(name)
}

/// Returns why the properties of a request are too many or too large, or `None` if they are not. What an entity would
/// contain after a merge is not known here.
pub fn size_defect(key: &EntityKey, properties: &RecordBuilder) -> Option<Reason> {
    let limits = properties.limits();
    let reason = match check_size(key, properties).err()? {
        MutationError::TooManyProperties => {
            let detail =
                format!("The request has {} properties; the limit is {}.", properties.len(), limits.properties_max);
            ReasonKind::PropertiesTooMany.because(detail)
        }
        MutationError::EntityTooLarge => {
            let (by_formula, stored) = (entity_formula_bytes(key, properties), entity_stored_bytes(key, properties));
            let is_by_formula = by_formula > limits.formula_bytes_max;
            let (bytes, limit) =
                if is_by_formula { (by_formula, limits.formula_bytes_max) } else { (stored, limits.stored_bytes_max) };
            ReasonKind::EntityTooBig.because(format!("The entity has {bytes} bytes; the limit is {limit}."))
        }
        _ => {
            let mut values = properties.properties().filter_map(|property| {
                let property = property.ok()?;
                let value = property.value().ok().filter(|value| value.is_larger_than(limits.value_bytes_max))?;
                Some((property.name().ok()?, value))
            });
            let (name, value) = values.next()?;
            let detail = match value {
                EdmValue::String(text) => format!(
                    "The string {name} has {} characters; the limit is {}.",
                    utf16_units(text),
                    limits.value_bytes_max / UTF16_UNIT_BYTES
                ),
                value => format!(
                    "The binary {name} has {} bytes; the limit is {}.",
                    value.formula_bytes().saturating_sub(4),
                    limits.value_bytes_max
                ),
            };
            ReasonKind::ValueTooLarge.because(detail)
        }
    };
    Some(reason)
}

/// Returns why the name of a property is refused, or `None` if it is valid.
pub(crate) fn name_defect(name: &str, version: Version, limits: &EntityLimits) -> Option<Reason> {
    let detail = match check_name(name, version, limits).err()? {
        BodyError::PropertyNameTooLong => format!(
            "The name that begins with '{}' has {} characters; the limit is {}.",
            name.chars().take(20).collect::<String>(),
            utf16_units(name),
            limits.name_units_max
        ),
        _ if name.is_empty() => "The name of a property is empty.".to_owned(),
        _ => {
            let (character, position) = wrong_character(name, |text| check_name(text, version, limits).is_ok());
            format!("The name '{name}' contains {character} at position {position}.")
        }
    };
    Some(ReasonKind::PropertyNameWrong.because(detail))
}

/// Returns why the keys of a body were refused.
pub(crate) fn keys_defect(keys: [(&str, Option<&str>); 2], error: &BodyError) -> Option<Reason> {
    match error {
        BodyError::KeyMissing => {
            let (name, _) = keys.into_iter().find(|(_, text)| text.is_none())?;
            Some(ReasonKind::KeyMissing.because(format!("The body contains no {name}, or it is null.")))
        }
        BodyError::KeyTooLong | BodyError::OutOfRange(..) => {
            let defects = keys.into_iter().filter_map(|(name, text)| key_defect(name, text?));
            let is_too_long = *error == BodyError::KeyTooLong;
            defects.into_iter().find(|reason| (reason.kind == ReasonKind::KeyTooLong) == is_too_long)
        }
        _ => None,
    }
}

pub(crate) fn value_defect(name: &str, edm_type: EdmType, form: &str, value: &str) -> Reason {
    let detail = format!("The value of {name} is no {}, which is written {form}.", edm_type.name());
    ReasonKind::PropertyValue.because(detail).quoting(value)
}

pub(crate) fn type_defect(name: &str, declared: &str) -> Reason {
    ReasonKind::PropertyType.because(format!("The declared type of {name} does not exist.")).quoting(declared)
}

/// Returns the first character with which the beginning of a text is not valid, and its position.
fn wrong_character(text: &str, is_valid: impl Fn(&str) -> bool) -> (String, usize) {
    let mut characters = text.char_indices();
    let first = characters.next().unwrap_or_default();
    let is_wrong = |(_, c): &(usize, char)| !is_valid(&format!("{}{c}", first.1));
    let starts = is_valid(first.1.encode_utf8(&mut [0; 4]));
    let (at, character) = if starts { characters.find(is_wrong).unwrap_or_default() } else { first };
    (shown(character), utf16_units(text.get(..at).unwrap_or_default()))
}

fn shown(character: char) -> String {
    if character.is_control() { format!("U+{:04X}", u32::from(character)) } else { format!("'{character}'") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::read_entity;
    use crate::{MetadataLevel, ServiceError};

    fn reason(format: Format, body: &str, keys: KeyLocation) -> String {
        let version = if format == Format::Atom { Version::UPSERT } else { Version::JSON };
        let limits = &EntityLimits::STORAGE;
        let error = read_entity(format, body.as_bytes(), keys, version, limits).unwrap_err();
        let reason = body_defect(format, body.as_bytes(), keys, version, limits, &error);
        ServiceError::from(error).because(reason).reason().unwrap().line(true)
    }

    #[test]
    fn a_json_body_is_refused_with_a_reason() {
        let json = Format::Json(MetadataLevel::Minimal);
        for (body, expected) in [
            ("{\n\"a\":tru}", "body-malformed: The body is not valid JSON at line 2, column 8: expected ident."),
            (
                "{\"a\":1",
                "body-malformed: The body is not valid JSON at line 1, column 6: EOF while parsing an object.",
            ),
            ("[1]", "body-malformed: The body is not a JSON object."),
            ("{\"a\":1,\"b\":2,\"a\":1}", "body-malformed: The property a is given more than once."),
            ("{\"a\":{}}", "property-value: The value of a is an object or array; entities are flat."),
            (
                "{\"a@odata.type\":\"Edm.Single\",\"a\":1}",
                "property-type: The declared type of a does not exist. Given:",
            ),
            ("{\"a@odata.type\":\"Edm.Guid\",\"a\":\"x\"}", "property-value: The value of a is no Edm.Guid, which is"),
            ("{\"a@odata.type\":\"Edm.Binary\",\"a\":\"x\"}", "property-value: The value of a is no Edm.Binary, which"),
            ("{\"a@odata.type\":\"Edm.DateTime\",\"a\":5}", "property-value: The value of a is no Edm.DateTime, which"),
            ("{\"a@odata.type\":\"Edm.DateTime\",\"a\":\"1600-01-01T00:00:00Z\"}", "property-value: The time of a is"),
            ("{\"a@odata.type\":\"Edm.Int32\",\"a\":5000000000}", "property-value: The value of a is no Edm.Int32"),
            ("{\"a\":NaN}", "body-malformed: The body is not valid JSON at line 1, column 6: expected value."),
            ("{\"ab-c\":1}", "property-name: The name 'ab-c' contains '-' at position 2."),
            ("{\"1b\":1}", "property-name: The name '1b' contains '1' at position 0."),
            ("{\"\":1}", "property-name: The name of a property is empty."),
        ] {
            let reason = reason(json, body, KeyLocation::Address);
            assert!(reason.starts_with(expected), "{body}: {reason}");
        }
        for (body, expected) in [
            ("{\"PartitionKey\":\"p\"}", "key-missing: The body contains no RowKey, or it is null."),
            ("{\"PartitionKey\":5,\"RowKey\":\"r\"}", "key-invalid: The PartitionKey is not a string."),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"é/\"}", "key-invalid: The RowKey contains '/' at position 1."),
            (
                "{\"PartitionKey\":\"a\\n\",\"RowKey\":\"r\"}",
                "key-invalid: The PartitionKey contains U+000A at position 1.",
            ),
        ] {
            let reason = reason(json, body, KeyLocation::Body);
            assert!(reason.starts_with(expected), "{body}: {reason}");
        }
        let long = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{}\"}}", "k".repeat(600));
        let reason = reason(json, &long, KeyLocation::Body);
        assert!(reason.starts_with("key-too-long: The RowKey has 600 characters; the limit is 512."), "{reason}");
    }

    #[test]
    fn an_atom_body_is_refused_with_a_reason() {
        let entry = |properties: &str| {
            format!(
                "<entry xmlns=\"http://www.w3.org/2005/Atom\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><content><m:properties>\n{properties}</m:properties></content></entry>"
            )
        };
        for (properties, expected) in [
            ("<d:a>", "body-malformed: The body is not a well-formed Atom entry near line 2."),
            ("<d:a m:type=\"Edm.Guid\">x</d:a>", "property-value: The value of a is no Edm.Guid"),
            ("<d:a m:type=\"Edm.Single\">1</d:a>", "property-type: The declared type of a does not exist."),
            ("<d:a>1</d:a><d:a>1</d:a>", "body-malformed: The property a is given more than once."),
            ("<d:a-b>1</d:a-b>", "property-name: The name 'a-b' contains '-' at position 1."),
        ] {
            let reason = reason(Format::Atom, &entry(properties), KeyLocation::Address);
            assert!(reason.starts_with(expected), "{properties}: {reason}");
        }
        let reason = reason(Format::Atom, &entry("<d:PartitionKey>a#</d:PartitionKey><d:RowKey/>"), KeyLocation::Body);
        assert!(reason.starts_with("key-invalid: The PartitionKey contains '#' at position 1."), "{reason}");
    }

    #[test]
    fn sizes_and_names_of_tables_are_told_with_their_limits() {
        let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
        let line = |value: EdmValue<'_>, count: usize| {
            let mut properties = RecordBuilder::default();
            for number in 0..count {
                properties.push(&format!("n{number}"), value);
            }
            size_defect(&key, &properties).map(|reason| reason.line(true)).unwrap_or_default()
        };
        let text = "x".repeat(32_769);
        for (value, count, expected) in [
            (EdmValue::String(&text), 1, "value-too-large: The string n0 has 32769 characters; the limit is 32768."),
            (
                EdmValue::Binary(&vec![0; 65_537]),
                1,
                "value-too-large: The binary n0 has 65537 bytes; the limit is 65536.",
            ),
            (EdmValue::Int32(1), 253, "properties-too-many: The request has 253 properties; the limit is 252."),
            (EdmValue::String(&text), 20, "entity-too-large: The entity has 1311108 bytes; the limit is 1048576."),
            (EdmValue::Int32(1), 252, ""),
        ] {
            let line = line(value, count);
            assert!(line.starts_with(expected) && line.is_empty() == expected.is_empty(), "{line}");
        }
        for (name, expected) in [
            ("ab", "table-name: The length of the name is 2 instead of 3 to 63."),
            ("my-table", "table-name: The name contains '-' at position 2."),
            ("1table", "table-name: The name begins with a digit;"),
            ("Tables", "table-name: The name 'tables' is reserved."),
        ] {
            let error = model::TableName::new(name).unwrap_err();
            let reason = ServiceError::from(error).because(table_name_defect(name, error));
            assert!(reason.reason().unwrap().line(true).starts_with(expected), "{name}");
        }
    }
}
