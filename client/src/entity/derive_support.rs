//! What the code of the derive macro calls. It is no part of the interface of the crate.

use super::{DateTime, EntityError};
use crate::filter::Property;
use model::EdmType;
use model::name::TIMESTAMP;

pub use super::template::{KeyReader, KeyWriter};

/// The property with the instant of the last write.
pub const fn timestamp<E>() -> Property<E, DateTime> {
    Property::named(TIMESTAMP, |bag, name| {
        let missing = || EntityError::Missing { property: Box::from(name), expected: EdmType::DateTime };
        bag.timestamp.ok_or_else(missing)
    })
}
