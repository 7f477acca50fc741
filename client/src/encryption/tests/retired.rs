//! Entities written by `azure-cosmosdb-table` 1.0.6 for Python and `azure-storage` 8.6.6 for Java, as stored by a
//! service. `conformance/encryption/exchange.py dump` records them.

use super::*;
use crate::encryption::metadata::PROPERTY_DETAILS;
use crate::encryption::{KeyRing, RsaKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

const CASES: &str = include_str!("../vectors/cases.txt");
const STORED: &str = include_str!("../vectors/retired-libraries.json");

#[derive(serde::Deserialize)]
struct Stored {
    partition: String,
    row: String,
    properties: BTreeMap<String, serde_json::Value>,
}

impl Stored {
    fn builder(&self) -> RecordBuilder {
        let mut builder = RecordBuilder::default();
        for (name, value) in &self.properties {
            match value {
                serde_json::Value::String(text) => builder.push(name, EdmValue::String(text)),
                serde_json::Value::Number(number) => {
                    builder.push(name, EdmValue::Int32(i32::try_from(number.as_i64().unwrap()).unwrap()));
                }
                binary => {
                    let bytes = STANDARD.decode(binary["binary"].as_str().unwrap()).unwrap();
                    builder.push(name, EdmValue::Binary(&bytes));
                }
            }
        }
        builder
    }
}

fn case(partition: &str, row: &str) -> (RecordBuilder, Vec<&'static str>) {
    let (mut builder, mut encrypted) = (RecordBuilder::default(), Vec::new());
    let lines = CASES.lines().skip_while(|line| *line != format!("entity\t{partition}\t{row}")).skip(1);
    for line in lines.take_while(|line| !line.starts_with("entity\t")) {
        let [kind, name, value] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        match kind {
            "int32" => builder.push(name, EdmValue::Int32(value.parse().unwrap())),
            _ => builder.push(name, EdmValue::String(value)),
        }
        if kind == "encrypted" {
            encrypted.push(name);
        }
    }
    assert!(!builder.is_empty(), "{partition} {row}");
    (builder, encrypted)
}

fn sorted(properties: &RecordBuilder) -> Vec<(&str, EdmValue<'_>)> {
    let mut sorted: Vec<_> = values(properties).collect();
    sorted.sort_by_key(|(name, _)| *name);
    sorted
}

fn keys() -> KeyRing {
    KeyRing::new()
        .with(aes("key-aes"))
        .with(RsaKey::from_pem("local:key-rsa", include_str!("../vectors/rsa-for-tests.pem")).unwrap())
}

#[test]
fn what_the_retired_libraries_wrote_is_read() {
    let policy = EncryptionPolicy::new(EncryptionMode::AesCbc).resolver(keys()).required(true);
    let all: Vec<Stored> = serde_json::from_str(STORED).unwrap();
    assert_eq!(all.len(), 2 * 2 * 7, "two libraries, two keys, seven entities");
    for stored in &all {
        let (_writer, _kind, row) = three(&stored.row);
        let (expected, encrypted) = case(&stored.partition, row);
        let key = key(&stored.partition, &stored.row);
        let decrypted = now(policy.decrypt(&key, stored.builder(), &encrypted, None)).unwrap();
        assert_eq!(sorted(&decrypted), sorted(&expected), "{}", stored.row);
    }
}

fn three(row: &str) -> (&str, &str, &str) {
    let (writer, rest) = row.split_once('-').unwrap();
    let (kind, row) = rest.split_once('-').unwrap();
    (writer, kind, row)
}

/// With the same content key and initialization vector, encryption produces the same bytes as the retired libraries.
#[test]
fn what_is_written_has_the_bytes_of_the_retired_libraries() {
    let all: Vec<Stored> = serde_json::from_str(STORED).unwrap();
    let mut compared = 0;
    for stored in &all {
        let (writer, _kind, row) = three(&stored.row);
        let (expected, encrypted) = case(&stored.partition, row);
        let builder = stored.builder();
        let Some(EdmValue::String(text)) = value(&builder, KEY_DETAILS) else { panic!() };
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(metadata.by_java, writer == "java");
        let key_of_keys = now(crate::encryption::KeyResolver::resolve(&keys(), &metadata.key_id)).unwrap().unwrap();
        let secret = now(key_of_keys.unwrap(&metadata.wrapped.algorithm, &metadata.wrapped.bytes)).unwrap();
        let content_key = ContentKey::from_unwrapped(secret).unwrap();
        let key = key(&stored.partition, &stored.row);
        let ours =
            policy(EncryptionMode::AesCbc).encrypt_under(&key, &expected, &encrypted, &content_key, &metadata).unwrap();
        for (name, ours) in values(&ours) {
            // The Java library's list has the order of a hash table; the Python library's list contains spaces and
            // escapes.
            let is_alike = encrypted.len() < 2 && name == PROPERTY_DETAILS;
            if encrypted.contains(&name) || is_alike {
                assert_eq!(Some(ours), value(&builder, name), "{} {name}", stored.row);
                compared += 1;
            }
        }
    }
    assert!(compared > 40, "{compared}");
}
