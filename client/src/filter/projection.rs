//! Projections: properties whose values a query returns instead of entities.
//!
//! This module must not know how queries run.

use crate::entity::{
    DateTime, Entity, EntityError, EntityKey, KeyFormat, KeyName, Plain, PropertyBag, PropertyField, read_key,
};
use crate::filter::{KeyProperty, OpaqueProperty, Property, timestamp};
use model::name::{PARTITION_KEY, ROW_KEY};

/// The selection of a query: a property of the type `E`, or a tuple of up to eight projections.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
/// use rowhouse_client::filter::Projection;
///
/// let p = PropertyBag::PROPERTIES;
/// let projection = (p.row_key, p.property::<Option<i64>>("Visits"));
/// assert_eq!(projection.names(), ["RowKey", "Visits"]);
///
/// let bag = PropertyBag::new("Berlin", "0042")?.with("Visits", 5_i64)?;
/// assert_eq!(projection.read(&bag)?, ("0042".to_owned(), Some(5)));
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a projection of `{E}`")]
pub trait Projection<E> {
    /// The result for one entity: the type of the field, or a tuple of such types.
    type Output;

    /// Returns the names of the properties, for `$select`.
    fn names(&self) -> Vec<String>;

    /// Reads the values from an entity. Fails if a field cannot be read.
    fn read(&self, bag: &PropertyBag) -> Result<Self::Output, EntityError>;
}

impl<E, T, N: AsRef<str>> Projection<E> for Property<E, T, N> {
    type Output = T;

    fn names(&self) -> Vec<String> {
        vec![self.name().to_owned()]
    }

    fn read(&self, bag: &PropertyBag) -> Result<T, EntityError> {
        Property::read(self, bag)
    }
}

impl<E, T> Projection<E> for OpaqueProperty<E, T> {
    type Output = T;

    fn names(&self) -> Vec<String> {
        self.as_property().names()
    }

    fn read(&self, bag: &PropertyBag) -> Result<T, EntityError> {
        self.as_property().read(bag)
    }
}

impl<E, T, F: KeyFormat<T>> Projection<E> for KeyProperty<E, T, F> {
    type Output = T;

    fn names(&self) -> Vec<String> {
        vec![
            match self.key() {
                KeyName::Partition => PARTITION_KEY,
                KeyName::Row => ROW_KEY,
            }
            .to_owned(),
        ]
    }

    fn read(&self, bag: &PropertyBag) -> Result<T, EntityError> {
        read_key::<T, F>(&bag.key, self.key())
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt),+;)*) => {
        $(impl<E, $($name: Projection<E>),+> Projection<E> for ($($name,)+) {
            type Output = ($($name::Output,)+);

            fn names(&self) -> Vec<String> {
                let mut names = Vec::new();
                $(names.extend(self.$index.names());)+
                names
            }

            fn read(&self, bag: &PropertyBag) -> Result<Self::Output, EntityError> {
                Ok(($(self.$index.read(bag)?,)+))
            }
        })*
    };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, F 4;
    A 0, B 1, C 2, D 3, F 4, G 5;
    A 0, B 1, C 2, D 3, F 4, G 5, H 6;
    A 0, B 1, C 2, D 3, F 4, G 5, H 6, I 7;
}

// The properties of untyped entities.
//
// This module must not know how queries run.

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
