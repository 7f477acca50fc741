//! Responses with several entities or tables, as parsed by a client (specification 03 §3).
//!
//! This module must not depend on continuation tokens, which are headers.

use super::members::Members;
use super::read::stored_entity;
use crate::entity_body::{BodyError, StoredEntity};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

#[derive(Deserialize)]
pub(super) struct EntitySet<E> {
    pub(super) value: Vec<E>,
}

/// An entity that is decoded while the set around it is parsed, so the parser passes over each value only once.
struct SetEntry(Result<StoredEntity, BodyError>);

impl<'de> Deserialize<'de> for SetEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Members::deserialize(deserializer)?;
        Ok(Self(members.checked().and_then(|members| stored_entity(&members))))
    }
}

#[derive(Deserialize)]
struct TableSet<'a> {
    #[serde(borrow)]
    value: Vec<TableEntry<'a>>,
}

#[derive(Deserialize)]
struct TableEntry<'a> {
    #[serde(borrow, rename = "TableName")]
    name: Cow<'a, str>,
}

/// Parses the entities of a page, each with its keys.
pub fn read_entity_set(body: &[u8]) -> Result<Vec<StoredEntity>, BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
    let set: EntitySet<SetEntry> = serde_json::from_str(text).map_err(|_| BodyError::Malformed)?;
    set.value.into_iter().map(|entry| entry.0).collect()
}

/// Parses the names in a page of tables.
pub fn read_table_set(body: &[u8]) -> Result<Vec<String>, BodyError> {
    let set: TableSet<'_> = serde_json::from_slice(body).map_err(|_| BodyError::Malformed)?;
    Ok(set.value.into_iter().map(|entry| entry.name.into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_entities() {
        let body = br#"{"odata.metadata":"http://h/$metadata#t","value":[
            {"odata.etag":"W/\"x\"","PartitionKey":"p","RowKey":"1","Timestamp":"2031-04-01T06:30:00Z","N":5,"D":5.0},
            {"PartitionKey":"p","RowKey":"","B@odata.type":"Edm.Binary","B":"AQI="}]}"#;
        let entities = read_entity_set(body).unwrap();
        let rows: Vec<_> = entities.iter().map(|entity| entity.body.row.as_ref().unwrap().as_str()).collect();
        assert_eq!(rows, ["1", ""]);
        assert_eq!(entities[0].body.properties.len(), 2, "the Timestamp is not a custom property");
        let stamps = |entity: &StoredEntity| (entity.timestamp.is_some(), entity.etag.as_deref().map(str::to_owned));
        assert_eq!(
            entities.iter().map(stamps).collect::<Vec<_>>(),
            [(true, Some("W/\"x\"".to_owned())), (false, None)]
        );
        assert_eq!(read_entity_set(br#"{"value":[]}"#), Ok(vec![]));
        assert_eq!(read_entity_set(br#"{"value":[{"RowKey":"1"}]}"#), Err(BodyError::KeyMissing));
        for malformed in ["", "[]", "{}", r#"{"value":5}"#, r#"{"value":[5]}"#, r#"{"value":[{"#] {
            assert_eq!(read_entity_set(malformed.as_bytes()), Err(BodyError::Malformed), "{malformed}");
        }
    }

    #[test]
    fn pages_of_tables() {
        let body = br#"{"odata.metadata":"http://h/$metadata#Tables","value":[{"TableName":"one"},
            {"odata.type":"a.Tables","odata.id":"x","TableName":"\u0074wo"}]}"#;
        assert_eq!(read_table_set(body).unwrap(), ["one", "two"]);
        assert_eq!(read_table_set(br#"{"value":[{"Name":"x"}]}"#), Err(BodyError::Malformed));
    }
}
