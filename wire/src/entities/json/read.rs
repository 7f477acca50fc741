//! Parses request bodies: converts a flat JSON object to a record (specification 03 §2, 01 §6).
//!
//! Invariant: numbers are parsed from their text, so no digit is lost before the type is known.
//!
//! This module must not know how members are found; that is the task of [`super::members`].

use super::members::{Key, Member, Members, Text};
use crate::defect::{keys_defect, name_defect, type_defect, value_defect};
use crate::encoding::binary::read_base64;
use crate::entity_body::{BodyError, EntityBody, KeyLocation, StoredEntity, datetime, finite_double};
use crate::reason::{Reason, ReasonKind};
use crate::version::Version;
use memchr::memchr;
use model::limits::JSON_MEMBERS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{EdmType, EdmValue, EntityLimits, Guid, RecordBuilder};
use std::borrow::Cow;

/// Parses the body of an insert, update, merge or upsert.
pub fn read_entity(body: &[u8], keys: KeyLocation, limits: &'static EntityLimits) -> Result<EntityBody, BodyError> {
    entity(&Members::read(body)?, RecordBuilder::within(limits, body.len()), keys, Source::Request)
}

/// Parses an entity as returned by a service or stored in a file. It includes the keys and, if present, the Timestamp
/// and the `ETag`. The sign of zero is preserved.
pub fn read_stored_entity(text: &[u8]) -> Result<StoredEntity, BodyError> {
    stored_entity(&Members::read(text)?)
}

pub(super) fn stored_entity(members: &Members<'_>) -> Result<StoredEntity, BodyError> {
    let properties = RecordBuilder::within(&EntityLimits::WIDEST, members.record_bytes());
    let body = entity(members, properties, KeyLocation::Body, Source::Stored)?;
    let timestamp = members.timestamp.filter(|value| *value != NULL);
    let timestamp = timestamp.map(|value| datetime(TIMESTAMP, &string(value)?));
    let etag = members.etag.filter(|value| *value != NULL).map(|value| Ok(Box::from(&*string(value)?)));
    Ok(StoredEntity { body, timestamp: timestamp.transpose()?, etag: etag.transpose()? })
}

fn entity(
    members: &Members<'_>,
    mut properties: RecordBuilder,
    keys: KeyLocation,
    source: Source,
) -> Result<EntityBody, BodyError> {
    let (partition, row) = (key_text(members.partition, keys)?, key_text(members.row, keys)?);
    if keys == KeyLocation::Body && (partition.is_none() || row.is_none()) {
        return Err(BodyError::KeyMissing);
    }
    members.check_names(properties.limits())?;
    let partition = keys.read(PARTITION_KEY, partition.as_deref())?;
    let row = keys.read(ROW_KEY, row.as_deref())?;
    for property in &members.properties {
        let declared = property.declared_type.map(annotated_type).transpose()?;
        push_property(&mut properties, &property.name, property.value, declared, source)?;
    }
    Ok(EntityBody { partition, row, properties })
}

/// Parses the body of Create Table. Returns the table name without validating it, or `None` if it is missing or null.
pub fn read_table(body: &[u8]) -> Result<Option<String>, BodyError> {
    let members = Members::read(body)?;
    let value = members.properties.iter().find(|member| member.name == "TableName").map(|member| member.value);
    match value {
        None | Some(NULL) => Ok(None),
        Some(value) => Ok(Some(string(value)?.into_owned())),
    }
}

/// Returns why the body of a request was refused with an error.
pub(crate) fn defect(body: &[u8], keys: KeyLocation, limits: &EntityLimits, error: &BodyError) -> Reason {
    let members = match Members::read(body) {
        Ok(members) => members,
        Err(BodyError::TooManyProperties) => {
            let detail = format!("The body has more than {JSON_MEMBERS_MAX} members.");
            return ReasonKind::PropertiesTooMany.because(detail);
        }
        Err(_) => return Members::defect(body),
    };
    let named_keys = [(PARTITION_KEY, members.partition), (ROW_KEY, members.row)];
    if *error == BodyError::KeyNotText {
        let wrong = named_keys.into_iter().find(|(_, key)| key_text(*key, keys) == Err(BodyError::KeyNotText));
        let name = wrong.map_or("key", |(name, _)| name);
        return ReasonKind::KeyInvalid.because(format!("The {name} is not a string."));
    }
    let texts = named_keys.map(|(name, key)| (name, key_text(key, keys).ok().flatten()));
    let [(first, partition), (second, row)] = &texts;
    let of_keys = || keys_defect([(*first, partition.as_deref()), (*second, row.as_deref())], error);
    if matches!(error, BodyError::PropertyNameInvalid | BodyError::PropertyNameTooLong) {
        let wrong = members.properties.iter().find_map(|property| name_defect(&property.name, Version::JSON, limits));
        return wrong.unwrap_or_else(|| ReasonKind::PropertyNameWrong.because(""));
    }
    let of_property = |property: &Member<'_>| property_defect(property, error);
    let of_properties = || members.properties.iter().find_map(of_property);
    let found = if keys == KeyLocation::Address { of_properties() } else { of_keys().or_else(of_properties) };
    found.unwrap_or_else(|| ReasonKind::BodyMalformed.because("A key or an annotation has an invalid value."))
}

fn property_defect(property: &Member<'_>, error: &BodyError) -> Option<Reason> {
    let Member { name, value, declared_type } = property;
    let declared = match declared_type.map(annotated_type).transpose() {
        Ok(declared) => declared,
        Err(_) if *error == BodyError::Malformed => return Some(type_defect(name, declared_type.unwrap_or_default())),
        Err(_) => return None,
    };
    let found = push_property(&mut RecordBuilder::default(), name, value, declared, Source::Request).err()?;
    if found != *error {
        return None;
    }
    Some(match (found, declared) {
        (BodyError::OutOfRange(..), _) => {
            let detail = format!("The time of {name} is before 1601 or after 9999.");
            ReasonKind::PropertyValue.because(detail).quoting(value)
        }
        (_, Some(declared)) if !value.starts_with(['{', '[']) => value_defect(name, declared, form(declared), value),
        (_, None) if !value.starts_with(['{', '[']) => {
            value_defect(name, EdmType::Double, form(EdmType::Double), value)
        }
        _ => {
            let detail = format!(
                "The value of {name} is an object or array; entities are flat. Store it as a string that contains JSON."
            );
            ReasonKind::PropertyValue.because(detail)
        }
    })
}

/// Returns how a value of a type is written.
fn form(edm_type: EdmType) -> &'static str {
    match edm_type {
        EdmType::String => "in quotes",
        EdmType::Binary => "in quotes as padded Base64, as in \"AQI=\"",
        EdmType::Boolean => "true or false",
        EdmType::DateTime => "in quotes, as in \"2031-03-14T08:15:30Z\"",
        EdmType::Double => "as a finite number, \"NaN\", \"Infinity\" or \"-Infinity\"",
        EdmType::Guid => "in quotes, as in \"c9da6455-213d-42c9-9a79-3e9149a57833\"",
        EdmType::Int32 => "as a whole number from -2147483648 to 2147483647",
        EdmType::Int64 => "in quotes as a whole number of at most 64 bits, as in \"5000000000\"",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A request: zero loses its sign (01 §6.2), and an integer too large for Int32 becomes a Double (recorded).
    Request,
    /// A service or a file. Both annotate the type of an integer that is too large for Int32; without the annotation,
    /// such an integer is rejected.
    Stored,
}

const NULL: &str = "null";

/// A null key counts as missing.
fn key_text(key: Key<'_>, keys: KeyLocation) -> Result<Option<Cow<'_, str>>, BodyError> {
    if let Some(declared) = key.declared_type {
        keys.check_key_type(annotated_type(declared)?)?;
    }
    match key.value {
        None | Some(NULL) => Ok(None),
        Some(value) if value.starts_with('"') => string(value).map(Some),
        Some(_) => Err(BodyError::KeyNotText),
    }
}

fn annotated_type(value: &str) -> Result<EdmType, BodyError> {
    EdmType::from_name(&string(value)?).ok_or(BodyError::Malformed)
}

fn string(raw: &str) -> Result<Cow<'_, str>, BodyError> {
    let quoted = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    // The value is known to be valid JSON, so without an escape there is nothing left to check.
    if let Some(text) = quoted.filter(|text| memchr(b'\\', text.as_bytes()).is_none()) {
        return Ok(Cow::Borrowed(text));
    }
    serde_json::from_str::<Text<'_>>(raw).map(|text| text.0).map_err(|_| BodyError::Malformed)
}

/// Appends a property with its declared type, or with the type implied by its JSON form (01 §6).
///
/// UNVERIFIED (01 §6.5): which strings the service accepts as values of other types. White space around them is
/// ignored.
fn push_property(
    properties: &mut RecordBuilder,
    name: &str,
    value: &str,
    declared: Option<EdmType>,
    source: Source,
) -> Result<(), BodyError> {
    let first = value.bytes().next().ok_or(BodyError::Malformed)?;
    let text = match first {
        b'n' => return Ok(()),
        b'"' => string(value)?,
        b'{' | b'[' => return Err(BodyError::Malformed),
        _ => Cow::Borrowed(value),
    };
    let quoted = first == b'"';
    let edm_type = declared.unwrap_or(match first {
        b'"' => EdmType::String,
        b't' | b'f' => EdmType::Boolean,
        _ if text.contains(['.', 'e', 'E']) => EdmType::Double,
        _ if source == Source::Request && text.parse::<i32>().is_err() => EdmType::Double,
        _ => EdmType::Int32,
    });
    let needs_quotes = matches!(edm_type, EdmType::String | EdmType::Binary | EdmType::DateTime | EdmType::Guid);
    if needs_quotes && !quoted {
        return Err(BodyError::Malformed);
    }
    let malformed = BodyError::Malformed;
    let binary;
    let text = if edm_type == EdmType::String { &*text } else { text.trim_ascii() };
    let value = match edm_type {
        EdmType::String => EdmValue::String(text),
        EdmType::Binary => {
            binary = read_base64(text.as_bytes()).ok_or(malformed)?;
            EdmValue::Binary(&binary)
        }
        EdmType::Boolean => EdmValue::Boolean(boolean(text, quoted).ok_or(malformed)?),
        EdmType::DateTime => EdmValue::DateTime(datetime(name, text)?),
        EdmType::Double => {
            let value = double(text, quoted).ok_or(malformed)?;
            // Adding zero removes the sign of a zero.
            EdmValue::Double(if source == Source::Stored { value } else { value + 0.0 })
        }
        EdmType::Guid => EdmValue::Guid(Guid::parse(text).ok_or(malformed)?),
        EdmType::Int32 => EdmValue::Int32(text.parse().map_err(|_| malformed)?),
        EdmType::Int64 => EdmValue::Int64(text.parse().map_err(|_| malformed)?),
    };
    properties.push(name, value);
    Ok(())
}

/// Parses a Boolean, of which a string may have any letter case.
fn boolean(text: &str, quoted: bool) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ if quoted && text.eq_ignore_ascii_case("true") => Some(true),
        _ if quoted && text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Parses a double. NaN and the infinities are represented by names, which are valid only in quotes.
fn double(text: &str, quoted: bool) -> Option<f64> {
    match text {
        "NaN" if quoted => Some(f64::NAN),
        "Infinity" if quoted => Some(f64::INFINITY),
        "-Infinity" if quoted => Some(f64::NEG_INFINITY),
        _ => finite_double(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(body: &str) -> Vec<(String, String)> {
        let entity = read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE).unwrap();
        entity
            .properties
            .properties()
            .map(|p| {
                let p = p.unwrap();
                (p.name().unwrap().to_owned(), format!("{:?}", p.value().unwrap()))
            })
            .collect()
    }

    fn one(body: &str) -> String {
        let list = properties(body);
        assert_eq!(list.len(), 1, "{body}");
        list[0].1.clone()
    }

    fn error(body: &str) -> BodyError {
        read_entity(body.as_bytes(), KeyLocation::Body, &EntityLimits::STORAGE).unwrap_err()
    }

    #[test]
    fn types_follow_annotations_before_or_after_and_else_the_json_form() {
        for (body, expected) in [
            (r#"{"a":"x"}"#, "String(\"x\")"),
            (r#"{"a":"2024-01-01T00:00:00Z"}"#, "String(\"2024-01-01T00:00:00Z\")"),
            (r#"{"a":true}"#, "Boolean(true)"),
            (r#"{"a":5}"#, "Int32(5)"),
            (r#"{"a":-2147483648}"#, "Int32(-2147483648)"),
            (r#"{"a":2147483648}"#, "Double(2147483648.0)"),
            (r#"{"a":-9223372036854775808000}"#, "Double(-9.223372036854776e21)"),
            (r#"{"a":5.0}"#, "Double(5.0)"),
            (r#"{"a":5e0}"#, "Double(5.0)"),
            (r#"{"a":-0.0}"#, "Double(0.0)"),
            (r#"{"a":1.797693134862315e308}"#, "Double(1.797693134862315e308)"),
            (r#"{"a":5,"a@odata.type":"Edm.Double"}"#, "Double(5.0)"),
            (r#"{"a@odata.type":"Edm.Double","a":"NaN"}"#, "Double(NaN)"),
            (r#"{"a@odata.type":"Edm.Double","a":"-Infinity"}"#, "Double(-inf)"),
            (r#"{"a@odata.type":"Edm.Double","a":"1.5"}"#, "Double(1.5)"),
            (r#"{"a@odata.type":"Edm.Int64","a":"-9223372036854775808"}"#, "Int64(-9223372036854775808)"),
            (r#"{"a@odata.type":"Edm.Int64","a":7}"#, "Int64(7)"),
            (r#"{"a@odata.type":"Edm.Int32","a":"7"}"#, "Int32(7)"),
            (r#"{"a@odata.type":"Edm.Boolean","a":"true"}"#, "Boolean(true)"),
            (r#"{"a@odata.type":"Edm.Binary","a":"AQIDBA=="}"#, "Binary([1, 2, 3, 4])"),
            // Strings that .NET accepts beyond the form in which the service writes a value
            (r#"{"a@odata.type":"Edm.Int64","a":" +7\n"}"#, "Int64(7)"),
            (r#"{"a@odata.type":"Edm.Int32","a":"\t-7 "}"#, "Int32(-7)"),
            (r#"{"a@odata.type":"Edm.Double","a":" 1.5E1 "}"#, "Double(15.0)"),
            (r#"{"a@odata.type":"Edm.Double","a":" NaN "}"#, "Double(NaN)"),
            (r#"{"a@odata.type":"Edm.Boolean","a":" TRUE "}"#, "Boolean(true)"),
            (r#"{"a@odata.type":"Edm.Boolean","a":"fAlse"}"#, "Boolean(false)"),
            (r#"{"a@odata.type":"Edm.Binary","a":" AQ ID\r\n\tBA== "}"#, "Binary([1, 2, 3, 4])"),
            (r#"{"a@odata.type":"Edm.DateTime","a":" 2024-02-29 "}"#, "DateTime(DateTime(133536384000000000))"),
            (
                r#"{"a@odata.type":"Edm.Guid","a":" {0B0C0D0E-1111-4222-8333-444455556666} "}"#,
                "Guid(Guid([11, 12, 13, 14, 17, 17, 66, 34, 131, 51, 68, 68, 85, 85, 102, 102]))",
            ),
            (
                r#"{"a@odata.type":"Edm.Guid","a":"0b0c0d0e111142228333444455556666"}"#,
                "Guid(Guid([11, 12, 13, 14, 17, 17, 66, 34, 131, 51, 68, 68, 85, 85, 102, 102]))",
            ),
            (r#"{"a@odata.type":"Edm.String","a":" x "}"#, "String(\" x \")"),
            (r#"{"a@odata.type":"Edm.String","a":"x"}"#, "String(\"x\")"),
            (r#"{"a":"\ud83d\ude00\u0000"}"#, "String(\"😀\\0\")"),
            (r#" { "a" : "x" } "#, "String(\"x\")"),
        ] {
            assert_eq!(one(body), expected, "{body}");
        }
        assert_eq!(one("\u{FEFF}{\"a\":\"bom\"}"), "String(\"bom\")");
    }

    #[test]
    fn annotations_nulls_and_the_timestamp_are_not_stored() {
        let body = r#"{"odata.etag":"x","odata.metadata":{"deep":[1,{}]},"PartitionKey@odata.type":"Edm.String","Timestamp":5,
            "Timestamp@odata.type":"Edm.DateTime","a":null,"b@odata.type":"Edm.Guid","c@odata.type@odata.type":"Edm.String",
            "odata.metadata@odata.type":"Edm.String","partitionkey":"custom"}"#;
        assert_eq!(properties(body), [("partitionkey".to_owned(), "String(\"custom\")".to_owned())]);
    }

    #[test]
    fn malformed_bodies() {
        for body in [
            "",
            " ",
            "null",
            "5",
            "[]",
            "\"x\"",
            "{",
            "{}x",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":01}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":{}}",
            "{\"a\":[1]}",
            "{\"a\":1.797693134862316e308}",
            "{\"a\":1e999}",
            "{\"a\":NaN}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":tru}",
            "{\"a\":nullx}",
            "{\"a\":-}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":1e}",
            "{\"a\":+1}",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":\"x}",
            r#"{"a@odata.type":"Edm.Decimal","a":"1"}"#,
            r#"{"a@odata.type":5,"a":"1"}"#,
            r#"{"a@odata.type":"Edm.Guid","a":"x"}"#,
            r#"{"a@odata.type":"Edm.Int64","a":"1.5"}"#,
            r#"{"a@odata.type":"Edm.Int64","a":"9223372036854775808"}"#,
            r#"{"a@odata.type":"Edm.Double","a":"inf"}"#,
            r#"{"a@odata.type":"Edm.Double","a":true}"#,
            r#"{"a@odata.type":"Edm.Double","a":""}"#,
            r#"{"a@odata.type":"Edm.DateTime","a":"2024"}"#,
            r#"{"a@odata.type":"Edm.DateTime","a":"02/29/2024"}"#,
            r#"{"a@odata.type":"Edm.Int64","a":"1,000"}"#,
            r#"{"a@odata.type":"Edm.Double","a":"1,000.5"}"#,
            r#"{"a@odata.type":"Edm.Boolean","a":"1"}"#,
            r#"{"a@odata.type":"Edm.Boolean","a":1}"#,
            r#"{"a@odata.type":"Edm.Binary","a":"AQ"}"#,
            r#"{"a@odata.type":"Edm.String","a":5}"#,
        ] {
            let got = read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE);
            assert_eq!(got, Err(BodyError::Malformed), "{body}");
        }
        let invalid = read_entity(b"{\"a\":\"\xFF\"}", KeyLocation::Address, &EntityLimits::STORAGE);
        assert_eq!(invalid, Err(BodyError::Malformed));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            read_entity(deep.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE),
            Err(BodyError::Malformed)
        );
    }

    #[test]
    fn the_other_errors_in_their_order() {
        let long = "n".repeat(256);
        let key = "k".repeat(513);
        for (body, expected) in [
            (r#"{"RowKey":"r"}"#.to_owned(), BodyError::KeyMissing),
            (r#"{"PartitionKey":"p","RowKey":1234}"#.to_owned(), BodyError::KeyNotText),
            (r#"{"PartitionKey":"p","PartitionKey@odata.type":"Edm.Int32"}"#.to_owned(), BodyError::KeyNotText),
            (r#"{"PartitionKey":null,"RowKey":"r","a-b":1}"#.to_owned(), BodyError::KeyMissing),
            (format!(r#"{{"PartitionKey":"/","RowKey":"r","{long}":1}}"#), BodyError::PropertyNameTooLong),
            (r#"{"PartitionKey":"/","RowKey":"r","a-b":1}"#.to_owned(), BodyError::PropertyNameInvalid),
            (
                r#"{"PartitionKey":"a/","RowKey":"r"}"#.to_owned(),
                BodyError::OutOfRange("PartitionKey".into(), "a/".into()),
            ),
            (r#"{"PartitionKey":"p","RowKey":"\t"}"#.to_owned(), BodyError::OutOfRange("RowKey".into(), "\t".into())),
            (format!(r#"{{"PartitionKey":"{key}","RowKey":"r"}}"#), BodyError::KeyTooLong),
            (
                r#"{"PartitionKey":"p","RowKey":"r","d@odata.type":"Edm.DateTime","d":"1600-01-01T00:00:00Z"}"#
                    .to_owned(),
                BodyError::OutOfRange("d".into(), "01/01/1600 00:00:00".into()),
            ),
        ] {
            assert_eq!(error(&body), expected, "{body}");
        }
    }

    #[test]
    fn a_key_that_the_address_has_may_be_declared_with_another_type_that_json_writes_as_a_string() {
        for (edm_type, is_taken) in
            [("String", true), ("DateTime", true), ("Guid", true), ("Binary", true), ("Int64", true), ("Int32", false)]
        {
            let body = format!(r#"{{"PartitionKey":"p","PartitionKey@odata.type":"Edm.{edm_type}","RowKey":"r"}}"#);
            let read = read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE);
            assert_eq!(read.is_ok(), is_taken, "{edm_type}");
            let is_inserted = read_entity(body.as_bytes(), KeyLocation::Body, &EntityLimits::STORAGE).is_ok();
            assert_eq!(is_inserted, edm_type == "String", "{edm_type}");
        }
    }

    #[test]
    fn keys_in_the_body_do_not_count_where_the_address_has_them() {
        let long = "k".repeat(513);
        for (partition, row) in [("other", "other"), ("a/", "\\t"), (long.as_str(), "")] {
            let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}","a":1}}"#);
            let entity = read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE).unwrap();
            assert_eq!((entity.partition, entity.row, entity.properties.len()), (None, None, 1), "{body}");
        }
    }

    #[test]
    fn tables() {
        assert_eq!(read_table(br#"{"TableName":"abc","odata.metadata":"x"}"#), Ok(Some("abc".to_owned())));
        assert_eq!(read_table(b"{}"), Ok(None));
        assert_eq!(read_table(br#"{"TableName":null}"#), Ok(None));
        assert_eq!(read_table(br#"{"TableName":5}"#), Err(BodyError::Malformed));
        assert_eq!(read_table(b"x"), Err(BodyError::Malformed));
    }
}
