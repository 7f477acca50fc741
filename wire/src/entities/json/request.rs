//! Request bodies, as written by a client (specification 03 §2).
//!
//! Invariant: a server reads every value with the same type with which it was written.

use super::write::{close_object, write_name_and_type, write_value};
use crate::encoding::json_string::write_json_string;
use model::name::{PARTITION_KEY, ROW_KEY};
use model::record::DamagedRecord;
use model::{EdmType, EntityKey, RecordBuilder};

/// Appends an entity with its keys. All types that JSON does not distinguish are annotated, including doubles: a server
/// reads the same type whether a double is written as `5` or as `5.0`.
pub fn write_entity_request(
    out: &mut Vec<u8>,
    key: &EntityKey,
    properties: &RecordBuilder,
) -> Result<(), DamagedRecord> {
    out.push(b'{');
    for (name, text) in [(PARTITION_KEY, &key.partition), (ROW_KEY, &key.row)] {
        write_json_string(out, name);
        out.push(b':');
        write_json_string(out, text.as_str());
        out.push(b',');
    }
    for property in properties.properties() {
        let property = property?;
        let is_plain = matches!(property.edm_type(), EdmType::String | EdmType::Boolean | EdmType::Int32);
        write_name_and_type(out, &property, !is_plain)?;
        write_value(out, &property)?;
        out.push(b',');
    }
    close_object(out);
    Ok(())
}

/// Writes the body of Create Table.
pub fn write_table_request(out: &mut Vec<u8>, table: &str) {
    out.extend_from_slice(b"{\"TableName\":");
    write_json_string(out, table);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity_body::KeyLocation;
    use crate::json::read_entity;
    use model::{DateTime, EdmValue, EntityLimits, Guid, KeyText};

    #[test]
    fn what_is_written_reads_back_in_every_type() {
        let key = EntityKey { partition: KeyText::new("a'b%c \u{1F600}\"").unwrap(), row: KeyText::new("").unwrap() };
        let mut properties = RecordBuilder::default();
        for (name, value) in [
            ("Text", EdmValue::String("line\r\n\"quoted\" \u{0}\u{1F600}")),
            ("Binary", EdmValue::Binary(&[0, 255, 7])),
            ("Yes", EdmValue::Boolean(true)),
            ("When", EdmValue::DateTime(DateTime::parse("2031-04-01T06:30:00.1234567Z").unwrap())),
            ("Whole", EdmValue::Double(5.0)),
            ("Part", EdmValue::Double(1.797_693_134_862_315e308)),
            ("Least", EdmValue::Double(5e-324)),
            ("Endless", EdmValue::Double(f64::NEG_INFINITY)),
            ("Id", EdmValue::Guid(Guid::from_bytes([0xA5; 16]))),
            ("Small", EdmValue::Int32(i32::MIN)),
            ("Large", EdmValue::Int64(i64::MIN)),
        ] {
            properties.push(name, value);
        }
        let mut body = Vec::new();
        write_entity_request(&mut body, &key, &properties).unwrap();
        let read = read_entity(&body, KeyLocation::Body, &EntityLimits::STORAGE).unwrap();
        assert_eq!((read.partition.as_ref(), read.row.as_ref()), (Some(&key.partition), Some(&key.row)));
        assert_eq!(read.properties, properties, "{}", String::from_utf8_lossy(&body));
        assert!(String::from_utf8(body).unwrap().contains("\"Whole@odata.type\":\"Edm.Double\",\"Whole\":5.0"));
    }

    #[test]
    fn an_entity_of_keys_alone_and_a_table() {
        let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
        let mut body = Vec::new();
        write_entity_request(&mut body, &key, &RecordBuilder::default()).unwrap();
        assert_eq!(body, b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}");
        body.clear();
        write_table_request(&mut body, "Harvest");
        assert_eq!(body, b"{\"TableName\":\"Harvest\"}");
    }
}
