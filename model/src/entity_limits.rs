//! The limits on an entity, which depend on the service whose rules hold (01 §4, §5; 11 §6).
//!
//! Invariant: an entity within any limits is within [`EntityLimits::WIDEST`], and can be stored as a record.
//!
//! This module must not depend on how a request is refused.

use crate::limits::{
    BINARY_BYTES_MAX, COSMOS_ENTITY_BYTES_MAX, COSMOS_PROPERTIES_MAX, COSMOS_PROPERTY_NAME_UTF16_UNITS_MAX,
    CUSTOM_PROPERTIES_MAX, ENTITY_BYTES_MAX, PROPERTY_NAME_UTF16_UNITS_MAX,
};

/// The limits on an entity. A [`crate::RecordBuilder`] has the limits of its request, so that the result of a merge is
/// judged by them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityLimits {
    /// Maximum number of custom properties.
    pub properties_max: usize,
    /// Maximum length of a property name, in UTF-16 code units.
    pub name_units_max: usize,
    /// Maximum size of a single value, in bytes; a UTF-16 code unit of a string counts as two.
    pub value_bytes_max: usize,
    /// Maximum size by the documented formula (01 §5), in bytes.
    pub formula_bytes_max: usize,
    /// Maximum size of the keys and the record as they are stored, in bytes.
    pub stored_bytes_max: usize,
}

impl EntityLimits {
    /// The limits of Azure Table Storage.
    pub const STORAGE: Self = Self {
        properties_max: CUSTOM_PROPERTIES_MAX,
        name_units_max: PROPERTY_NAME_UTF16_UNITS_MAX,
        value_bytes_max: BINARY_BYTES_MAX,
        formula_bytes_max: ENTITY_BYTES_MAX,
        stored_bytes_max: usize::MAX,
    };

    /// The limits of Azure Cosmos DB for Table, which counts bytes of UTF-8, and limits no value separately (11 §6).
    pub const COSMOS: Self = Self {
        properties_max: COSMOS_PROPERTIES_MAX,
        name_units_max: COSMOS_PROPERTY_NAME_UTF16_UNITS_MAX,
        value_bytes_max: usize::MAX,
        formula_bytes_max: usize::MAX,
        stored_bytes_max: COSMOS_ENTITY_BYTES_MAX,
    };

    /// The limits that every stored entity is within. They are for entities that come from a service or a file.
    pub const WIDEST: Self = Self::COSMOS;
}

const _: () = {
    let (narrow, wide) = (EntityLimits::STORAGE, EntityLimits::WIDEST);
    assert!(narrow.properties_max <= wide.properties_max && narrow.name_units_max <= wide.name_units_max);
    assert!(wide.properties_max <= u8::MAX as usize, "a record stores the number in one byte");
    // Two bytes by the formula are at most three bytes of UTF-8. A record is otherwise smaller than the formula says.
    assert!(narrow.formula_bytes_max / 2 * 3 < wide.stored_bytes_max);
};
