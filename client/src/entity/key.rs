//! Rust types that can be key parts, and their formats.
//!
//! Invariant: a format parses only strings that it writes, and returns the value that was written.
//!
//! The implementations are hidden from the compiler's suggestions, because the message of each trait lists the types.
//!
//! This module must not know how keys are composed.

use crate::entity::error::{EntityError, KeyName, ValueError};
use model::{DateTime, EntityKey, Guid, KeyText};
use std::fmt::Write;

/// A Rust type whose values are keys or parts of keys: `String`, integers, [`Guid`], [`DateTime`], and the other
/// instant and identifier types that are [property values](crate::entity::PropertyValue).
///
/// In the plain format, a string is written unchanged, an integer in decimal digits, and a Guid hyphenated in lower
/// case. An instant is written as `2026-01-02T03:04:05.0000000Z`, always with seven fractional digits, so that strings
/// sort like instants.
///
/// Implement this trait for your own type by delegating to one of these types:
///
/// ```
/// use rowhouse_client::entity::{KeyValue, ValueError};
///
/// struct CustomerNumber(u32);
///
/// impl KeyValue for CustomerNumber {
///     fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
///         self.0.write_key(out)
///     }
///
///     fn read_key(text: &str) -> Result<Self, ValueError> {
///         u32::read_key(text).map(Self)
///     }
/// }
///
/// let mut text = String::new();
/// CustomerNumber(42).write_key(&mut text)?;
/// assert_eq!(text, "42");
/// # Ok::<(), ValueError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    note = "key types are String, integers, Guid, DateTime, SystemTime and types of the crate's features",
    note = "implement `KeyValue` for `{Self}`"
)]
pub trait KeyValue: Sized {
    /// Appends the value's string. Fails if the value has none.
    fn write_key(&self, out: &mut String) -> Result<(), ValueError>;

    /// Parses the string. Fails if [`write_key`](Self::write_key) would not write this string.
    fn read_key(text: &str) -> Result<Self, ValueError>;
}

/// A type of key parts whose plain strings sort like the values, so that filters can compare their order: strings,
/// Guids and instants. The order of integers can be compared only in the formats [`Padded`] and [`Inverted`], because
/// the string `10` sorts before the string `9`.
///
/// ```
/// use rowhouse_client::entity::{KeyValue, TextOrderedKeyValue, ValueError};
///
/// struct Country(String);
///
/// impl KeyValue for Country {
///     fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
///         self.0.write_key(out)
///     }
///
///     fn read_key(text: &str) -> Result<Self, ValueError> {
///         String::read_key(text).map(Self)
///     }
/// }
///
/// impl TextOrderedKeyValue for Country {}
/// # let mut text = String::new();
/// # Country("DE".to_owned()).write_key(&mut text)?;
/// # assert_eq!(Country::read_key(&text)?.0, "DE");
/// # Ok::<(), ValueError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "plain key strings of `{Self}` do not sort like its values",
    note = "give the key field `padded = N` or `inverted`, or compare it with `eq` and `ne` only"
)]
pub trait TextOrderedKeyValue: KeyValue {}

/// A type of numeric key parts: integers, and instants as ticks of 100 ns since the year 1. They can be zero-padded and
/// inverted.
///
/// ```
/// use rowhouse_client::entity::{DateTime, KeyNumber};
///
/// assert_eq!(7_i32.to_number(), Ok(7));
/// assert!((-7_i32).to_number().is_err());
/// assert_eq!(DateTime::MAX.to_number(), Ok(DateTime::MAX.ticks() as u64 + 504_911_232_000_000_000));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be padded or inverted in a key",
    note = "the formats `padded` and `inverted` are for integers and instants"
)]
pub trait KeyNumber: KeyValue {
    /// The greatest number, from which [`Inverted`] subtracts. Its number of digits is the width of the inverted
    /// string.
    const MAX: u64;

    /// Returns the number. Fails if it is negative.
    fn to_number(&self) -> Result<u64, ValueError>;

    /// Returns the value for a number. Fails if the number is too large.
    fn from_number(number: u64) -> Result<Self, ValueError>;
}

/// The format of a key part: [`Plain`], [`Padded`] or [`Inverted`].
///
/// ```
/// use rowhouse_client::entity::{Inverted, KeyFormat, Padded, Plain};
///
/// let mut text = String::new();
/// <Plain as KeyFormat<u32>>::write(&42, &mut text)?;
/// <Padded<4> as KeyFormat<u32>>::write(&42, &mut text)?;
/// <Inverted as KeyFormat<u32>>::write(&42, &mut text)?;
/// assert_eq!(text, "4200424294967253");
/// # Ok::<(), rowhouse_client::entity::ValueError>(())
/// ```
pub trait KeyFormat<T> {
    /// The width of every string, in ASCII characters; `None` if the width varies.
    const WIDTH: Option<usize>;

    /// Appends the value's string. Fails if the value has none in this format.
    fn write(value: &T, out: &mut String) -> Result<(), ValueError>;

    /// Parses the string. Fails if it does not have this format.
    fn read(text: &str) -> Result<T, ValueError>;
}

/// A format whose strings sort like the values, or in exactly the opposite order.
///
/// ```
/// use rowhouse_client::entity::{Inverted, OrderedKeyFormat, Padded};
///
/// assert!(!<Padded<8> as OrderedKeyFormat<u32>>::IS_REVERSED);
/// assert!(<Inverted as OrderedKeyFormat<u32>>::IS_REVERSED);
/// ```
pub trait OrderedKeyFormat<T>: KeyFormat<T> {
    /// True if the strings sort in the opposite order of the values.
    const IS_REVERSED: bool;
}

/// The plain form of a value; see [`KeyValue`].
///
/// ```
/// # use rowhouse_client::entity::{KeyFormat, Plain};
/// assert_eq!(<Plain as KeyFormat<i64>>::read("-5"), Ok(-5));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Plain;

/// A number with leading zeros: exactly this many digits, so that strings sort like numbers. A number that is negative
/// or has more digits is an error.
///
/// ```
/// # use rowhouse_client::entity::{KeyFormat, Padded};
/// assert_eq!(<Padded<4> as KeyFormat<u32>>::read("0042"), Ok(42));
/// assert!(<Padded<4> as KeyFormat<u32>>::write(&12_345, &mut String::new()).is_err());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Padded<const DIGITS: usize>;

/// A number subtracted from the maximum of its type, with as many digits as that maximum. The greatest number, or the
/// latest instant, sorts first. A negative number is an error.
///
/// An instant is written in the same way as `DateTime.MaxValue.Ticks - instant.Ticks` in the .NET format `D19`, the
/// usual key of the log tail pattern.
///
/// ```
/// # use rowhouse_client::entity::{DateTime, Inverted, KeyFormat};
/// let mut text = String::new();
/// <Inverted as KeyFormat<DateTime>>::write(&DateTime::parse("2026-01-02T03:04:05Z").unwrap(), &mut text)?;
/// assert_eq!(text, "2516349777549999999");
/// # Ok::<(), rowhouse_client::entity::ValueError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Inverted;

impl<T: KeyValue> KeyFormat<T> for Plain {
    const WIDTH: Option<usize> = None;

    fn write(value: &T, out: &mut String) -> Result<(), ValueError> {
        value.write_key(out)
    }

    fn read(text: &str) -> Result<T, ValueError> {
        T::read_key(text)
    }
}

impl<T: TextOrderedKeyValue> OrderedKeyFormat<T> for Plain {
    const IS_REVERSED: bool = false;
}

impl<T: KeyNumber, const DIGITS: usize> KeyFormat<T> for Padded<DIGITS> {
    const WIDTH: Option<usize> = Some(DIGITS);

    fn write(value: &T, out: &mut String) -> Result<(), ValueError> {
        let number = value.to_number()?;
        if digits(number) > DIGITS {
            return Err(ValueError::invalid(format!("{number} has more than {DIGITS} digits")));
        }
        push_digits(out, number, DIGITS);
        Ok(())
    }

    fn read(text: &str) -> Result<T, ValueError> {
        T::from_number(read_digits(text, DIGITS)?)
    }
}

impl<T: KeyNumber, const DIGITS: usize> OrderedKeyFormat<T> for Padded<DIGITS> {
    const IS_REVERSED: bool = false;
}

impl<T: KeyNumber> KeyFormat<T> for Inverted {
    const WIDTH: Option<usize> = Some(digits(T::MAX));

    fn write(value: &T, out: &mut String) -> Result<(), ValueError> {
        let number = value.to_number()?;
        let inverted = T::MAX.checked_sub(number);
        push_digits(out, inverted.ok_or_else(|| above(number, T::MAX))?, digits(T::MAX));
        Ok(())
    }

    fn read(text: &str) -> Result<T, ValueError> {
        let inverted = read_digits(text, digits(T::MAX))?;
        T::from_number(T::MAX.checked_sub(inverted).ok_or_else(|| above(inverted, T::MAX))?)
    }
}

impl<T: KeyNumber> OrderedKeyFormat<T> for Inverted {
    const IS_REVERSED: bool = true;
}

fn above(number: u64, max: u64) -> ValueError {
    ValueError::invalid(format!("{number} is more than {max}"))
}

const fn digits(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(logarithm) => logarithm as usize + 1,
        None => 1,
    }
}

fn push_digits(out: &mut String, number: u64, width: usize) {
    write!(out, "{number:0width$}").expect("writing to a String cannot fail");
}

fn read_digits(text: &str, width: usize) -> Result<u64, ValueError> {
    let number = text.parse().ok().filter(|_| text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit()));
    number.ok_or_else(|| ValueError::invalid(format!("'{text}' is not a number of {width} digits")))
}

#[diagnostic::do_not_recommend]
impl KeyValue for String {
    fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
        out.push_str(self);
        Ok(())
    }

    fn read_key(text: &str) -> Result<Self, ValueError> {
        Ok(text.to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl TextOrderedKeyValue for String {}

macro_rules! integers {
    ($($rust:ty),*) => {
        $(#[diagnostic::do_not_recommend]
        impl KeyValue for $rust {
            fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
                write!(out, "{self}").expect("writing to a String cannot fail");
                Ok(())
            }

            fn read_key(text: &str) -> Result<Self, ValueError> {
                let number: Option<Self> = text.parse().ok();
                // Reject signs and leading zeros that would not be written.
                let number = number.filter(|number| number.to_string() == text);
                number.ok_or_else(|| ValueError::invalid(format!("'{text}' is not a valid {}", stringify!($rust))))
            }
        }

        #[diagnostic::do_not_recommend]
        impl KeyNumber for $rust {
            #[expect(clippy::allow_attributes, reason = "one macro for signed and unsigned types")]
            #[allow(clippy::cast_lossless, clippy::cast_sign_loss, reason = "the maximum is not negative")]
            const MAX: u64 = <$rust>::MAX as u64;

            fn to_number(&self) -> Result<u64, ValueError> {
                u64::try_from(*self).map_err(|_| ValueError::invalid(format!("{self} is negative")))
            }

            fn from_number(number: u64) -> Result<Self, ValueError> {
                Self::try_from(number).map_err(|_| above(number, <Self as KeyNumber>::MAX))
            }
        })*
    };
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

#[diagnostic::do_not_recommend]
impl KeyValue for Guid {
    fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
        write!(out, "{self}").expect("writing to a String cannot fail");
        Ok(())
    }

    fn read_key(text: &str) -> Result<Self, ValueError> {
        let guid = Self::parse(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()));
        guid.ok_or_else(|| ValueError::invalid(format!("'{text}' is not a lower-case Guid")))
    }
}

#[diagnostic::do_not_recommend]
impl TextOrderedKeyValue for Guid {}

#[diagnostic::do_not_recommend]
impl KeyValue for DateTime {
    fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
        let mut text = Vec::new();
        self.write_seven_digits_to(&mut text);
        out.push_str(&String::from_utf8_lossy(&text));
        Ok(())
    }

    fn read_key(text: &str) -> Result<Self, ValueError> {
        let mut written = String::new();
        let instant = Self::parse(text).ok().filter(|instant| instant.write_key(&mut written).is_ok());
        instant
            .filter(|_| written == text)
            .ok_or_else(|| ValueError::invalid(format!("'{text}' is not an instant with seven fractional digits")))
    }
}

#[diagnostic::do_not_recommend]
impl TextOrderedKeyValue for DateTime {}

/// The number of ticks of 100 ns from the year 1 to 1601.
const TICKS_TO_1601: u64 = 504_911_232_000_000_000;

#[diagnostic::do_not_recommend]
impl KeyNumber for DateTime {
    /// 9999-12-31T23:59:59.9999999Z, in ticks of 100 ns since the year 1.
    const MAX: u64 = 3_155_378_975_999_999_999;

    fn to_number(&self) -> Result<u64, ValueError> {
        // Ticks are never negative.
        Ok(self.ticks().unsigned_abs() + TICKS_TO_1601)
    }

    fn from_number(number: u64) -> Result<Self, ValueError> {
        let ticks = number.checked_sub(TICKS_TO_1601).and_then(|ticks| i64::try_from(ticks).ok());
        let instant = ticks.and_then(Self::from_ticks);
        instant.ok_or(ValueError::invalid("the instant is outside the years 1601 to 9999"))
    }
}

/// A value of a key part, as accepted by filters and by a type's `key_of`: the value itself, a reference to it, or a
/// `&str` for a `String`.
///
/// ```
/// use rowhouse_client::entity::{KeyOperand, Padded, Plain};
///
/// let mut text = String::new();
/// KeyOperand::<String>::write_as::<Plain>(&"Berlin", &mut text)?;
/// KeyOperand::<u32>::write_as::<Padded<4>>(&42, &mut text)?;
/// assert_eq!(text, "Berlin0042");
/// # Ok::<(), rowhouse_client::entity::ValueError>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be used as a key part of type `{T}`")]
pub trait KeyOperand<T> {
    /// Appends the value's string in the format `F`.
    fn write_as<F: KeyFormat<T>>(&self, out: &mut String) -> Result<(), ValueError>;
}

#[diagnostic::do_not_recommend]
impl<T> KeyOperand<T> for T {
    fn write_as<F: KeyFormat<T>>(&self, out: &mut String) -> Result<(), ValueError> {
        F::write(self, out)
    }
}

#[diagnostic::do_not_recommend]
impl<T> KeyOperand<T> for &T {
    fn write_as<F: KeyFormat<T>>(&self, out: &mut String) -> Result<(), ValueError> {
        F::write(self, out)
    }
}

#[diagnostic::do_not_recommend]
impl KeyOperand<String> for &str {
    fn write_as<F: KeyFormat<String>>(&self, out: &mut String) -> Result<(), ValueError> {
        F::write(&(*self).to_owned(), out)
    }
}

/// Creates a key from two strings.
pub fn key(partition: &str, row: &str) -> Result<EntityKey, EntityError> {
    let text =
        |key, text: &str| KeyText::new(text).map_err(|error| EntityError::Key { key, text: Box::from(text), error });
    Ok(EntityKey { partition: text(KeyName::Partition, partition)?, row: text(KeyName::Row, row)? })
}
