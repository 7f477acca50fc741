//! Conversions of instants and identifiers of the standard library and of other crates.
//!
//! Invariant: an instant is encoded as the tick of 100 ns that contains it. An instant outside the years 1601 to 9999
//! is an error.
//!
//! This module must not depend on entity types.

use super::error::ValueError;
use super::key::{KeyNumber, KeyValue, TextOrderedKeyValue};
use super::value::{EncodedValue, PropertyValue};
use model::{DateTime, EdmType, EdmValue};
use std::time::{Duration, SystemTime};

const NANOSECONDS_PER_TICK: i128 = 100;

/// Returns the tick that contains an instant. Nanoseconds count from 1970 and may be negative.
fn from_unix_nanoseconds(nanoseconds: i128) -> Result<DateTime, ValueError> {
    let epoch = DateTime::from_system_time(SystemTime::UNIX_EPOCH).ticks();
    let ticks = nanoseconds.div_euclid(NANOSECONDS_PER_TICK) + i128::from(epoch);
    let instant = i64::try_from(ticks).ok().and_then(DateTime::from_ticks);
    instant.ok_or(ValueError::invalid("the instant is outside the years 1601 to 9999"))
}

fn unix_nanoseconds(instant: DateTime) -> i128 {
    let epoch = DateTime::from_system_time(SystemTime::UNIX_EPOCH).ticks();
    i128::from(instant.ticks() - epoch) * NANOSECONDS_PER_TICK
}

/// Implements property values and key parts for another crate's type of instants, given its conversions.
macro_rules! instant {
    ($rust:ty, $to_nanoseconds:expr, $from_nanoseconds:expr) => {
        #[diagnostic::do_not_recommend]
        impl PropertyValue for $rust {
            const EDM_TYPE: EdmType = EdmType::DateTime;

            fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
                from_unix_nanoseconds($to_nanoseconds(self)).map(EncodedValue::from)
            }

            fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
                let nanoseconds = unix_nanoseconds(DateTime::from_value(value)?);
                $from_nanoseconds(nanoseconds)
                    .ok_or(ValueError::invalid("the instant is outside the range of the Rust type"))
            }
        }

        #[diagnostic::do_not_recommend]
        impl KeyValue for $rust {
            fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
                from_unix_nanoseconds($to_nanoseconds(self))?.write_key(out)
            }

            fn read_key(text: &str) -> Result<Self, ValueError> {
                Self::from_value(EdmValue::DateTime(DateTime::read_key(text)?))
            }
        }

        #[diagnostic::do_not_recommend]
        impl TextOrderedKeyValue for $rust {}

        #[diagnostic::do_not_recommend]
        impl KeyNumber for $rust {
            const MAX: u64 = <DateTime as KeyNumber>::MAX;

            fn to_number(&self) -> Result<u64, ValueError> {
                from_unix_nanoseconds($to_nanoseconds(self))?.to_number()
            }

            fn from_number(number: u64) -> Result<Self, ValueError> {
                Self::from_value(EdmValue::DateTime(DateTime::from_number(number)?))
            }
        }
    };
}

fn system_time_to_nanoseconds(time: &SystemTime) -> i128 {
    // No duration of the standard library reaches 2^127 nanoseconds.
    let signed = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => signed(after),
        Err(before) => -signed(before.duration()),
    }
}

fn system_time_from_nanoseconds(nanoseconds: i128) -> Option<SystemTime> {
    from_unix_nanoseconds(nanoseconds).ok().map(DateTime::to_system_time)
}

instant!(SystemTime, system_time_to_nanoseconds, system_time_from_nanoseconds);

#[cfg(feature = "time")]
instant!(time::OffsetDateTime, |instant: &time::OffsetDateTime| instant.unix_timestamp_nanos(), |nanoseconds| {
    time::OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()
});

#[cfg(feature = "jiff")]
instant!(jiff::Timestamp, |instant: &jiff::Timestamp| instant.as_nanosecond(), |nanoseconds| {
    jiff::Timestamp::from_nanosecond(nanoseconds).ok()
});

#[cfg(feature = "chrono")]
instant!(
    chrono::DateTime<chrono::Utc>,
    |instant: &chrono::DateTime<chrono::Utc>| {
        // In chrono, the nanoseconds of a leap second exceed 10⁹, so it becomes part of the next second.
        i128::from(instant.timestamp()) * 1_000_000_000 + i128::from(instant.timestamp_subsec_nanos())
    },
    |nanoseconds: i128| {
        let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
        let rest = u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?;
        chrono::DateTime::from_timestamp(seconds, rest)
    }
);

#[cfg(feature = "uuid")]
mod uuid {
    //! Identifiers of the crate `uuid`.

    use super::{EdmType, EdmValue, EncodedValue, KeyValue, PropertyValue, TextOrderedKeyValue, ValueError};
    use model::Guid;

    #[diagnostic::do_not_recommend]
    impl PropertyValue for uuid::Uuid {
        const EDM_TYPE: EdmType = EdmType::Guid;

        fn to_value(&self) -> Result<EncodedValue<'_>, ValueError> {
            Ok(Guid::from_bytes(*self.as_bytes()).into())
        }

        fn from_value(value: EdmValue<'_>) -> Result<Self, ValueError> {
            Guid::from_value(value).map(|guid| Self::from_bytes(*guid.as_bytes()))
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyValue for uuid::Uuid {
        fn write_key(&self, out: &mut String) -> Result<(), ValueError> {
            Guid::from_bytes(*self.as_bytes()).write_key(out)
        }

        fn read_key(text: &str) -> Result<Self, ValueError> {
            Guid::read_key(text).map(|guid| Self::from_bytes(*guid.as_bytes()))
        }
    }

    #[diagnostic::do_not_recommend]
    impl TextOrderedKeyValue for uuid::Uuid {}
}
