//! The properties of untyped entities.
//!
//! This module must not know how queries run.

use super::{KeyProperty, Property, timestamp};
use crate::entity::{DateTime, Entity, EntityError, EntityKey, KeyName, Plain, PropertyBag, PropertyField};

/// The properties of untyped entities, for filters and projections: the system properties are fields, and
/// [`property`](Self::property) returns any other property.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
///
/// let p = PropertyBag::PROPERTIES;
/// let filter = p.partition_key.eq("Berlin") & p.property::<i64>("Visits").gt(5);
/// assert_eq!(filter.to_string(), "PartitionKey eq 'Berlin' and Visits gt 5L");
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct BagProperties {
    /// The partition key.
    pub partition_key: KeyProperty<PropertyBag, String, Plain>,
    /// The row key.
    pub row_key: KeyProperty<PropertyBag, String, Plain>,
    /// The time of the last write.
    pub timestamp: Property<PropertyBag, DateTime>,
}

impl BagProperties {
    /// Returns a custom property by name and type. With an invalid name, the query fails before it is sent.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let name = format!("Visits{}", 2026);
    /// let filter = PropertyBag::PROPERTIES.property::<i32>(name).le(3);
    /// assert_eq!(filter.to_string(), "Visits2026 le 3");
    /// ```
    pub fn property<T: PropertyField>(&self, name: impl Into<String>) -> Property<PropertyBag, T, String> {
        Property::named(name.into(), PropertyBag::get)
    }
}

impl Entity for PropertyBag {
    type Properties = BagProperties;

    const PROPERTIES: BagProperties = BagProperties {
        partition_key: KeyProperty::new(KeyName::Partition),
        row_key: KeyProperty::new(KeyName::Row),
        timestamp: timestamp(),
    };

    const SELECT: Option<&'static [&'static str]> = None;

    fn key(&self) -> Result<EntityKey, EntityError> {
        Ok(self.key.clone())
    }

    fn to_bag(&self) -> Result<PropertyBag, EntityError> {
        Ok(self.clone())
    }

    fn from_bag(bag: PropertyBag) -> Result<Self, EntityError> {
        Ok(bag)
    }
}
