//! An upper bound on the encoded size of an entity, available before encoding so that memory can be reserved first.
//!
//! Invariant: the output of [`crate::payload`] for an entity, in any format and at any metadata level, is never longer
//! than the size that [`EntityBounds`] computes. The size includes the response headers that contain the entity's URL.
//! A property test checks the invariant.

use crate::payload::EntityContext;
use crate::select::Select;
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::record::{Properties, Property};
use model::{Dialect, EdmType, EntityKey, EntityView, RecordBuilder};

/// The size, in bytes, below which an entity is not measured. Instead, all its characters are assumed to need the
/// longest escape.
const MEASURED_BYTES_MIN: usize = 768;
/// The longest escape of one byte, in bytes: `\u007f`, `&quot;`.
const ESCAPE_BYTES_MAX: usize = 6;
/// Maximum size of everything that is written for an entity except its keys, names and values, in bytes: the elements
/// of an Atom entry, the headers, the ETag and the Timestamp.
const ENTITY_FRAME_BYTES_MAX: usize = 1536;
/// Maximum size of a property apart from its name and value, in bytes: the quotes, and the annotation or the element.
const PROPERTY_FRAME_BYTES_MAX: usize = 80;
/// Maximum length of a value of fixed size, in bytes: a GUID or a double.
const FIXED_VALUE_BYTES_MAX: usize = 40;
/// Maximum number of times that the URL of an entity or of the service is written: twice in the entity, and once in
/// each of two headers.
const ADDRESSES_MAX: usize = 4;
/// The longest escape of a byte of a key in a URL, in bytes: `%C3`.
const ADDRESS_ESCAPE_BYTES_MAX: usize = 3;

/// An entity to be written.
#[derive(Debug, Clone)]
pub struct UnwrittenEntity<'a> {
    key_bytes: usize,
    properties: Properties<'a>,
    record_bytes: usize,
}

impl<'a> UnwrittenEntity<'a> {
    /// Creates the value for a stored entity.
    pub fn stored(entity: &EntityView<'a>) -> Self {
        Self {
            key_bytes: entity.key.partition.len() + entity.key.row.len(),
            properties: entity.record.properties(),
            record_bytes: entity.record.record_bytes(),
        }
    }

    /// Creates the value for an entity that is not stored yet. Without properties, only the entity's URL is written.
    pub fn unstored(key: &EntityKey, record: Option<&'a RecordBuilder>) -> Self {
        Self {
            key_bytes: key.partition.as_str().len() + key.row.as_str().len(),
            properties: record.map(RecordBuilder::properties).unwrap_or_default(),
            record_bytes: record.map_or(0, RecordBuilder::record_bytes),
        }
    }
}

/// Returns the maximum length of the end of a set, in bytes: `]}`, the end tag of a feed, or the address that one
/// service writes last (11 §4).
pub fn end_bytes_max(context: &EntityContext<'_>) -> usize {
    let address = match context.response.dialect {
        Dialect::Storage => 0,
        Dialect::Cosmos => 48 + ESCAPE_BYTES_MAX * (context.response.base.len() + context.table.len()),
    };
    16 + address
}

/// The size bounds of entities that are written with the same context.
#[derive(Debug, Clone, Copy)]
pub struct EntityBounds {
    /// The size of the parts common to all entities, in bytes.
    frame_bytes: usize,
}

impl EntityBounds {
    /// Returns the bounds for the given context.
    pub fn new(context: &EntityContext<'_>) -> Self {
        let base = context.response.base.len() + context.table.len() + context.response.account.as_str().len();
        let missing = context.select.map_or(0, |select| {
            let names = select.names().iter().map(|name| ESCAPE_BYTES_MAX * name.len() + PROPERTY_FRAME_BYTES_MAX);
            names.sum::<usize>() + ESCAPE_BYTES_MAX * select.metadata_text().len()
        });
        Self { frame_bytes: ENTITY_FRAME_BYTES_MAX + ADDRESSES_MAX * ESCAPE_BYTES_MAX * base + missing }
    }

    /// Returns the maximum encoded size in bytes for any properties and any projection. Unlike
    /// [`Self::measured_bound`], this method takes constant time, but the result far exceeds most actual sizes.
    pub fn upper_bound(self, entity: &UnwrittenEntity<'_>) -> usize {
        let count = entity.properties.size_hint().1.unwrap_or(CUSTOM_PROPERTIES_MAX);
        // A name is written twice.
        self.frame(entity)
            + 2 * ESCAPE_BYTES_MAX * entity.record_bytes
            + count * (PROPERTY_FRAME_BYTES_MAX + FIXED_VALUE_BYTES_MAX)
    }

    /// Returns the maximum encoded size in bytes with the given projection, which must be the same as in the context.
    /// Reads the selected properties, unless the entity is small.
    pub fn measured_bound(self, entity: &UnwrittenEntity<'_>, select: Option<&Select>) -> usize {
        if entity.record_bytes < MEASURED_BYTES_MIN {
            return self.upper_bound(entity);
        }
        self.frame(entity) + property_bytes_max(entity.properties.clone(), select)
    }

    fn frame(self, entity: &UnwrittenEntity<'_>) -> usize {
        self.frame_bytes + (ADDRESSES_MAX * ADDRESS_ESCAPE_BYTES_MAX + ESCAPE_BYTES_MAX) * entity.key_bytes
    }
}

/// Returns the maximum size of the selected properties, measured one by one. A damaged record is not written, so it
/// takes no space.
fn property_bytes_max(properties: Properties<'_>, select: Option<&Select>) -> usize {
    let is_written = |property: &Property<'_>| select.is_none_or(|select| select.has_bytes(property.name_bytes()));
    let property_bytes = |property: Property<'_>| {
        let value = match property.edm_type() {
            EdmType::String => escaped(property.value_bytes()),
            EdmType::Binary => property.value_bytes().len().div_ceil(3) * 4,
            _ => FIXED_VALUE_BYTES_MAX,
        };
        PROPERTY_FRAME_BYTES_MAX + 2 * escaped(property.name_bytes()) + value
    };
    properties.filter_map(Result::ok).filter(is_written).map(property_bytes).sum()
}

/// Returns the maximum length of a text with its escapes, in either format.
fn escaped(text: &[u8]) -> usize {
    // At most 64, so that the bytes of a group are added without a branch and without carries.
    let growing = |group: &[u8]| usize::from(group.iter().fold(0, |sum: u8, b| sum + u8::from(grows(*b))));
    text.len() + (ESCAPE_BYTES_MAX - 1) * text.chunks(64).map(growing).sum::<usize>()
}

/// Whether a byte needs an escape in JSON or in Atom.
fn grows(b: u8) -> bool {
    !(b' '..=b'~').contains(&b) || matches!(b, b'"' | b'\\' | b'<' | b'>' | b'&' | b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::ResponseContext;
    use crate::version::Version;
    use crate::{Format, MetadataLevel};
    use model::{AccountName, DateTime, EdmValue, KeyText};

    /// The texts cover complete and partial groups, and groups in which every byte grows.
    #[test]
    fn every_byte_that_may_be_escaped_counts_six_times() {
        for length in 0..200 {
            assert_eq!(escaped(&vec![b'x'; length]), length);
            assert_eq!(escaped(&vec![b'"'; length]), ESCAPE_BYTES_MAX * length);
        }
        for b in 0..=u8::MAX {
            let is_plain = (b' '..=b'~').contains(&b) && !b"\"\\<>&'".contains(&b);
            assert_eq!(escaped(&[b]), if is_plain { 1 } else { ESCAPE_BYTES_MAX }, "{b}");
        }
    }

    #[test]
    fn properties_that_are_not_selected_do_not_count() {
        let large = "é".repeat(30_000);
        let mut properties = RecordBuilder::default();
        properties.push("large", EdmValue::String(&large));
        properties.push("small", EdmValue::Int32(1));
        let record = properties.finish(DateTime::MIN);
        let text = |text| KeyText::new(text).unwrap();
        let key = EntityKey { partition: text("p"), row: text("r") };
        let view = EntityView::from_parts(&key, &record).unwrap();
        let account = AccountName::new("acct").unwrap();
        let format = Format::Json(MetadataLevel::Full);
        let base = "http://127.0.0.1:10002/acct";
        let response = ResponseContext {
            base,
            account: &account,
            dialect: Dialect::Storage,
            format,
            version: Version::OLDEST,
            now: DateTime::MIN,
        };
        for (list, counts) in [("small", false), ("small,large", true), ("*", true)] {
            let select = Select::parse(list).unwrap();
            let context = EntityContext { response, table: "cars", select: Some(&select) };
            let most = EntityBounds::new(&context).measured_bound(&UnwrittenEntity::stored(&view), Some(&select));
            assert_eq!(most > 60_000, counts, "{list}: {most}");
        }
    }
}
