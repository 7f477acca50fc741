//! An entity as described by a request body, whatever the format of the body.
//!
//! This module must not depend on JSON or Atom.

use crate::error::{ErrorCode, ServiceError};
use crate::version::Version;
use model::key::KeyError;
use model::name::{PropertyNameError, check_property_name_with_dashes, check_property_name_within};
use model::{EdmType, EntityLimits, KeyText, RecordBuilder};

/// The source of an entity's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// The body, which must contain both keys.
    Body,
    /// The URL. Keys in the body are ignored, even if they differ (01 §3).
    Address,
    /// The URL, and the body may repeat them (11 §6).
    Both,
}

impl KeyLocation {
    /// Checks the declared type of a key in the body (01 §3). Keys are strings. If the URL contains the keys, the
    /// service accepts any type that JSON represents as a string.
    pub(crate) fn check_key_type(self, declared: EdmType) -> Result<(), BodyError> {
        match declared {
            EdmType::String => Ok(()),
            EdmType::Binary | EdmType::DateTime | EdmType::Guid | EdmType::Int64 if self == Self::Address => Ok(()),
            _ => Err(BodyError::KeyNotText),
        }
    }

    /// Parses a key in the body unless the URL determines it. UNVERIFIED (01 §3): a key that is ignored need not be
    /// valid.
    pub(crate) fn read(self, name: &str, text: Option<&str>) -> Result<Option<KeyText>, BodyError> {
        text.filter(|_| self != Self::Address).map(|text| key(name, text)).transpose()
    }
}

/// An entity as described by a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityBody {
    /// The partition key; `None` if only the URL determines it.
    pub partition: Option<KeyText>,
    /// The row key; `None` if only the URL determines it.
    pub row: Option<KeyText>,
    /// The custom properties, except those that are null.
    pub properties: RecordBuilder,
}

/// An entity as returned by a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntity {
    /// The keys and custom properties.
    pub body: EntityBody,
    /// The time of the last write, if present.
    pub timestamp: Option<model::DateTime>,
    /// The `ETag`, if present.
    pub etag: Option<Box<str>>,
}

/// The reason why a body is not a valid entity. The variants are in the order of the checks (06 §6, step 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    /// The body does not have the expected format, or a value does not fit its type.
    Malformed,
    /// A key is missing or null.
    KeyMissing,
    /// A key is not a string, or it is declared with a different type.
    KeyNotText,
    /// There are many more properties than an entity can have, so they were not parsed.
    TooManyProperties,
    /// A property name is longer than allowed.
    PropertyNameTooLong,
    /// A property name is not an identifier.
    PropertyNameInvalid,
    /// A key contains a forbidden character, or a date is before 1601. Contains the name and the value that the message
    /// quotes.
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

fn key(name: &str, text: &str) -> Result<KeyText, BodyError> {
    KeyText::new(text).map_err(|error| match error {
        KeyError::TooLong => BodyError::KeyTooLong,
        KeyError::Slash | KeyError::ForbiddenCharacter => BodyError::OutOfRange(name.to_owned(), text.to_owned()),
    })
}

/// Checks the name of a custom property by the rules of a version.
pub(crate) fn check_name(name: &str, version: Version, limits: &EntityLimits) -> Result<(), BodyError> {
    let has_dashes = version < Version::OLDEST;
    let check = if has_dashes { check_property_name_with_dashes } else { check_property_name_within };
    check(name, limits.name_units_max).map_err(|error| match error {
        PropertyNameError::TooLong => BodyError::PropertyNameTooLong,
        PropertyNameError::Invalid => BodyError::PropertyNameInvalid,
    })
}

/// Parses a finite double in decimal digits and keeps the sign of zero. The names of the other doubles differ between
/// formats.
pub(crate) fn finite_double(text: &str) -> Option<f64> {
    let is_numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|value: &f64| is_numeric && value.is_finite())
}

/// Parses a date. It may be earlier than the earliest date that the service accepts, which is a separate error.
pub(crate) fn datetime(name: &str, text: &str) -> Result<model::DateTime, BodyError> {
    use model::datetime::DateTimeError;
    model::DateTime::parse_value(text).map_err(|error| match error {
        DateTimeError::Malformed => BodyError::Malformed,
        DateTimeError::OutOfRange(quoted) => BodyError::OutOfRange(name.to_owned(), quoted),
    })
}
