//! The slot of a server, which determines the stamps that the server may issue (`leases`).

use engine::parts::stamp::Lead;
use model::{Clock, DateTime};
use std::fmt;
use std::sync::Arc;

/// The maximum number of servers. A slot's number is in the low bits of its stamps.
pub(crate) const SLOTS: i16 = 64;
pub(crate) const PURGE_LEASE: i16 = SLOTS;
/// The lease of the server that builds and removes indexes.
pub(crate) const INDEX_LEASE: i16 = SLOTS + 1;
/// The lease of the server that decodes the change log. Its row exists if there is a log.
pub(crate) const CHANGES_LEASE: i16 = SLOTS + 2;
/// The lease of the server that balances the load of the nodes. Its row exists on a Citus cluster.
pub const BALANCE_LEASE: i16 = SLOTS + 3;

/// An error: all slots belong to other servers.
#[derive(Debug)]
pub(crate) struct NoSlot;

impl fmt::Display for NoSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 servers already use this database; a server that crashes keeps its slot for half a minute")
    }
}

impl std::error::Error for NoSlot {}

#[derive(Debug)]
pub(crate) struct Slot {
    clock: Arc<dyn Clock>,
    /// The number of the slot, if this server holds one.
    pub(crate) number: Option<i16>,
    pub(crate) last: i64,
    pub(crate) reserved: i64,
    lead: Lead,
}

impl Slot {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, number: None, last: 0, reserved: 0, lead: Lead::default() }
    }

    pub(crate) fn now(&self) -> DateTime {
        self.clock.now()
    }

    /// Returns the earliest possible stamp: the current time, or the instant after both the last stamp and `above`.
    pub(crate) fn earliest(&self, above: i64) -> i64 {
        self.earliest_at(self.now(), above)
    }

    fn earliest_at(&self, now: DateTime, above: i64) -> i64 {
        now.ticks().max(self.last + 1).max(above + 1)
    }

    /// Takes the slot of another server, which only tests may do.
    #[cfg(test)]
    pub(crate) fn imitate(&mut self, other: &Slot) {
        (self.number, self.last, self.reserved) = (other.number, other.last, other.reserved);
    }

    /// Returns the next stamp if it is reserved.
    pub(crate) fn next(&mut self, above: i64) -> Option<DateTime> {
        let number = i64::from(self.number?);
        let now = self.now();
        if let Some(last) = DateTime::from_ticks(self.last) {
            self.lead.observe(last, now);
        }
        let earliest = self.earliest_at(now, above);
        let stamp = earliest + (number - earliest).rem_euclid(i64::from(SLOTS));
        if stamp >= self.reserved {
            return None;
        }
        self.last = stamp;
        DateTime::from_ticks(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_contract::support::ManualClock;

    #[test]
    fn stamps_grow_have_the_number_of_the_slot_and_stay_below_what_is_reserved() {
        let clock = ManualClock::at(1000);
        let mut slot = Slot::new(Arc::new(clock.clone()));
        assert_eq!(slot.next(0), None, "no slot is held");
        (slot.number, slot.reserved) = (Some(5), 1300);
        let mut next = |above| slot.next(above).map(DateTime::ticks);
        assert_eq!(next(0), Some(1029));
        assert_eq!(next(0), Some(1093), "the clock stands still");
        assert_eq!(next(1157), Some(1221), "after a Timestamp that was found");
        assert_eq!(next(1156), Some(1285));
        assert_eq!(next(0), None, "no more is reserved");
        clock.set(10);
        slot.reserved = 2000;
        assert_eq!(slot.next(0).map(DateTime::ticks), Some(1349), "the clock moved backwards");
        clock.set(1600);
        assert_eq!(slot.next(0).map(DateTime::ticks), Some(1605));
    }
}
