//! Writes responses with the same order of members and the same spelling as the service, byte for byte (specification
//! 03 §3).
//!
//! This module must not depend on HTTP. It reads only the stored record of an entity.

use super::encoder_cache::EncoderCache;
use crate::encoding::binary::write_base64;
use crate::encoding::json_string::{write_escaped, write_escaped_bytes, write_json_string};
use crate::entities::response_context::{EntityContext, ResponseContext};
use crate::negotiation::MetadataLevel;
use crate::number::write_double;
use crate::select::Select;
use crate::uri::{write_entity_address, write_table_address};
use crate::version::Version;
use model::datetime::InstantText;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::record::{DamagedRecord, Properties, Property};
use model::{Dialect, EdmType, EdmValue, EntityView};

/// Writes one entity as a complete response.
pub fn write_single_entity(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    level: MetadataLevel,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    out.push(b'{');
    write_members(out, context, level, entity, EntityPlace::Alone)?;
    close_object(out);
    Ok(())
}

/// Writes the beginning of a set, up to its first entity, with the number of all entities that match the query if it is
/// known.
pub fn write_start_of_entity_set(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    level: MetadataLevel,
    count: Option<u64>,
) {
    out.push(b'{');
    if level != MetadataLevel::None && context.response.dialect == Dialect::Storage {
        write_context_address(out, context, b"");
        out.push(b',');
    }
    if let Some(count) = count {
        out.extend_from_slice(format!("\"odata.count\":\"{count}\",").as_bytes());
    }
    out.extend_from_slice(b"\"value\":[");
}

/// Writes one entity of a set. The caller writes the commas between entities. `cache` is reused for all entities of the
/// set, which must have the same context.
pub fn write_entity_in_set(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    level: MetadataLevel,
    entity: &EntityView<'_>,
    cache: &mut EncoderCache,
) -> Result<(), DamagedRecord> {
    out.push(b'{');
    write_members(out, context, level, entity, EntityPlace::InSet(cache))?;
    close_object(out);
    Ok(())
}

/// Writes the end of a set, after its last entity.
pub fn end_entity_set(out: &mut Vec<u8>, context: &EntityContext<'_>, level: MetadataLevel) {
    out.push(b']');
    if level != MetadataLevel::None && context.response.dialect == Dialect::Cosmos {
        out.push(b',');
        write_context_address(out, context, b"");
    }
    out.push(b'}');
}

/// Where an entity is written.
enum EntityPlace<'c> {
    Alone,
    /// The cache is the one of the set.
    InSet(&'c mut EncoderCache),
}

/// Writes `"odata.metadata":"BASE/$metadata#table…"`, followed by the projection, if any. A set has no suffix.
fn write_context_address(out: &mut Vec<u8>, context: &EntityContext<'_>, suffix: &[u8]) {
    let is_cosmos = context.response.dialect == Dialect::Cosmos;
    out.extend_from_slice(b"\"odata.metadata\":\"");
    write_escaped(out, context.response.base);
    if is_cosmos && !suffix.is_empty() {
        out.push(b'/');
        write_escaped(out, context.table);
    }
    out.extend_from_slice(b"/$metadata#");
    write_escaped(out, context.table);
    out.extend_from_slice(suffix);
    if let Some(select) = context.select.filter(|_| !is_cosmos) {
        out.extend_from_slice(b"&$select=");
        write_escaped(out, select.metadata_text());
    }
    out.push(b'"');
}

/// Writes all members of an entity, each followed by a comma.
fn write_members(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    level: MetadataLevel,
    entity: &EntityView<'_>,
    place: EntityPlace<'_>,
) -> Result<(), DamagedRecord> {
    let dialect = context.response.dialect;
    let timestamp = dialect.text(entity.record.timestamp());
    let (is_alone, cache) = match place {
        EntityPlace::Alone => (true, None),
        EntityPlace::InSet(cache) => (false, Some(cache)),
    };
    write_annotations(out, context, level, entity, &timestamp, is_alone);
    let mut properties = PropertyWriter { level, dialect, cache, index: 0 };
    let select = context.select.filter(|select| !select.is_all());
    write_keys(out, entity, select);
    let is_timestamp_selected = select.is_none_or(|select| select.has(TIMESTAMP));
    if dialect == Dialect::Storage && is_timestamp_selected {
        write_timestamp(out, level, &timestamp);
    }
    match select {
        None => properties.write_all(out, entity.record.properties())?,
        Some(select) => write_selected(out, entity, select, &mut properties)?,
    }
    if dialect == Dialect::Cosmos && is_timestamp_selected {
        write_timestamp(out, level, &timestamp);
    }
    Ok(())
}

/// Writes the selected properties, then null for each selected name that the entity lacks.
fn write_selected(
    out: &mut Vec<u8>,
    entity: &EntityView<'_>,
    select: &Select,
    properties: &mut PropertyWriter<'_>,
) -> Result<(), DamagedRecord> {
    let projection = select.project(entity.record)?;
    for property in &projection.present {
        properties.write(out, property)?;
    }
    for name in projection.missing {
        write_json_string(out, name);
        out.extend_from_slice(b":null,");
    }
    Ok(())
}

fn write_annotations(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    level: MetadataLevel,
    entity: &EntityView<'_>,
    timestamp: &InstantText,
    is_alone: bool,
) {
    let full = level == MetadataLevel::Full;
    let is_cosmos = context.response.dialect == Dialect::Cosmos;
    let has_context = is_alone && level != MetadataLevel::None;
    let context_address = |out: &mut Vec<u8>| {
        write_context_address(out, context, b"/@Element");
        out.push(b',');
    };
    let address = |out: &mut Vec<u8>| {
        write_entity_address(out, context.table, &entity.key.partition, &entity.key.row);
    };
    let edit_link = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"\"odata.editLink\":\"");
        address(out);
        out.extend_from_slice(b"\",");
    };
    if has_context && !is_cosmos {
        context_address(out);
    }
    if full {
        write_type_and_id(out, context, address);
    }
    if full && is_cosmos {
        edit_link(out);
    }
    if has_context && is_cosmos {
        context_address(out);
    }
    let etag_in_minimal = context.response.version >= Version::ETAG_IN_MINIMAL;
    if full || (etag_in_minimal && level == MetadataLevel::Minimal) {
        out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
        timestamp.write_etag_to(out);
        out.extend_from_slice(b"'\\\"\",");
    }
    if full && !is_cosmos {
        edit_link(out);
    }
}

fn write_type_and_id(out: &mut Vec<u8>, context: &EntityContext<'_>, address: impl Fn(&mut Vec<u8>)) {
    out.extend_from_slice(b"\"odata.type\":\"");
    out.extend_from_slice(context.response.account.as_str().as_bytes());
    out.push(b'.');
    out.extend_from_slice(context.table.as_bytes());
    out.extend_from_slice(b"\",\"odata.id\":\"");
    write_escaped(out, context.response.base);
    out.push(b'/');
    address(out);
    out.extend_from_slice(b"\",");
}

fn write_keys(out: &mut Vec<u8>, entity: &EntityView<'_>, select: Option<&Select>) {
    let selected = |name: &str| select.is_none_or(|select| select.has(name));
    if selected(PARTITION_KEY) {
        out.extend_from_slice(b"\"PartitionKey\":");
        write_json_string(out, &entity.key.partition);
        out.push(b',');
    }
    if selected(ROW_KEY) {
        out.extend_from_slice(b"\"RowKey\":");
        write_json_string(out, &entity.key.row);
        out.push(b',');
    }
}

fn write_timestamp(out: &mut Vec<u8>, level: MetadataLevel, timestamp: &InstantText) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
    }
    out.extend_from_slice(b"\"Timestamp\":\"");
    timestamp.write_to(out);
    out.extend_from_slice(b"\",");
}

struct PropertyWriter<'r> {
    level: MetadataLevel,
    dialect: Dialect,
    /// The prefixes of the previous entity; `None` if only one entity is written.
    cache: Option<&'r mut EncoderCache>,
    index: usize,
}

impl PropertyWriter<'_> {
    fn write_all(&mut self, out: &mut Vec<u8>, mut properties: Properties<'_>) -> Result<(), DamagedRecord> {
        loop {
            let same = self.cache.as_ref().and_then(|cache| cache.next(self.index, &mut properties));
            if let Some((prefix, property)) = same {
                // The type determines whether a value is quoted, except for doubles: NaN and the infinities are quoted.
                if is_quoted(&property)? == prefix.is_quoted {
                    out.extend_from_slice(&prefix.text);
                    write_rest(out, &property, prefix.is_quoted, self.dialect)?;
                    self.index += 1;
                } else {
                    self.write(out, &property)?;
                }
            } else {
                let Some(property) = properties.next() else { return Ok(()) };
                self.write(out, &property?)?;
            }
        }
    }

    /// Writes a property, with a type annotation if the level requires one, and a comma.
    fn write(&mut self, out: &mut Vec<u8>, property: &Property<'_>) -> Result<(), DamagedRecord> {
        let (start, is_quoted) = (out.len(), is_quoted(property)?);
        write_name_and_type(
            out,
            property,
            self.level != MetadataLevel::None && is_annotated(property.edm_type(), is_quoted),
        )?;
        if is_quoted {
            out.push(b'"');
        }
        if let Some(cache) = &mut self.cache {
            cache.keep(self.index, property, is_quoted, out.get(start..).unwrap_or_default());
        }
        self.index += 1;
        write_rest(out, property, is_quoted, self.dialect)
    }
}

/// Writes everything before the value: the type annotation, if any, and the name.
pub(super) fn write_name_and_type(
    out: &mut Vec<u8>,
    property: &Property<'_>,
    is_annotated: bool,
) -> Result<(), DamagedRecord> {
    out.push(b'"');
    if is_annotated {
        write_escaped_bytes(out, property.name_bytes())?;
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(property.edm_type().name().as_bytes());
        out.extend_from_slice(b"\",\"");
    }
    write_escaped_bytes(out, property.name_bytes())?;
    out.extend_from_slice(b"\":");
    Ok(())
}

/// Returns true for types that need an annotation because JSON does not distinguish them (03 §3.4).
fn is_annotated(edm_type: EdmType, is_quoted: bool) -> bool {
    is_quoted && edm_type != EdmType::String
}

/// Returns true for values written as strings: those of types that JSON lacks, NaN and the infinities (01 §6.2).
fn is_quoted(property: &Property<'_>) -> Result<bool, DamagedRecord> {
    Ok(match property.edm_type() {
        EdmType::String | EdmType::Binary | EdmType::DateTime | EdmType::Guid | EdmType::Int64 => true,
        EdmType::Double => matches!(property.value()?, EdmValue::Double(double) if !double.is_finite()),
        EdmType::Boolean | EdmType::Int32 => false,
    })
}

pub(super) fn write_value(out: &mut Vec<u8>, property: &Property<'_>) -> Result<(), DamagedRecord> {
    if is_quoted(property)? {
        out.push(b'"');
        write_bare(out, property, Dialect::Storage)?;
        out.push(b'"');
        return Ok(());
    }
    write_bare(out, property, Dialect::Storage)
}

/// Writes everything after the opening quote of a value: its text, the closing quote if it is quoted, and a comma.
fn write_rest(
    out: &mut Vec<u8>,
    property: &Property<'_>,
    is_quoted: bool,
    dialect: Dialect,
) -> Result<(), DamagedRecord> {
    write_bare(out, property, dialect)?;
    if is_quoted {
        out.extend_from_slice(b"\",");
    } else {
        out.push(b',');
    }
    Ok(())
}

fn write_bare(out: &mut Vec<u8>, property: &Property<'_>, dialect: Dialect) -> Result<(), DamagedRecord> {
    if property.edm_type() == EdmType::String {
        // Text without escapes is ASCII, so most values need no UTF-8 check.
        return write_escaped_bytes(out, property.value_bytes());
    }
    match property.value()? {
        EdmValue::String(text) => write_escaped(out, text),
        EdmValue::Binary(bytes) => write_base64(out, bytes),
        EdmValue::Boolean(true) => out.extend_from_slice(b"true"),
        EdmValue::Boolean(false) => out.extend_from_slice(b"false"),
        EdmValue::DateTime(instant) => dialect.text(instant).write_to(out),
        EdmValue::Double(double) => write_json_double(out, double),
        EdmValue::Guid(guid) => guid.write_to(out),
        EdmValue::Int32(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        EdmValue::Int64(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
    Ok(())
}

/// Writes a double without the sign of zero, which JSON responses omit (01 §6.2).
fn write_json_double(out: &mut Vec<u8>, double: f64) {
    if double.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if double.is_infinite() {
        out.extend_from_slice(if double > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write_double(out, double + 0.0);
    }
}

/// Closes an object whose members are each followed by a comma.
pub(super) fn close_object(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
}

/// Writes the response to Create Table and to a query of one table.
pub fn write_single_table(out: &mut Vec<u8>, context: ResponseContext<'_>, level: MetadataLevel, table: &str) {
    let address = |out: &mut Vec<u8>| write_tables_address(out, context, level, b"/@Element\",");
    out.push(b'{');
    if context.dialect == Dialect::Storage {
        address(out);
    }
    write_table_members(out, context, level, table);
    if context.dialect == Dialect::Cosmos {
        address(out);
    }
    close_object(out);
}

fn write_tables_address(out: &mut Vec<u8>, context: ResponseContext<'_>, level: MetadataLevel, end: &[u8]) {
    if level != MetadataLevel::None {
        out.extend_from_slice(b"\"odata.metadata\":\"");
        write_escaped(out, context.base);
        out.extend_from_slice(b"/$metadata#Tables");
        out.extend_from_slice(end);
    }
}

/// Writes the response to Query Tables.
pub fn write_table_set<'t>(
    out: &mut Vec<u8>,
    context: ResponseContext<'_>,
    level: MetadataLevel,
    tables: impl Iterator<Item = &'t str>,
) {
    out.push(b'{');
    if context.dialect == Dialect::Storage {
        write_tables_address(out, context, level, b"\",");
    }
    out.extend_from_slice(b"\"value\":[");
    for (index, table) in tables.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'{');
        write_table_members(out, context, level, table);
        close_object(out);
    }
    out.extend_from_slice(b"],");
    if context.dialect == Dialect::Cosmos {
        write_tables_address(out, context, level, b"\",");
    }
    close_object(out);
}

fn write_table_members(out: &mut Vec<u8>, context: ResponseContext<'_>, level: MetadataLevel, table: &str) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"odata.type\":\"");
        out.extend_from_slice(context.account.as_str().as_bytes());
        out.extend_from_slice(b".Tables\",\"odata.id\":\"");
        write_escaped(out, context.base);
        out.push(b'/');
        write_table_address(out, table);
        out.extend_from_slice(b"\",\"odata.editLink\":\"");
        write_table_address(out, table);
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"\"TableName\":");
    write_json_string(out, table);
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity_body::KeyLocation;
    use crate::json::read_entity;
    use crate::negotiation::Format;
    use model::{AccountName, DateTime, EntityKey, EntityLimits, KeyText, Record};

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn record(body: &str) -> Record {
        let timestamp = DateTime::parse("2023-11-05T06:31:02.1234567Z").unwrap();
        read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE).unwrap().properties.finish(timestamp)
    }

    fn single(level: MetadataLevel, select: Option<&Select>, key: &EntityKey, record: &Record) -> String {
        let (account, format) = (AccountName::new("acct").unwrap(), Format::Json(level));
        let (base, version) = ("https://acct.table.example", Version::ETAG_IN_MINIMAL);
        let response =
            ResponseContext { base, account: &account, dialect: Dialect::Storage, format, version, now: DateTime::MIN };
        let context = EntityContext { response, table: "cars", select };
        let mut out = Vec::new();
        write_single_entity(&mut out, &context, level, &EntityView::from_parts(key, record).unwrap()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn projection_keeps_the_order_of_the_entity_and_puts_missing_names_last() {
        let (key, record) = (key("p", "r"), record(r#"{"a1":1,"a2":2,"b":3}"#));
        let select = Select::parse("PartitionKey,RowKey,b,x,a1,a2").unwrap();
        assert_eq!(
            single(MetadataLevel::None, Some(&select), &key, &record),
            r#"{"PartitionKey":"p","RowKey":"r","a1":1,"a2":2,"b":3,"x":null}"#
        );
        let select = Select::parse("b, x").unwrap();
        assert_eq!(
            single(MetadataLevel::Minimal, Some(&select), &key, &record),
            r#"{"odata.metadata":"https://acct.table.example/$metadata#cars/@Element&$select=b,%20x","odata.etag":"W/\"datetime'2023-11-05T06%3A31%3A02.1234567Z'\"","b":3,"x":null}"#
        );
        let empty = Select::parse("").unwrap();
        assert!(
            single(MetadataLevel::Minimal, Some(&empty), &key, &record)
                .contains("#cars/@Element&$select=\",\"odata.etag\"")
        );
        assert!(single(MetadataLevel::None, Some(&empty), &key, &record).contains("\"a2\":2"));
    }
}
