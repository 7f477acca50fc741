//! A record that is computed for one response, for entities that are not stored.
//!
//! Unlike a stored record, it can have more properties than a client may store, and longer names. Its buffer is reused
//! for the next entity.

use crate::DateTime;
use crate::edm::EdmValue;
use crate::record::{Property, RecordView, push_length, push_value};

/// The properties of an entity that is computed.
#[derive(Debug, Clone, Default)]
pub struct ComputedRecord {
    properties: Vec<u8>,
    count: u16,
}

impl ComputedRecord {
    /// Removes all properties.
    pub fn clear(&mut self) {
        self.properties.clear();
        self.count = 0;
    }

    /// Appends a property. The caller must ensure that the name is not yet present.
    pub fn push(&mut self, name: &str, value: EdmValue<'_>) {
        self.count += 1;
        push_length(&mut self.properties, name.len());
        self.properties.extend_from_slice(name.as_bytes());
        self.properties.push(value.edm_type() as u8);
        push_value(&mut self.properties, value);
    }

    /// Appends a stored property under its name with a prefix. The name and the value are not validated.
    pub fn push_with_prefix(&mut self, prefix: &str, property: &Property<'_>) {
        self.count += 1;
        push_length(&mut self.properties, prefix.len() + property.name_bytes().len());
        self.properties.extend_from_slice(prefix.as_bytes());
        self.properties.extend_from_slice(property.name_bytes());
        self.properties.push(property.edm_type() as u8);
        property.push_value_to(&mut self.properties);
    }

    /// Returns a view with the given Timestamp.
    pub fn view(&self, timestamp: DateTime) -> RecordView<'_> {
        RecordView::from_parts(timestamp, self.count, &self.properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordBuilder;
    use crate::limits::CUSTOM_PROPERTIES_MAX;

    #[test]
    fn a_property_keeps_its_type_under_another_name() {
        let mut stored = RecordBuilder::default();
        let values = [
            EdmValue::String("text"),
            EdmValue::Binary(&[1, 2]),
            EdmValue::Boolean(true),
            EdmValue::DateTime(DateTime::MAX),
            EdmValue::Double(1.5),
            EdmValue::Int32(-1),
            EdmValue::Int64(i64::MIN),
        ];
        for index in 0..CUSTOM_PROPERTIES_MAX {
            stored.push(&format!("P{index}"), values[index % values.len()]);
        }
        let mut computed = ComputedRecord::default();
        for round in 0..2 {
            computed.clear();
            for index in 0..10 {
                computed.push(&format!("Own{index}"), EdmValue::Int32(round));
            }
            for property in stored.properties() {
                computed.push_with_prefix("Prefix_", &property.unwrap());
            }
        }
        let view = computed.view(DateTime::MIN);
        view.check().unwrap();
        assert_eq!((view.len(), view.timestamp()), (CUSTOM_PROPERTIES_MAX + 10, DateTime::MIN));
        assert_eq!(view.get("Own9"), Ok(Some(EdmValue::Int32(1))));
        for index in 0..CUSTOM_PROPERTIES_MAX {
            assert_eq!(view.get(&format!("Prefix_P{index}")), Ok(Some(values[index % values.len()])), "{index}");
        }
    }
}
