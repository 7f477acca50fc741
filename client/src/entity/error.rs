//! Why a value is not an entity of a type, or an entity not a value.
//!
//! This module must not know requests or responses.

use model::EdmType;
use model::key::KeyError;
use std::borrow::Cow;
use std::fmt;

/// Why an entity cannot be encoded or decoded. Every error names the property or the key.
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
    /// The entity does not have a property, or it is null.
    Missing {
        /// The property.
        property: Box<str>,
        /// The type that the field wants.
        expected: EdmType,
    },
    /// A property has another type than the field.
    Type {
        /// The property.
        property: Box<str>,
        /// The type that the field wants.
        expected: EdmType,
        /// The type that the property has.
        found: EdmType,
    },
    /// A value is not one of the Rust type, or has no encoded form.
    Value {
        /// The property.
        property: Box<str>,
        /// Why.
        reason: Cow<'static, str>,
    },
    /// A text is not the name of a property: it is empty, too long, not an identifier, or the name of a system property.
    PropertyName {
        /// The text.
        property: Box<str>,
    },
    /// A value is larger than 64 KiB: a string of more than 32,768 UTF-16 code units, or more than 65,536 bytes.
    TooLarge {
        /// The property.
        property: Box<str>,
    },
    /// The entity would have more than 252 custom properties.
    TooManyProperties,
    /// Two values are named alike: a property of the type is among those of its `rest`, or its `tag` is.
    Duplicate {
        /// The property.
        property: Box<str>,
    },
    /// The text of a key is not allowed.
    Key {
        /// Which key.
        key: KeyName,
        /// The text.
        text: Box<str>,
        /// The rule that it breaks.
        error: KeyError,
    },
    /// A value cannot be a part of a key in the format that the type demands.
    KeyPart {
        /// Which key.
        key: KeyName,
        /// The field.
        field: &'static str,
        /// Why.
        reason: Cow<'static, str>,
    },
    /// The text of a key does not have the form that the type demands.
    KeyForm {
        /// Which key.
        key: KeyName,
        /// The text.
        text: Box<str>,
        /// What does not fit.
        reason: Cow<'static, str>,
    },
    /// A text of the filter language has a quote or a parenthesis without its counterpart.
    FilterText {
        /// The text.
        text: Box<str>,
    },
    /// No variant of the enum is of this kind.
    UnknownKind {
        /// The property that names the kind.
        tag: Box<str>,
        /// The kind; `None` if the entity does not have that property, or not as a string.
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
    /// The error of a value, which does not know the property that it is of.
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
            Self::Duplicate { property } => write!(f, "property '{property}': there are two of this name"),
            Self::Key { key, text, error } => write!(f, "'{text}' cannot be the {key}: {error}"),
            Self::KeyPart { key, field, reason } => {
                write!(f, "the field '{field}' cannot be written to the {key}: {reason}")
            }
            Self::KeyForm { key, text, reason } => {
                write!(f, "the {key} '{text}' does not have the form of the type: {reason}")
            }
            Self::FilterText { text } => {
                write!(f, "the condition '{text}' has a quote or a parenthesis without its counterpart")
            }
            Self::UnknownKind { tag, kind: Some(kind) } => {
                write!(f, "property '{tag}': the kind '{kind}' is not known")
            }
            Self::UnknownKind { tag, kind: None } => write!(f, "property '{tag}': expected a kind, found none"),
        }
    }
}

impl std::error::Error for EntityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Key { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why a value is not one of a Rust type, or has no encoded form. It does not name the property; [`EntityError`] does.
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
    /// It has another type.
    Type {
        /// The type that is wanted.
        expected: EdmType,
        /// The type that it has.
        found: EdmType,
    },
    /// It has the type, but not a value that fits. The text says why, in the form of a sentence without its period.
    Invalid(Cow<'static, str>),
}

impl ValueError {
    /// The value does not fit, for this reason.
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
