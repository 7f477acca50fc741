//! Rows of the change feed, as parsed by a client (`docs/change-feed.md`).
//!
//! A row can have more properties than an entity, and longer names, so the entity in it is parsed on its own.
//!
//! This module must not depend on how rows are selected.

use super::members::Text;
use super::read::read_stored_entity;
use super::sets::EntitySet;
use super::write_json_string;
use crate::entity_body::{BodyError, StoredEntity};
use model::changes_table::ENTITY_PREFIX;
use model::{ChangePosition, DateTime};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A row of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeRow<'a> {
    /// The position of the change.
    pub position: ChangePosition,
    /// The time of the transaction.
    pub time: DateTime,
    /// The name of the operation.
    pub operation: Cow<'a, str>,
    /// The name of the table.
    pub table: Cow<'a, str>,
    /// The entity after the change, or only its keys if it was deleted. `None` if a table changed.
    pub entity: Option<StoredEntity>,
    /// The row itself.
    pub json: &'a str,
}

#[derive(Deserialize)]
struct Columns<'a> {
    #[serde(borrow, rename = "RowKey")]
    position: Cow<'a, str>,
    #[serde(borrow, rename = "Timestamp")]
    time: Cow<'a, str>,
    #[serde(borrow, rename = "Operation")]
    operation: Cow<'a, str>,
    #[serde(borrow, rename = "Table")]
    table: Cow<'a, str>,
}

/// The JSON of the entity in a row; empty if there is none.
struct EntityJson(Vec<u8>);

/// Parses a page of the change feed.
pub fn read_change_set(body: &[u8]) -> Result<Vec<ChangeRow<'_>>, BodyError> {
    let set: EntitySet<&RawValue> = serde_json::from_slice(body).map_err(|_| BodyError::Malformed)?;
    set.value.iter().map(|row| read_change(row.get())).collect()
}

fn read_change(json: &str) -> Result<ChangeRow<'_>, BodyError> {
    let malformed = |_| BodyError::Malformed;
    let Columns { position, time, operation, table } = serde_json::from_str(json).map_err(malformed)?;
    let EntityJson(entity) = serde_json::from_str(json).map_err(malformed)?;
    let entity = if entity.is_empty() { None } else { Some(read_stored_entity(&entity)?) };
    let position = ChangePosition::parse(&position).ok_or(BodyError::Malformed)?;
    let time = DateTime::parse(&time).map_err(|_| BodyError::Malformed)?;
    Ok(ChangeRow { position, time, operation, table, entity, json })
}

impl<'de> Deserialize<'de> for EntityJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntityVisitor)
    }
}

struct EntityVisitor;

impl<'de> Visitor<'de> for EntityVisitor {
    type Value = EntityJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<EntityJson, A::Error> {
        let mut json = Vec::new();
        while let Some((Text(name), value)) = members.next_entry::<Text<'de>, &'de RawValue>()? {
            let Some(name) = name.strip_prefix(ENTITY_PREFIX) else { continue };
            json.push(if json.is_empty() { b'{' } else { b',' });
            write_json_string(&mut json, name);
            json.push(b':');
            json.extend_from_slice(value.get().as_bytes());
        }
        if !json.is_empty() {
            json.push(b'}');
        }
        Ok(EntityJson(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::EdmValue;
    use std::fmt::Write;

    #[test]
    fn rows_with_and_without_entities() {
        let row = |end: &str| {
            format!(
                r#"{{"odata.etag":"W/\"x\"","PartitionKey":"20261128T0510","RowKey":"00000000000000004711-002",
                "Timestamp":"2026-11-28T05:10:07.5Z","Table":"Cars","Transaction@odata.type":"Edm.Int64",
                "Transaction":"4711","Index":2,{end}}}"#
            )
        };
        let put = row(
            r#""Operation":"Put","Entity_PartitionKey":"p","Entity_RowKey":"r","Entity_Timestamp@odata.type":"Edm.DateTime",
            "Entity_Timestamp":"2026-11-28T05:10:07.5Z","Entity_N@odata.type":"Edm.Int64","Entity_N":"7","Entity_Entity_N":5"#,
        );
        let delete = row(r#""Operation":"Delete","Entity_PartitionKey":"p","Entity_RowKey":"r""#);
        let table = row(r#""Operation":"DeleteTable""#);
        let body = format!("{{\"odata.metadata\":\"x\",\"value\":[{put},{delete},{table}]}}");
        let rows = read_change_set(body.as_bytes()).unwrap();
        let time = DateTime::parse("2026-11-28T05:10:07.5Z").unwrap();
        let keys = |row: &ChangeRow<'_>| {
            let body = &row.entity.as_ref()?.body;
            Some((body.partition.clone()?.as_str().to_owned(), body.row.clone()?.as_str().to_owned()))
        };
        let of_entity = Some(("p".to_owned(), "r".to_owned()));
        for (row, (operation, json, key)) in rows.iter().zip([
            ("Put", &put, of_entity.clone()),
            ("Delete", &delete, of_entity),
            ("DeleteTable", &table, None),
        ]) {
            let expected = ChangePosition { transaction: 4711, index: 2 };
            assert_eq!((row.position, row.time, &*row.table), (expected, time, "Cars"));
            assert_eq!((&*row.operation, row.json, keys(row)), (operation, json.as_str(), key));
        }
        let entity = rows[0].entity.as_ref().unwrap();
        assert_eq!(entity.timestamp, Some(time));
        let properties: Vec<_> = entity.body.properties.properties().map(Result::unwrap).collect();
        let properties: Vec<_> = properties.iter().map(|one| (one.name().unwrap(), one.value().unwrap())).collect();
        assert_eq!(properties, [("N", EdmValue::Int64(7)), ("Entity_N", EdmValue::Int32(5))]);
        for malformed in [
            "{\"value\":[5]}".to_owned(),
            "{\"value\":[{}]}".to_owned(),
            body.replace("-002", "-2"),
            body.replace("2026-11-28T05:10:07.5Z", "x"),
            body.replace("\"7\"", "\"x\""),
        ] {
            assert!(read_change_set(malformed.as_bytes()).is_err(), "{malformed}");
        }
    }

    #[test]
    fn the_largest_entity_fits_into_a_row() {
        let name = |number: usize| format!("{}{number:03}", "n".repeat(252));
        let mut row = r#"{"RowKey":"00000000000000000001-000","Timestamp":"2026-11-28T05:10:07Z","Operation":"Put",
            "Table":"t","Entity_PartitionKey":"p","Entity_RowKey":"r""#
            .to_owned();
        for number in 0..252 {
            let _ = write!(row, ",\"Entity_{}@odata.type\":\"Edm.Int64\",\"Entity_{0}\":\"1\"", name(number));
        }
        let body = format!("{{\"value\":[{row}}}]}}");
        let rows = read_change_set(body.as_bytes()).unwrap();
        assert_eq!(rows[0].entity.as_ref().unwrap().body.properties.len(), 252);
    }
}
