//! Parses entities on the command line: properties as `NAME=VALUE` and `NAME:TYPE=VALUE`, and JSON.

use crate::formats::{LineError, push_value, read_line};
use crate::option_values::parse_type;
use anyhow::{Context, anyhow, bail, ensure};
use client::PropertyBag;
use model::limits::REQUEST_BODY_BYTES_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use model::{EdmType, EntityKey, KeyText, RecordBuilder};
use serde_json::value::RawValue;
use std::io::Read;

pub(super) fn entity_key(partition: &str, row: &str) -> anyhow::Result<EntityKey> {
    let text = |name: &str, text: &str| {
        KeyText::new(text).map_err(|_| {
            anyhow!("{text:?} is not a valid {name}: use up to 512 characters, without / \\ # ? and control characters")
        })
    };
    Ok(EntityKey { partition: text(PARTITION_KEY, partition)?, row: text(ROW_KEY, row)? })
}

pub(super) fn parse_properties(texts: &[String]) -> anyhow::Result<RecordBuilder> {
    let mut properties = RecordBuilder::default();
    let mut names: Vec<&str> = Vec::new();
    for text in texts {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("'{text}' is not a property: write Name=value or Age:Int32=5"))?;
        let (name, edm_type) = match name.split_once(':') {
            None => (name, EdmType::String),
            Some((name, edm_type)) => {
                let known = parse_type(edm_type).with_context(|| {
                    format!("'{edm_type}' is not a type: use String, Int32, Int64, Double, Boolean, DateTime, Guid or Binary")
                })?;
                (name, known)
            }
        };
        let is_property = check_property_name(name).is_ok() && ![PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name);
        ensure!(is_property, "'{name}' is not a valid property name");
        ensure!(!names.contains(&name), "the property '{name}' is given twice");
        names.push(name);
        push_value(&mut properties, name, edm_type, value).map_err(|reason| anyhow!(reason))?;
    }
    Ok(properties)
}

/// Accepts an object, an array of objects, or either of these from standard input.
///
/// A single object may omit keys that are given on the command line.
pub(super) fn parse_json(json: &str, key: Option<&EntityKey>) -> anyhow::Result<Vec<PropertyBag>> {
    let mut text = json.to_owned();
    if json == "-" {
        text.clear();
        let mut limited = std::io::stdin().lock().take(REQUEST_BODY_BYTES_MAX as u64 + 1);
        limited.read_to_string(&mut text).context("reading standard input")?;
        ensure!(text.len() <= REQUEST_BODY_BYTES_MAX, "standard input is larger than 4 MiB: use 'rowhouse import'");
    }
    if !text.trim_start().starts_with('[') {
        return Ok(vec![entity(text.trim(), key)?]);
    }
    ensure!(key.is_none(), "entities in an array have their own keys: remove PARTITION and ROW");
    let objects: Vec<&RawValue> = serde_json::from_str(&text).context("reading --json")?;
    let read = objects
        .iter()
        .enumerate()
        .map(|(at, object)| entity(object.get(), None).with_context(|| format!("entity {} of the array", at + 1)));
    read.collect()
}

fn entity(text: &str, key: Option<&EntityKey>) -> anyhow::Result<PropertyBag> {
    let refused = |error: LineError| anyhow!("--json, column {}: {}", error.column, error.reason);
    let Some(key) = key else { return read_line(text.as_bytes()).map_err(refused) };
    let members: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text).ok();
    let Some(members) = members else {
        let read = read_line(text.as_bytes()).map_err(refused);
        return read.and_then(|_| bail!("--json is not an object"));
    };
    let mut whole = text.to_owned();
    let mut missing = Vec::new();
    for (name, given) in [(PARTITION_KEY, &key.partition), (ROW_KEY, &key.row)] {
        match members.get(name).map(|known| known.as_str()) {
            None => missing.push(format!("{}:{}", serde_json::json!(name), serde_json::json!(given.as_str()))),
            // The entity parser reports a key that is not a string.
            Some(None) => {}
            Some(known) => ensure!(
                known == Some(given.as_str()),
                "--json and the command line have a different {name}: remove one of them"
            ),
        }
    }
    // Add keys at the end, so that the columns in errors refer to the given text.
    if let Some(open) = whole.trim_end().strip_suffix('}').filter(|_| !missing.is_empty()) {
        let comma = if members.is_empty() { "" } else { "," };
        whole = format!("{open}{comma}{}}}", missing.join(","));
    }
    read_line(whole.as_bytes()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(properties: &RecordBuilder) -> String {
        let shown = properties.properties().map(|property| {
            let property = property.unwrap();
            format!("{}={:?}", property.name().unwrap(), property.value().unwrap())
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn read(texts: &[&str]) -> anyhow::Result<String> {
        parse_properties(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).map(|read| shown(&read))
    }

    #[test]
    fn typed_properties() {
        for (texts, expected) in [
            (&["Name=a=b", "Empty="][..], "Name=String(\"a=b\") Empty=String(\"\")"),
            (&["Age:Int32=5", "Weight:Edm.Double=5"], "Age=Int32(5) Weight=Double(5.0)"),
            (&["At:String=x:y"], "At=String(\"x:y\")"),
        ] {
            assert_eq!(read(texts).unwrap(), expected);
        }
        for (texts, expected) in [
            (&["Name"][..], "write Name=value"),
            (&["Age:Int=5"], "use String, Int32"),
            (&["Age:Int32=x"], "is not Edm.Int32"),
            (&["a-b=1"], "not a valid property name"),
            (&["RowKey=1"], "not a valid property name"),
            (&["a=1", "a=2"], "given twice"),
        ] {
            let error = read(texts).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn json_with_and_without_keys() {
        let key = entity_key("p", "r").unwrap();
        for (text, key) in [
            (r#"{"PartitionKey":"p","RowKey":"r","N":1}"#, None),
            (r#" {"N":1} "#, Some(&key)),
            (r#"{"RowKey":"r","N":1}"#, Some(&key)),
            (r#"[{"PartitionKey":"p","RowKey":"r","N":1}]"#, None),
        ] {
            let [entity] = &parse_json(text, key).unwrap()[..] else { panic!("expected one entity") };
            assert_eq!((entity.key.partition.as_str(), entity.key.row.as_str()), ("p", "r"));
            assert_eq!(shown(entity.properties.as_record_builder()), "N=Int32(1)", "{text}");
        }
        assert!(parse_json("{}", Some(&key)).unwrap()[0].properties.is_empty());
        for (text, key, expected) in [
            (r#"{"N":1}"#, None, "the PartitionKey is missing"),
            (r#"{"N":1,}"#, Some(&key), "column 8: this is not JSON"),
            (r#"{"PartitionKey":"q"}"#, Some(&key), "a different PartitionKey"),
            (r#"{"RowKey":5}"#, Some(&key), "column 2: the RowKey is a number, but keys are strings"),
            (r#"[{"PartitionKey":5,"RowKey":"r"}]"#, None, "the PartitionKey is a number"),
            ("5", Some(&key), "expected a JSON object"),
            (r#"{"N":{}}"#, Some(&key), "'N' has a value that no property can have"),
            ("[]", Some(&key), "remove PARTITION and ROW"),
            ("[5]", None, "entity 1 of the array"),
        ] {
            let error = format!("{:#}", parse_json(text, key).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
