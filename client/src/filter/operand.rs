//! Values with which a property can be compared.
//!
//! The implementations are hidden from the compiler's suggestions, because the message of each trait lists the types.
//!
//! This module must not know how filters are built.

use crate::entity::{DateTime, EncodedValue, Guid, PropertyValue, ValueError};
use bytes::Bytes;
use model::EdmValue;
use model::filter::Literal;
use std::sync::Arc;
use std::time::SystemTime;

/// A value on the right side of a comparison with a property of type `T`: a `T`, a reference to it, or a value of a
/// type that converts to `T` exactly. An `i64` or `f64` property can be compared with an `i32`, a `String` with a
/// `&str`, bytes with slices and arrays, and a `DateTime` with the other instant types.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
///
/// let p = PropertyBag::PROPERTIES;
/// let name = String::from("Ada");
/// assert_eq!(p.property::<String>("Name").eq(&name), p.property::<String>("Name").eq("Ada"));
/// assert_eq!(p.property::<f64>("Score").lt(5).to_string(), "Score lt 5.0");
/// ```
#[diagnostic::on_unimplemented(
    message = "a property of type `{T}` cannot be compared with `{Self}`",
    note = "compare it with a value of type `{T}`, a reference to one, or a literal of that type"
)]
pub trait Operand<T> {
    /// Encodes the operand as a value of the EDM type of `T`.
    fn encode(&self) -> Result<EncodedValue<'_>, ValueError>;
}

/// A type whose values a filter can compare by order: all types except `bool`.
///
/// Implement this trait for your own type if the encoded values sort like the values themselves:
///
/// ```
/// use rowhouse_client::entity::{EdmType, EdmValue, EncodedValue, PropertyValue, ValueError};
/// use rowhouse_client::filter::{Operand, OrderedValue};
///
/// struct Cents(i64);
///
/// impl PropertyValue for Cents {
///     const EDM_TYPE: EdmType = EdmType::Int64;
///
///     fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
///         self.0.to_value()
///     }
///
///     fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
///         i64::from_value(value).map(Self)
///     }
/// }
///
/// impl OrderedValue for Cents {}
/// # use rowhouse_client::entity::{Entity, PropertyBag};
/// # assert_eq!(PropertyBag::PROPERTIES.property::<Cents>("Price").lt(Cents(5)).to_string(), "Price lt 5L");
/// ```
#[diagnostic::on_unimplemented(
    message = "filters cannot compare values of `{Self}` by order",
    note = "use `eq`, `ne` or, for bool, `is_true`; implement `OrderedValue` for your own type"
)]
pub trait OrderedValue: PropertyValue {}

/// A type whose values are strings, in which filters can look for a prefix, a suffix or another part.
///
/// Implement this trait for your own type if the type is encoded as a string.
///
/// ```
/// # use rowhouse_client::entity::{Entity, PropertyBag};
/// let filter = PropertyBag::PROPERTIES.property::<String>("Name").starts_with("Ad");
/// assert_eq!(filter.to_string(), "Name ge 'Ad' and Name lt 'Ae'");
/// ```
#[diagnostic::on_unimplemented(message = "values of `{Self}` are not strings, so they have no prefix")]
pub trait TextValue: OrderedValue {}

macro_rules! impl_markers {
    ($marker:ident for $($rust:ty),*) => {
        $(#[diagnostic::do_not_recommend]
        impl $marker for $rust {})*
    };
}

impl_markers!(OrderedValue for i8, i16, i32, i64, u8, u16, u32, f32, f64, String, Box<str>, Arc<str>, Vec<u8>, Bytes, Guid, DateTime, SystemTime);
impl_markers!(TextValue for String, Box<str>, Arc<str>);

#[cfg(feature = "uuid")]
#[diagnostic::do_not_recommend]
impl OrderedValue for uuid::Uuid {}
#[cfg(feature = "time")]
#[diagnostic::do_not_recommend]
impl OrderedValue for time::OffsetDateTime {}
#[cfg(feature = "chrono")]
#[diagnostic::do_not_recommend]
impl OrderedValue for chrono::DateTime<chrono::Utc> {}
#[cfg(feature = "jiff")]
#[diagnostic::do_not_recommend]
impl OrderedValue for jiff::Timestamp {}

#[diagnostic::do_not_recommend]
impl<T: PropertyValue> Operand<T> for T {
    fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
        self.to_value()
    }
}

#[diagnostic::do_not_recommend]
impl<T: PropertyValue> Operand<T> for &T {
    fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
        self.to_value()
    }
}

macro_rules! numbers {
    ($($operand:ty => $rust:ty),*) => {
        $(#[diagnostic::do_not_recommend]
        impl Operand<$rust> for $operand {
            fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
                Ok(<$rust>::from(*self).into())
            }
        })*
    };
}

numbers!(i32 => i64, i32 => f64);

macro_rules! slices {
    ($($operand:ty => $($rust:ty),*);*) => {
        $($(#[diagnostic::do_not_recommend]
        impl Operand<$rust> for &$operand {
            fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
                let slice: &$operand = self;
                Ok(slice.into())
            }
        })*)*
    };
}

slices!(str => String, Box<str>, Arc<str>; [u8] => Vec<u8>, Bytes);

macro_rules! arrays {
    ($($rust:ty),*) => {
        $(#[diagnostic::do_not_recommend]
        impl<const N: usize> Operand<$rust> for &[u8; N] {
            fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
                Ok(self.as_slice().into())
            }
        })*
    };
}

arrays!(Vec<u8>, Bytes);

/// Makes a type comparable with its counterpart in this crate, in both directions.
macro_rules! conversions {
    ($($other:ty => $own:ty),* $(,)?) => {
        $(
            #[diagnostic::do_not_recommend]
            impl Operand<$own> for $other {
                fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
                    self.to_value()
                }
            }

            #[diagnostic::do_not_recommend]
            impl Operand<$other> for $own {
                fn encode(&self) -> Result<EncodedValue<'_>, ValueError> {
                    self.to_value()
                }
            }
        )*
    };
}

conversions!(SystemTime => DateTime);
#[cfg(feature = "uuid")]
conversions!(uuid::Uuid => Guid);
#[cfg(feature = "time")]
conversions!(time::OffsetDateTime => DateTime);
#[cfg(feature = "chrono")]
conversions!(chrono::DateTime<chrono::Utc> => DateTime);
#[cfg(feature = "jiff")]
conversions!(jiff::Timestamp => DateTime);

pub(super) fn literal(value: &EncodedValue<'_>) -> Literal {
    match value.as_edm() {
        EdmValue::String(text) => Literal::String(Box::from(text)),
        EdmValue::Binary(bytes) => Literal::Binary(Box::from(bytes)),
        EdmValue::Boolean(value) => Literal::Boolean(value),
        EdmValue::DateTime(value) => Literal::DateTime(value),
        EdmValue::Double(value) => Literal::Double(value),
        EdmValue::Guid(value) => Literal::Guid(value),
        EdmValue::Int32(value) => Literal::Int32(value),
        EdmValue::Int64(value) => Literal::Int64(value),
    }
}
