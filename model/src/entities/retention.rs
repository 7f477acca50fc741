//! The retention of a table: how long an entity exists after its last write, or after a time that it names itself.
//!
//! An expired entity stays stored until it is deleted, but does not exist for clients. [`Expiry`] decides this wherever
//! an engine reads an entity.
//!
//! Invariants:
//!
//! 1. A retention by age lasts at least one second, so that an entity exists after it was written.
//! 2. The property of a retention has a valid name, and none of the names of the system properties.

use crate::DateTime;
use crate::edm::EdmValue;
use crate::limits::RETENTION_SECONDS_MAX;
use crate::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use crate::record::RecordView;

/// How long the entities of a table exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    property: Option<Box<str>>,
    seconds: u32,
}

impl Retention {
    /// Returns the retention by age: an entity expires after this time without a write. Returns `None` if the time is
    /// zero or too long.
    pub fn by_age(seconds: u32) -> Option<Self> {
        (1..=RETENTION_SECONDS_MAX).contains(&seconds).then_some(Self { property: None, seconds })
    }

    /// Returns the retention by a property: an entity expires this time after the point in time in the property.
    /// Returns `None` if no custom property can have the name, or if the time is too long.
    pub fn by_property(property: &str, seconds: u32) -> Option<Self> {
        let is_custom =
            check_property_name(property).is_ok() && ![PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&property);
        (is_custom && seconds <= RETENTION_SECONDS_MAX).then(|| Self { property: Some(Box::from(property)), seconds })
    }

    /// Returns the name of the property whose value the time is added to, or `None` if it is the Timestamp.
    pub fn property(&self) -> Option<&str> {
        self.property.as_deref()
    }

    /// Returns the time between the value of the property and the expiry of the entity, in seconds.
    pub fn seconds(&self) -> u32 {
        self.seconds
    }

    /// Returns the time from which an entity does not exist, or `None` if it never expires. An entity without the
    /// property, or with a value of a different type in it, never expires, nor does one whose record is damaged.
    fn expiry(&self, record: RecordView<'_>) -> Option<DateTime> {
        let start = match &self.property {
            None => record.timestamp(),
            Some(name) => match record.get(name) {
                Ok(Some(EdmValue::DateTime(start))) => start,
                _ => return None,
            },
        };
        start.plus_seconds(self.seconds)
    }
}

/// Which entities of a table an operation sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Visibility {
    /// The entities that exist for clients.
    #[default]
    Live,
    /// The entities that have expired but are still stored.
    Expired,
}

/// Decides which entities an operation sees. One operation uses one time.
#[derive(Debug, Clone)]
pub struct Expiry {
    retention: Option<Retention>,
    now: DateTime,
    visible: Visibility,
}

impl Expiry {
    /// Every entity is visible.
    pub const NEVER: Self = Self { retention: None, now: DateTime::MIN, visible: Visibility::Live };

    /// Creates the decision for a table. Without a retention, the time is irrelevant.
    pub fn new(retention: Option<&Retention>, visible: Visibility, now: DateTime) -> Self {
        Self { retention: retention.cloned(), now, visible }
    }

    /// Returns the time from which an entity does not exist, or `None` if it never expires.
    pub fn of(&self, record: RecordView<'_>) -> Option<DateTime> {
        self.retention.as_ref()?.expiry(record)
    }

    /// Returns whether stored entities may be invisible.
    pub fn may_hide(&self) -> bool {
        self.retention.is_some() || self.visible == Visibility::Expired
    }

    /// Returns whether the operation sees an entity that expires at the given time.
    pub fn shows(&self, expiry: Option<DateTime>) -> bool {
        let is_expired = expiry.is_some_and(|expiry| expiry <= self.now);
        is_expired == (self.visible == Visibility::Expired)
    }

    /// Returns whether the operation sees an entity.
    pub fn sees(&self, record: RecordView<'_>) -> bool {
        self.shows(self.of(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordBuilder;

    const STAMP: DateTime = DateTime::MIN;

    fn expiry(retention: Option<Retention>, value: EdmValue<'_>) -> Option<i64> {
        let mut properties = RecordBuilder::default();
        properties.push("Other", EdmValue::DateTime(DateTime::MAX));
        properties.push("Ends", value);
        let record = properties.finish(STAMP);
        Some(retention.unwrap().expiry(record.view().unwrap())?.ticks())
    }

    #[test]
    fn the_expiry_follows_the_timestamp_or_the_property() {
        let at = |ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap());
        assert_eq!(expiry(Retention::by_age(2), at(5)), Some(STAMP.ticks() + 20_000_000));
        assert_eq!(expiry(Retention::by_property("Ends", 2), at(5)), Some(20_000_005));
        assert_eq!(expiry(Retention::by_property("Ends", 0), at(5)), Some(5));
        assert_eq!(expiry(Retention::by_property("Ends", 0), EdmValue::Int64(5)), None, "a different type");
        assert_eq!(expiry(Retention::by_property("ends", 0), at(5)), None, "a different name");
        assert_eq!(expiry(Retention::by_property("Ends", 1), EdmValue::DateTime(DateTime::MAX)), None, "no such time");
    }

    #[test]
    fn an_entity_is_either_live_or_expired() {
        let record = RecordBuilder::default().finish(STAMP);
        let view = record.view().unwrap();
        let retention = Retention::by_age(2);
        for (now, is_live) in [(0, true), (19_999_999, true), (20_000_000, false), (30_000_000, false)] {
            let now = DateTime::from_ticks(now).unwrap();
            let sees = |visible| Expiry::new(retention.as_ref(), visible, now).sees(view);
            assert_eq!((sees(Visibility::Live), sees(Visibility::Expired)), (is_live, !is_live), "{now:?}");
        }
        let sees = |visible| Expiry::new(None, visible, DateTime::MAX).sees(view);
        assert_eq!((sees(Visibility::Live), sees(Visibility::Expired)), (true, false), "no retention");
        assert!(Expiry::NEVER.sees(view));
    }

    #[test]
    fn limits() {
        assert!(Retention::by_age(0).is_none() && Retention::by_age(1).is_some());
        assert!(Retention::by_age(RETENTION_SECONDS_MAX).is_some());
        assert!(Retention::by_age(RETENTION_SECONDS_MAX + 1).is_none());
        assert!(Retention::by_property("Ends", RETENTION_SECONDS_MAX + 1).is_none());
        for name in ["", "a b", "Timestamp", "RowKey"] {
            assert!(Retention::by_property(name, 1).is_none(), "{name}");
        }
    }
}
