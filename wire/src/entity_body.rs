//! An entity as the body of a request describes it, in any format.
//!
//! This module must not know JSON or Atom.

use crate::error::{ErrorCode, ServiceError};
use model::key::KeyError;
use model::name::{PropertyNameError, check_property_name};
use model::{EdmType, KeyText, RecordBuilder};

/// Where the keys of an entity are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// In the body, which must have both.
    Body,
    /// In the address; those in the body are ignored, even if they differ (01 §3).
    Address,
}

impl KeyLocation {
    /// Checks the type that a key in the body is declared with (01 §3). A key is a string; where the address has it, the
    /// service takes the text of a key of any type that JSON writes as a string.
    pub(crate) fn check_key_type(self, declared: EdmType) -> Result<(), BodyError> {
        match declared {
            EdmType::String => Ok(()),
            EdmType::Binary | EdmType::DateTime | EdmType::Guid | EdmType::Int64 if self == Self::Address => Ok(()),
            _ => Err(BodyError::KeyNotText),
        }
    }

    /// Reads a key of the body, unless the address decides it.
    ///
    /// UNVERIFIED (01 §3): that a key which does not count may be one that no entity can have.
    pub(crate) fn read(self, name: &str, text: Option<&str>) -> Result<Option<KeyText>, BodyError> {
        text.filter(|_| self == Self::Body).map(|text| key(name, text)).transpose()
    }
}

/// An entity as a request body describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityBody {
    /// The partition key; `None` if the address decides it.
    pub partition: Option<KeyText>,
    /// The row key; `None` if the address decides it.
    pub row: Option<KeyText>,
    /// The custom properties, without those that are null.
    pub properties: RecordBuilder,
}

/// An entity as a service returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntity {
    /// Its keys and custom properties.
    pub body: EntityBody,
    /// The instant of the last write, if the text has it.
    pub timestamp: Option<model::DateTime>,
    /// Its `ETag`, if the text has it.
    pub etag: Option<Box<str>>,
}

/// Why a body is not a valid entity, in the order of the checks (06 §6, step 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    /// It is not a document of the expected format, or a value does not fit its type.
    Malformed,
    /// A key is missing or null.
    KeyMissing,
    /// A key is no string, or is declared with another type.
    KeyNotText,
    /// There are more properties than any entity has, so many that they were not read.
    TooManyProperties,
    /// A property name is longer than 255 characters.
    PropertyNameTooLong,
    /// A property name is not an identifier.
    PropertyNameInvalid,
    /// A key contains a forbidden character, or a date is before 1601: the name and the value that the message quotes.
    OutOfRange(String, String),
    /// A key is longer than 512 characters.
    KeyTooLong,
}

impl From<BodyError> for ServiceError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed => Self::malformed_body(),
            BodyError::KeyMissing => ErrorCode::PropertiesNeedValue.into(),
            BodyError::KeyNotText => ErrorCode::InvalidInput.into(),
            BodyError::TooManyProperties => ErrorCode::TooManyProperties.into(),
            BodyError::PropertyNameTooLong => ErrorCode::PropertyNameTooLong.into(),
            BodyError::PropertyNameInvalid => ErrorCode::PropertyNameInvalid.into(),
            BodyError::OutOfRange(name, value) => Self::out_of_range(&name, &value),
            BodyError::KeyTooLong => ErrorCode::PropertyValueTooLarge.into(),
        }
    }
}

/// Checks the text of a key.
fn key(name: &str, text: &str) -> Result<KeyText, BodyError> {
    KeyText::new(text).map_err(|error| match error {
        KeyError::TooLong => BodyError::KeyTooLong,
        KeyError::Slash | KeyError::ForbiddenCharacter => BodyError::OutOfRange(name.to_owned(), text.to_owned()),
    })
}

/// Checks the name of a property.
pub(crate) fn check_name(name: &str) -> Result<(), BodyError> {
    check_property_name(name).map_err(|error| match error {
        PropertyNameError::TooLong => BodyError::PropertyNameTooLong,
        PropertyNameError::Invalid => BodyError::PropertyNameInvalid,
    })
}

/// A double in digits, with the sign of zero kept; the names of other doubles differ between formats.
pub(crate) fn finite_double(text: &str) -> Option<f64> {
    let is_numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|value: &f64| is_numeric && value.is_finite())
}

/// Reads a date, which may be before the first that the service accepts.
pub(crate) fn datetime(name: &str, text: &str) -> Result<model::DateTime, BodyError> {
    use model::datetime::DateTimeError;
    model::DateTime::parse(text).map_err(|error| match error {
        DateTimeError::Malformed => BodyError::Malformed,
        DateTimeError::OutOfRange(quoted) => BodyError::OutOfRange(name.to_owned(), quoted),
    })
}
