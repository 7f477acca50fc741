//! An entity as one line of text: JSON in the service's format at minimal metadata, without any loss of precision.
//!
//! Client libraries can read such a line like an entity of a page. Doubles are annotated, so `5.0` stays a double in
//! every reader. A negative zero keeps its sign, unlike in responses of the service (01 §6.2).
//!
//! Invariant: reading a line returns exactly the same values that were written, bit by bit.
//!
//! This module must not depend on files.

use super::write::{close_object, write_name_and_type, write_value};
use crate::encoding::json_string::write_json_string;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::record::{DamagedRecord, Properties};
use model::{DateTime, ETag, EdmType, EdmValue};

/// The system properties of an entity.
#[derive(Debug, Clone, Copy)]
pub struct SystemProperties<'a> {
    /// The partition key.
    pub partition: &'a str,
    /// The row key.
    pub row: &'a str,
    /// The time of the last write; `None` omits Timestamp and `ETag`.
    pub timestamp: Option<DateTime>,
    /// The `ETag`; `None` derives it from the Timestamp.
    pub etag: Option<&'a str>,
}

/// Appends an entity, without a line break.
pub fn write_entity_line(
    out: &mut Vec<u8>,
    key: &SystemProperties<'_>,
    properties: Properties<'_>,
) -> Result<(), DamagedRecord> {
    out.push(b'{');
    if let Some(timestamp) = key.timestamp {
        let etag = key.etag.map_or_else(|| ETag::from_timestamp(timestamp).to_string(), str::to_owned);
        write_member(out, "odata.etag", &etag);
    }
    write_member(out, PARTITION_KEY, key.partition);
    write_member(out, ROW_KEY, key.row);
    if let Some(timestamp) = key.timestamp {
        out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
        let mut text = Vec::with_capacity(32);
        timestamp.write_to(&mut text);
        write_member(out, TIMESTAMP, std::str::from_utf8(&text).unwrap_or_default());
    }
    for property in properties {
        let property = property?;
        let is_plain = matches!(property.edm_type(), EdmType::String | EdmType::Boolean | EdmType::Int32);
        write_name_and_type(out, &property, !is_plain)?;
        match property.value()? {
            EdmValue::Double(double) if double.to_bits() == (-0.0_f64).to_bits() => out.extend_from_slice(b"-0.0"),
            _ => write_value(out, &property)?,
        }
        out.push(b',');
    }
    close_object(out);
    Ok(())
}

fn write_member(out: &mut Vec<u8>, name: &str, text: &str) {
    write_json_string(out, name);
    out.push(b':');
    write_json_string(out, text);
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read_stored_entity;
    use model::RecordBuilder;
    use proptest::prelude::*;

    fn line(timestamp: Option<DateTime>, properties: &RecordBuilder) -> String {
        let key = SystemProperties { partition: "p\u{e9}", row: "", timestamp, etag: None };
        let mut out = Vec::new();
        write_entity_line(&mut out, &key, properties.properties()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_what_a_service_shows() {
        let mut properties = RecordBuilder::default();
        properties.push("Doors", EdmValue::Int32(4));
        properties.push("Weight", EdmValue::Double(5.0));
        properties.push("Serial", EdmValue::Int64(7));
        let bare = "{\"PartitionKey\":\"p\\u00E9\",\"RowKey\":\"\",\"Doors\":4,\"Weight@odata.type\":\"Edm.Double\",\
            \"Weight\":5.0,\"Serial@odata.type\":\"Edm.Int64\",\"Serial\":\"7\"}";
        assert_eq!(line(None, &properties).to_lowercase(), bare.to_lowercase());
        let stamp = DateTime::parse("2031-04-01T06:30:00.1Z").unwrap();
        let stamped = line(Some(stamp), &RecordBuilder::default());
        let expected = "{\"odata.etag\":\"W/\\\"datetime'2031-04-01T06%3A30%3A00.1Z'\\\"\",\"PartitionKey\":\"p\\u00e9\",\
            \"RowKey\":\"\",\"Timestamp@odata.type\":\"Edm.DateTime\",\"Timestamp\":\"2031-04-01T06:30:00.1Z\"}";
        assert_eq!(stamped.to_lowercase(), expected.to_lowercase());
        let read = read_stored_entity(stamped.as_bytes()).unwrap();
        assert_eq!(
            (read.timestamp, read.etag.as_deref()),
            (Some(stamp), Some(&*ETag::from_timestamp(stamp).to_string()))
        );
    }

    proptest! {
        #[test]
        fn every_bit_comes_back(text in ".{0,40}", bits in any::<u64>(), is_zero in any::<bool>(), long in any::<i64>()) {
            let double = if is_zero { if bits % 2 == 0 { -0.0 } else { 0.0 } } else { f64::from_bits(bits) };
            let mut properties = RecordBuilder::default();
            properties.push("z", EdmValue::String(&text));
            properties.push("d", EdmValue::Double(if double.is_nan() { f64::NAN } else { double }));
            properties.push("a", EdmValue::Int64(long));
            let written = line(None, &properties);
            let read = read_stored_entity(written.as_bytes()).unwrap();
            prop_assert_eq!(read.body.properties, properties, "{}", written);
        }
    }
}
