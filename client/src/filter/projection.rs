//! Projections: properties whose values a query returns instead of entities.
//!
//! This module must not know how queries run.

use super::{KeyProperty, OpaqueProperty, Property};
use crate::entity::{EntityError, KeyFormat, KeyName, PropertyBag, read_key};
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
