//! What a property can be compared with.
//!
//! The implementations are hidden from the compiler's suggestions, because the message of each trait names the types.
//!
//! This module must not know how a filter is built.

use crate::entity::{DateTime, EncodedValue, Guid, PropertyValue, ValueError};
use bytes::Bytes;
use model::EdmValue;
use model::filter::Literal;
use std::sync::Arc;
use std::time::SystemTime;

/// What stands for a value of the type `T` on the right side of a comparison: a value of that type, a reference to it, or
/// what is exactly one in another type. A property of the type `i64` is compared with `i32`, too, one of the type `f64` with
/// `i32`, a `String` with `&str`, bytes with slices and arrays, a `DateTime` with the other types of instants.
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
    message = "a property of the type `{T}` cannot be compared with `{Self}`",
    note = "compare it with a value of the type `{T}`, with a reference to one, or with a literal of that type"
)]
pub trait Operand<T> {
    /// Encodes the operand, to a value of the EDM type of `T`.
    fn encode(&self) -> Result<EncodedValue<'_>, ValueError>;
}

/// A type of values that a filter can compare by order: all except `bool`.
///
/// A program's own type implements it if its encoded values order as it does:
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
    note = "use `eq`, `ne` or, for bool, `is_true`; implement `OrderedValue` for a type of your own"
)]
pub trait OrderedValue: PropertyValue {}

/// A type of values that are texts, which filters can compare with a prefix.
///
/// A program's own type implements it if it is encoded as a string.
///
/// ```
/// # use rowhouse_client::entity::{Entity, PropertyBag};
/// let filter = PropertyBag::PROPERTIES.property::<String>("Name").starts_with("Ad");
/// assert_eq!(filter.to_string(), "Name ge 'Ad' and Name lt 'Ae'");
/// ```
#[diagnostic::on_unimplemented(message = "values of `{Self}` are not texts, so they have no prefix")]
pub trait TextValue: OrderedValue {}

macro_rules! impl_markers {
    ($marker:ident for $($rust:ty),*) => {
        $(#[diagnostic::do_not_recommend]
        impl $marker for $rust {})*
    };
}

impl_markers!(OrderedValue for i32, i64, f64, String, Box<str>, Arc<str>, Vec<u8>, Bytes, Guid, DateTime, SystemTime);
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

/// Instants and identifiers of all types are compared with each other.
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

/// The literal of a value.
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
