//! An entity: its key and its record, either owned or borrowed from an engine's storage.
//!
//! This module must not know where entities are stored.

use crate::key::{EntityKey, KeyView};
use crate::record::{DamagedRecord, Record, RecordView};

/// An entity that owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// The key in its table.
    pub key: EntityKey,
    /// Timestamp and custom properties.
    pub record: Record,
}

/// A borrowed view of an entity, which is read in place.
#[derive(Debug, Clone)]
pub struct EntityView<'a> {
    /// The partition key and the row key.
    pub key: KeyView<'a>,
    /// Timestamp and custom properties.
    pub record: RecordView<'a>,
}

impl<'a> EntityView<'a> {
    /// Creates a view of an entity from its key bytes inside the table (see [`EntityKey::encode`]) and its record
    /// bytes.
    pub fn new(key: &'a [u8], record: &'a [u8]) -> Result<Self, DamagedRecord> {
        Ok(Self { key: KeyView::decode(key).ok_or(DamagedRecord)?, record: RecordView::new(record)? })
    }

    /// Returns a view of an entity that owns its data.
    pub fn from_parts(key: &'a EntityKey, record: &'a Record) -> Result<Self, DamagedRecord> {
        let key = KeyView { partition: key.partition.as_str().into(), row: key.row.as_str().into() };
        Ok(Self { key, record: record.view()? })
    }
}

/// An entity as an engine stores it. The key is decoded only if it is needed, because a scan refuses most entities
/// for their properties.
#[derive(Debug, Clone)]
pub struct StoredEntity<'a> {
    key: StoredKey<'a>,
    record: RecordView<'a>,
}

#[derive(Debug, Clone)]
enum StoredKey<'a> {
    Encoded(&'a [u8]),
    Decoded(KeyView<'a>),
}

impl<'a> StoredEntity<'a> {
    /// Creates the entity from its key bytes inside the table (see [`EntityKey::encode`]) and its record bytes.
    #[inline]
    pub fn new(key: &'a [u8], record: &'a [u8]) -> Result<Self, DamagedRecord> {
        Ok(Self { key: StoredKey::Encoded(key), record: RecordView::new(record)? })
    }

    /// Returns the Timestamp and the custom properties.
    pub fn record(&self) -> RecordView<'a> {
        self.record
    }

    /// Returns the keys.
    pub fn key(&mut self) -> Result<&KeyView<'a>, DamagedRecord> {
        if let StoredKey::Encoded(bytes) = self.key {
            self.key = StoredKey::Decoded(KeyView::decode(bytes).ok_or(DamagedRecord)?);
        }
        match &self.key {
            StoredKey::Decoded(key) => Ok(key),
            StoredKey::Encoded(_) => Err(DamagedRecord),
        }
    }

    /// Returns the entity with decoded keys.
    pub fn into_view(self) -> Result<EntityView<'a>, DamagedRecord> {
        let key = match self.key {
            StoredKey::Encoded(bytes) => KeyView::decode(bytes).ok_or(DamagedRecord)?,
            StoredKey::Decoded(key) => key,
        };
        Ok(EntityView { key, record: self.record })
    }
}

impl<'a> From<EntityView<'a>> for StoredEntity<'a> {
    fn from(EntityView { key, record }: EntityView<'a>) -> Self {
        Self { key: StoredKey::Decoded(key), record }
    }
}
