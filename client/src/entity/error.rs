//! Errors in converting between values and entities.
//!
//! This module must not depend on requests or responses.

use model::EdmType;
use model::key::KeyError;
use std::borrow::Cow;
use std::fmt;

/// The reason why an entity cannot be encoded or decoded. Every error identifies the property or the key.
///
/// ```
/// use rowhouse_client::entity::{EdmType, EntityError, PropertyBag};
///
/// let bag = PropertyBag::new("Berlin", "0042")?.with("Visits", 5_i64)?;
/// let error = bag.get::<String>("Visits").unwrap_err();
/// assert!(matches!(error, EntityError::Type { expected: EdmType::String, found: EdmType::Int64, .. }));
/// assert_eq!(error.to_string(), "property 'Visits': expected Edm.String, found Edm.Int64");
/// # Ok::<(), EntityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntityError {
    /// The property is missing or null.
    Missing {
        /// The name of the property.
        property: Box<str>,
        /// The type that the field requires.
        expected: EdmType,
    },
    /// The property has a different type than the field.
    Type {
        /// The name of the property.
        property: Box<str>,
        /// The type that the field requires.
        expected: EdmType,
        /// The type of the property.
        found: EdmType,
    },
    /// The value is not valid for the Rust type, or has no encoded form.
    Value {
        /// The name of the property.
        property: Box<str>,
        /// The reason.
        reason: Cow<'static, str>,
    },
    /// The string is not a property name: it is empty, too long, not an identifier, or the name of a system property.
    PropertyName {
        /// The string.
        property: Box<str>,
    },
    /// The value is larger than 64 KiB: a string has more than 32,768 UTF-16 code units, or binary data has more than
    /// 65,536 bytes.
    TooLarge {
        /// The name of the property.
        property: Box<str>,
    },
    /// The entity would have more than 252 custom properties.
    TooManyProperties,
    /// Two values have the same name: a property in `rest`, or the `tag`, has the name of a property that the type
    /// declares.
    Duplicate {
        /// The name of the property.
        property: Box<str>,
    },
    /// The string is not allowed as a key.
    Key {
        /// The affected key.
        key: KeyName,
        /// The string.
        text: Box<str>,
        /// The rule that it breaks.
        error: KeyError,
    },
    /// The value cannot be part of a key in the format that the type requires.
    KeyPart {
        /// The affected key.
        key: KeyName,
        /// The name of the field.
        field: &'static str,
        /// The reason.
        reason: Cow<'static, str>,
    },
    /// The key does not have the format that the type requires.
    KeyForm {
        /// The affected key.
        key: KeyName,
        /// The value of the key.
        text: Box<str>,
        /// The mismatch.
        reason: Cow<'static, str>,
    },
    /// An expression of the filter language has an unbalanced quote or parenthesis.
    FilterText {
        /// The expression.
        text: Box<str>,
    },
    /// No variant of the enum has this kind.
    UnknownKind {
        /// The property that contains the kind.
        tag: Box<str>,
        /// The kind; `None` if that property is missing or not a string.
        kind: Option<Box<str>>,
    },
}

/// One of the two keys of an entity.
///
/// ```
/// assert_eq!(rowhouse_client::entity::KeyName::Row.to_string(), "RowKey");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyName {
    /// `PartitionKey`
    Partition,
    /// `RowKey`
    Row,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Partition => model::name::PARTITION_KEY,
            Self::Row => model::name::ROW_KEY,
        })
    }
}

impl EntityError {
    /// Adds the name of the property to the error of a value.
    ///
    /// ```
    /// use rowhouse_client::entity::{EntityError, ValueError};
    ///
    /// let error = EntityError::of_value("Color", ValueError::invalid("it is not a color"));
    /// assert_eq!(error.to_string(), "property 'Color': it is not a color");
    /// ```
    pub fn of_value(property: &str, error: ValueError) -> Self {
        let property = Box::from(property);
        match error {
            ValueError::Type { expected, found } => Self::Type { property, expected, found },
            ValueError::Invalid(reason) => Self::Value { property, reason },
        }
    }
}

impl fmt::Display for EntityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { property, expected } => {
                write!(f, "property '{property}': expected {}, found nothing", expected.name())
            }
            Self::Type { property, expected, found } => {
                write!(f, "property '{property}': expected {}, found {}", expected.name(), found.name())
            }
            Self::Value { property, reason } => write!(f, "property '{property}': {reason}"),
            Self::PropertyName { property } => write!(f, "'{property}' is not the name of a custom property"),
            Self::TooLarge { property } => write!(f, "property '{property}': the value is larger than 64 KiB"),
            Self::TooManyProperties => f.write_str("the entity has more than 252 custom properties"),
            Self::Duplicate { property } => write!(f, "property '{property}': the name occurs twice"),
            Self::Key { key, text, error } => write!(f, "'{text}' cannot be the {key}: {error}"),
            Self::KeyPart { key, field, reason } => {
                write!(f, "the field '{field}' cannot be written to the {key}: {reason}")
            }
            Self::KeyForm { key, text, reason } => {
                write!(f, "the {key} '{text}' does not have the format that the type requires: {reason}")
            }
            Self::FilterText { text } => {
                write!(f, "the condition '{text}' has an unbalanced quote or parenthesis")
            }
            Self::UnknownKind { tag, kind: Some(kind) } => {
                write!(f, "property '{tag}': the kind '{kind}' is unknown")
            }
            Self::UnknownKind { tag, kind: None } => write!(f, "property '{tag}': expected a kind, found none"),
        }
    }
}

// There is no source, because the message contains the cause.
impl std::error::Error for EntityError {}

/// The reason why a value is not valid for a Rust type, or has no encoded form. [`EntityError`] adds the name of the
/// property.
///
/// ```
/// use rowhouse_client::entity::{EdmType, EdmValue, PropertyValue, ValueError};
///
/// let error = bool::from_value(EdmValue::Int32(1)).unwrap_err();
/// assert_eq!(error, ValueError::Type { expected: EdmType::Boolean, found: EdmType::Int32 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The value has a different type.
    Type {
        /// The required type.
        expected: EdmType,
        /// The type of the value.
        found: EdmType,
    },
    /// The value has the right type but is invalid. The message gives the reason as a sentence without a final period.
    Invalid(Cow<'static, str>),
}

impl ValueError {
    /// Creates an error with this reason.
    ///
    /// ```
    /// let error = rowhouse_client::entity::ValueError::invalid("it is negative");
    /// assert_eq!(error.to_string(), "it is negative");
    /// ```
    pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(reason.into())
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { expected, found } => write!(f, "expected {}, found {}", expected.name(), found.name()),
            Self::Invalid(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ValueError {}
