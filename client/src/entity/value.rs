//! Rust types that can be property values, and their encoding.
//!
//! Invariants:
//!
//! 1. All values of a Rust type have the same EDM type, which can represent each of them.
//! 2. The only conversion on reading is from Int32 to a Rust type whose EDM type is Int64 or Double.
//! 3. A value outside the range of the Rust type is an error, never truncated. Only `f32` rounds.
//!
//! The implementations are hidden from the compiler's suggestions, because the message of each trait lists the types.
//!
//! This module must not depend on entity types.

use super::error::ValueError;
use bytes::Bytes;
use model::{DateTime, EdmType, EdmValue, Guid};
use std::sync::Arc;

/// A Rust type whose values can be property values.
///
/// | Rust type | EDM type | remarks |
/// |---|---|---|
/// | `String`, `Box<str>`, `Arc<str>` | `Edm.String` | at most 32,768 UTF-16 code units |
/// | `Vec<u8>`, `Bytes` | `Edm.Binary` | at most 65,536 bytes |
/// | `bool` | `Edm.Boolean` | |
/// | `i32` | `Edm.Int32` | |
/// | `i8`, `i16`, `u8`, `u16` | `Edm.Int32` | reading checks the range |
/// | `i64` | `Edm.Int64` | also reads `Edm.Int32` |
/// | `u32` | `Edm.Int64` | also reads `Edm.Int32`; reading checks the range |
/// | `f64` | `Edm.Double` | also reads `Edm.Int32` |
/// | `f32` | `Edm.Double` | also reads `Edm.Int32`; reading rounds to the nearest `f32` and checks the range |
/// | [`Guid`] | `Edm.Guid` | |
/// | [`DateTime`] | `Edm.DateTime` | the only type with exactly the service's range |
/// | `SystemTime` | `Edm.DateTime` | 1601 to 9999 |
/// | `uuid::Uuid` | `Edm.Guid` | feature `uuid` |
/// | `time::OffsetDateTime` | `Edm.DateTime` | feature `time`; 1601 to 9999, read in UTC |
/// | `chrono::DateTime<Utc>` | `Edm.DateTime` | feature `chrono`; 1601 to 9999 |
/// | `jiff::Timestamp` | `Edm.DateTime` | feature `jiff`; 1601 to 9999 |
///
/// There is no `u64`, because `Edm.Int64` cannot represent its upper half.
///
/// Instants have a resolution of 100 ns (a tick) and are rounded down to the earlier tick. An instant outside the range
/// is an error.
///
/// Implement this trait for your own type by delegating to one of these types:
///
/// ```
/// use rowhouse_client::entity::{EdmType, EdmValue, EncodedValue, PropertyBag, PropertyValue, ValueError};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Color { Red, Blue }
///
/// impl PropertyValue for Color {
///     const EDM_TYPE: EdmType = EdmType::String;
///
///     fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
///         Ok(match self { Color::Red => "red", Color::Blue => "blue" }.into())
///     }
///
///     fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
///         match String::from_value(value)?.as_str() {
///             "red" => Ok(Color::Red),
///             "blue" => Ok(Color::Blue),
///             other => Err(ValueError::invalid(format!("'{other}' is not a color"))),
///         }
///     }
/// }
///
/// let bag = PropertyBag::new("Berlin", "0042")?.with("Color", Color::Blue)?;
/// assert_eq!(bag.get::<Color>("Color")?, Color::Blue);
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a property value",
    note = "property types are bool, i8 to i64, u8 to u32, f32, f64, String, Vec<u8>, Guid, DateTime, SystemTime, types of the crate's features, and `Option` of them",
    note = "implement `PropertyValue` for `{Self}`, or mark the field with `#[entity(json)]` or `#[entity(skip)]`"
)]
pub trait PropertyValue: Sized {
    /// The EDM type of all values of the Rust type.
    const EDM_TYPE: EdmType;

    /// Encodes a value of the EDM type [`EDM_TYPE`](Self::EDM_TYPE). Fails if the value has no encoded form.
    fn to_value(&self) -> Result<EncodedValue<'_>, ValueError>;

    /// Decodes a value. Fails if it has a different type, or is not valid for this Rust type.
    fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError>;
}

/// An encoded value: borrowed from the Rust value if possible, otherwise owned.
///
/// ```
/// use rowhouse_client::entity::{EdmValue, EncodedValue};
///
/// assert_eq!(EncodedValue::from("text").as_edm(), EdmValue::String("text"));
/// assert_eq!(EncodedValue::from(format!("{}", 1.5)).as_edm(), EdmValue::String("1.5"));
/// assert_eq!(EncodedValue::from(vec![1, 2]).as_edm(), EdmValue::Binary(&[1, 2]));
/// assert_eq!(EncodedValue::from(EdmValue::Int32(7)).as_edm(), EdmValue::Int32(7));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedValue<'a>(Encoded<'a>);

#[derive(Debug, Clone, PartialEq)]
enum Encoded<'a> {
    Borrowed(EdmValue<'a>),
    String(String),
    Binary(Vec<u8>),
}

impl EncodedValue<'_> {
    /// Returns the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{EdmValue, EncodedValue};
    /// assert_eq!(EncodedValue::from(5_i64).as_edm(), EdmValue::Int64(5));
    /// ```
    pub fn as_edm(&self) -> EdmValue<'_> {
        match &self.0 {
            Encoded::Borrowed(value) => *value,
            Encoded::String(text) => EdmValue::String(text),
            Encoded::Binary(bytes) => EdmValue::Binary(bytes),
        }
    }
}

impl<'a> From<EdmValue<'a>> for EncodedValue<'a> {
    fn from(value: EdmValue<'a>) -> Self {
        Self(Encoded::Borrowed(value))
    }
}

impl From<String> for EncodedValue<'_> {
    fn from(text: String) -> Self {
        Self(Encoded::String(text))
    }
}

impl From<Vec<u8>> for EncodedValue<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Encoded::Binary(bytes))
    }
}

macro_rules! encoded_from {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(impl<'a> From<$rust> for EncodedValue<'a> {
            fn from(value: $rust) -> Self {
                EdmValue::$variant(value).into()
            }
        })*
    };
}

encoded_from! {
    &'a str => String,
    &'a [u8] => Binary,
    bool => Boolean,
    DateTime => DateTime,
    f64 => Double,
    Guid => Guid,
    i32 => Int32,
    i64 => Int64,
}

pub(super) fn other_type<T: PropertyValue>(found: EdmValue<'_>) -> ValueError {
    ValueError::Type { expected: T::EDM_TYPE, found: found.edm_type() }
}

macro_rules! copied_values {
    ($($rust:ty => $variant:ident $(or $other:ident)?),* $(,)?) => {
        $(#[diagnostic::do_not_recommend]
        impl PropertyValue for $rust {
            const EDM_TYPE: EdmType = EdmType::$variant;

            fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
                Ok(EncodedValue::from(*self))
            }

            fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
                match value {
                    EdmValue::$variant(value) => Ok(value),
                    $(EdmValue::$other(value) => Ok(Self::from(value)),)?
                    _ => Err(other_type::<Self>(value)),
                }
            }
        })*
    };
}

copied_values! {
    bool => Boolean,
    i32 => Int32,
    i64 => Int64 or Int32,
    f64 => Double or Int32,
    Guid => Guid,
    DateTime => DateTime,
}

macro_rules! narrow_integers {
    ($($rust:ty => $wide:ty),* $(,)?) => {
        $(#[diagnostic::do_not_recommend]
        impl PropertyValue for $rust {
            const EDM_TYPE: EdmType = <$wide>::EDM_TYPE;

            fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
                Ok(<$wide>::from(*self).into())
            }

            fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
                let wide = <$wide>::from_value(value)?;
                Self::try_from(wide).map_err(|_| out_of_range(wide, stringify!($rust)))
            }
        })*
    };
}

narrow_integers! {
    i8 => i32,
    i16 => i32,
    u8 => i32,
    u16 => i32,
    u32 => i64,
}

#[diagnostic::do_not_recommend]
impl PropertyValue for f32 {
    const EDM_TYPE: EdmType = f64::EDM_TYPE;

    fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
        Ok(f64::from(*self).into())
    }

    fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
        let wide = f64::from_value(value)?;
        #[expect(clippy::cast_possible_truncation, reason = "a value that becomes infinite is refused")]
        let narrow = wide as Self;
        if wide.is_finite() && narrow.is_infinite() { Err(out_of_range(wide, "f32")) } else { Ok(narrow) }
    }
}

fn out_of_range(value: impl std::fmt::Display, rust_type: &str) -> ValueError {
    ValueError::invalid(format!("the value {value} is outside the range of {rust_type}"))
}

macro_rules! borrowed_values {
    ($($rust:ty => $variant:ident, $borrow:expr, $own:expr);* $(;)?) => {
        $(#[diagnostic::do_not_recommend]
        impl PropertyValue for $rust {
            const EDM_TYPE: EdmType = EdmType::$variant;

            fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
                Ok(EdmValue::$variant($borrow(self)).into())
            }

            fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
                match value {
                    EdmValue::$variant(value) => Ok($own(value)),
                    _ => Err(other_type::<Self>(value)),
                }
            }
        })*
    };
}

borrowed_values! {
    String => String, String::as_str, str::to_owned;
    Box<str> => String, AsRef::as_ref, Box::from;
    Arc<str> => String, AsRef::as_ref, Arc::from;
    Vec<u8> => Binary, Vec::as_slice, <[u8]>::to_vec;
    Bytes => Binary, AsRef::as_ref, Bytes::copy_from_slice;
}

/// The type of a field: a [`PropertyValue`] for a required property, or an `Option` of one for an optional property.
///
/// Implement only [`PropertyValue`]; both kinds of fields follow from it.
///
/// ```
/// use rowhouse_client::entity::{EdmValue, PropertyField};
///
/// assert_eq!(<Option<i32>>::decode(EdmValue::Int32(7)), Ok(Some(7)));
/// assert_eq!(<Option<i32>>::missing(), Some(None));
/// assert_eq!(i32::missing(), None);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a property value",
    note = "property types are bool, i8 to i64, u8 to u32, f32, f64, String, Vec<u8>, Guid, DateTime, SystemTime, types of the crate's features, and `Option` of them",
    note = "implement `PropertyValue` for `{Self}`, or mark the field with `#[entity(json)]` or `#[entity(skip)]`"
)]
pub trait PropertyField: Sized {
    /// The type of the value, without the `Option`.
    type Value: PropertyValue;

    /// Encodes the field; `None` if the property must not be written.
    fn encode(&self) -> Result<Option<EncodedValue<'_>>, ValueError>;

    /// Decodes a property.
    fn decode(value: EdmValue<'_>) -> Result<Self, ValueError>;

    /// Returns the value of the field for an entity without the property; `None` if the property is required.
    fn missing() -> Option<Self>;
}

impl<T: PropertyValue> PropertyField for T {
    type Value = T;

    fn encode(&self) -> Result<Option<EncodedValue<'_>>, ValueError> {
        self.to_value().map(Some)
    }

    fn decode(value: EdmValue<'_>) -> Result<Self, ValueError> {
        T::from_value(value)
    }

    fn missing() -> Option<Self> {
        None
    }
}

impl<T: PropertyValue> PropertyField for Option<T> {
    type Value = T;

    fn encode(&self) -> Result<Option<EncodedValue<'_>>, ValueError> {
        self.as_ref().map(T::to_value).transpose()
    }

    fn decode(value: EdmValue<'_>) -> Result<Self, ValueError> {
        T::from_value(value).map(Some)
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

/// A value for a property of an untyped entity: any type that a field can have, or a borrowed string or byte slice.
///
/// ```
/// use rowhouse_client::entity::PropertyBag;
///
/// let bag = PropertyBag::new("Berlin", "0042")?.with("Name", "Ada")?.with("Photo", &[0xFF, 0xD8][..])?.with("Visits", 5)?;
/// assert_eq!(bag.get::<String>("Name")?, "Ada");
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
pub trait SetValue {
    /// Encodes the value; `None` removes the property.
    fn encode_value(&self) -> Result<Option<EncodedValue<'_>>, ValueError>;
}

impl<T: PropertyField> SetValue for T {
    fn encode_value(&self) -> Result<Option<EncodedValue<'_>>, ValueError> {
        self.encode()
    }
}

impl SetValue for &str {
    fn encode_value(&self) -> Result<Option<EncodedValue<'_>>, ValueError> {
        Ok(Some(EncodedValue::from(EdmValue::String(self))))
    }
}

impl SetValue for &[u8] {
    fn encode_value(&self) -> Result<Option<EncodedValue<'_>>, ValueError> {
        Ok(Some(EncodedValue::from(EdmValue::Binary(self))))
    }
}
