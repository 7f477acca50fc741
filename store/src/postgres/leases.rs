//! Stamps that no two servers give out, and who purges.
//!
//! A server holds one of [`SLOTS`] slots, a row of `rowhouse_leases`, and the low bits of all its stamps are the number of the
//! slot. In the row it reserves stamps in advance: it gives out none from `reserved` on. Whoever takes the slot over begins
//! there. So the servers that had a slot one after the other never gave out one stamp twice, whatever their clocks say, and
//! even if one that was believed dead still writes: it holds what it reserved, and reserves no more.
//!
//! Invariants:
//!
//! 1. Stamps of one server grow, even if its clock stands still or goes back.
//! 2. A stamp below `reserved` of a slot is given out only by the server that reserved it.
//! 3. Whether a server is believed dead decides only how soon its slot is taken over, by the clock of the database.

use super::attempt::{Trouble, jittered, random_below};
use super::catalog::{column, no_answer, read};
use super::state::PostgresState;
use super::statements;
use crate::engine::Fault;
use model::{Clock, DateTime};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

/// How many servers there are at most. The number of a slot is in the low bits of its stamps.
pub(super) const SLOTS: i16 = 64;
/// The lease of the server that purges.
pub(super) const PURGE_LEASE: i16 = SLOTS;
/// How far in advance stamps are reserved, in ticks of 100 ns: ten seconds.
const RESERVED_TICKS: i64 = 100_000_000;
/// How often a lease is renewed. After half a minute (`statements::TAKE_LEASE`) without it the server is believed dead.
const RENEWAL: Duration = Duration::from_secs(3);
/// How long a change of a lease may take: a node that does not answer must not use up the time for which stamps are reserved.
const LEASE_TIME_MAX: Duration = Duration::from_secs(2);
/// How many leases are tried that cannot be taken because the database fails.
const FAILURES_MAX: usize = 4;
/// How long a request waits for stamps to be reserved.
const RESERVING_TIME_MAX: Duration = Duration::from_secs(4);

/// Other servers have all slots.
#[derive(Debug)]
pub(super) struct NoSlot;

impl fmt::Display for NoSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "64 servers use this database already, and a server that ends without notice counts for half a minute",
        )
    }
}

impl std::error::Error for NoSlot {}

/// The stamps of this server.
#[derive(Debug)]
pub(super) struct Slot<C> {
    clock: C,
    /// The number of the slot, if one is held.
    number: Option<i16>,
    /// The last stamp.
    last: i64,
    /// The end of what is reserved.
    reserved: i64,
}

impl<C: Clock> Slot<C> {
    pub(super) fn new(clock: C) -> Self {
        Self { clock, number: None, last: 0, reserved: 0 }
    }

    /// The first instant that may be a stamp: that of the clock, or after the last stamp and after `above`.
    fn earliest(&self, above: i64) -> i64 {
        self.clock.now().ticks().max(self.last + 1).max(above + 1)
    }

    /// Takes the place of another server, which only a test may do.
    #[cfg(test)]
    pub(super) fn imitate<D>(&mut self, other: &Slot<D>) {
        (self.number, self.last, self.reserved) = (other.number, other.last, other.reserved);
    }

    /// The next stamp, if it is reserved.
    fn next(&mut self, above: i64) -> Option<DateTime> {
        let number = i64::from(self.number?);
        let earliest = self.earliest(above);
        let stamp = earliest + (number - earliest).rem_euclid(i64::from(SLOTS));
        if stamp >= self.reserved {
            return None;
        }
        self.last = stamp;
        DateTime::from_ticks(stamp)
    }
}

/// Renews the lease of the slot until the engine is closed.
pub(super) async fn renew_at_intervals<C: Clock>(shared: Arc<PostgresState<C>>) {
    loop {
        tokio::time::sleep(jittered(RENEWAL)).await;
        match shared.reserve(None).await {
            Ok(()) => {}
            Err(Trouble::Fault(Fault::Closed)) => return,
            // Writes that need it try again, and say so if it fails.
            Err(trouble) => tracing::debug!(?trouble, "the lease of the stamps could not be renewed"),
        }
    }
}

impl<C: Clock> PostgresState<C> {
    /// A stamp later than `above`.
    pub(super) async fn stamp(&self, above: DateTime) -> Result<DateTime, Trouble> {
        loop {
            if let Some(stamp) = self.reserved_stamp(above) {
                return Ok(stamp);
            }
            self.reserve(Some(above.ticks())).await?;
        }
    }

    /// The same, if it is reserved already.
    pub(super) fn reserved_stamp(&self, above: DateTime) -> Option<DateTime> {
        self.slot().next(above.ticks())
    }

    /// Reserves stamps later than `above`, in the slot that is held or in another one. Without it, renews what is reserved.
    pub(super) async fn reserve(&self, above: Option<i64>) -> Result<(), Trouble> {
        timeout(RESERVING_TIME_MAX, self.try_reserve(above)).await.map_err(|_| no_answer())?
    }

    async fn try_reserve(&self, above: Option<i64>) -> Result<(), Trouble> {
        let _one_at_a_time = self.reserving.lock().await;
        self.check_open().map_err(Trouble::Fault)?;
        let (number, earliest, reserved) = {
            let slot = self.slot();
            (slot.number, slot.earliest(above.unwrap_or(0)), slot.reserved)
        };
        let Some(number) = number else { return self.take_slot(earliest).await };
        // Another request may have done it meanwhile.
        if above.is_some() && earliest + i64::from(SLOTS) < reserved {
            return Ok(());
        }
        let lost = match self.renew_lease(number, earliest + RESERVED_TICKS).await {
            Ok(Some(reserved)) => {
                self.slot().reserved = reserved;
                return Ok(());
            }
            Ok(None) => "another server took it over",
            // The node that has its row may be gone for long; what is reserved lasts until then.
            Err(trouble) if earliest + RESERVED_TICKS / 2 < reserved => return Err(trouble),
            Err(_) => "it cannot be renewed",
        };
        tracing::warn!(number, lost, "this server takes another slot for its Timestamps");
        // Until it has one, it gives out what is reserved in this one.
        self.take_slot(earliest).await
    }

    /// Takes a slot: one whose stamps lie before the clock, if there is one, so that its next ones are not ahead of it.
    async fn take_slot(&self, earliest: i64) -> Result<(), Trouble> {
        let first = i16::try_from(random_below(SLOTS.unsigned_abs().into())).unwrap_or(0);
        let mut failures = Vec::new();
        for reserved_before in [earliest, i64::MAX] {
            for number in (0..SLOTS).map(|n| (first + n) % SLOTS) {
                if failures.len() >= FAILURES_MAX {
                    break;
                }
                match self.take_lease(number, RESERVED_TICKS, earliest, reserved_before).await {
                    Ok(Some(reserved)) => {
                        let mut slot = self.slot();
                        slot.last = slot.last.max(reserved - RESERVED_TICKS - 1);
                        (slot.number, slot.reserved) = (Some(number), reserved);
                        return Ok(());
                    }
                    Ok(None) => {}
                    Err(Trouble::Fault(fault)) => return Err(Trouble::Fault(fault)),
                    // The node that has this row may be gone; others are not.
                    Err(trouble) => failures.push(trouble),
                }
            }
        }
        Err(failures.pop().unwrap_or_else(|| Trouble::Again(Box::new(NoSlot))))
    }

    /// Takes a lease if nobody holds it. Returns the end of what is reserved then: so many ticks after `earliest`, or after what
    /// was reserved before.
    async fn take_lease(
        &self,
        number: i16,
        ticks: i64,
        earliest: i64,
        reserved_before: i64,
    ) -> Result<Option<i64>, Trouble> {
        let values: [&(dyn ToSql + Sync); 5] = [&number, &self.holder, &ticks, &earliest, &reserved_before];
        self.change_lease(statements::TAKE_LEASE, &values).await
    }

    /// Renews a lease that is held. Returns the end of what is reserved then; `None` if it is not held.
    async fn renew_lease(&self, number: i16, reserved: i64) -> Result<Option<i64>, Trouble> {
        self.change_lease(statements::RENEW_LEASE, &[&number, &self.holder, &reserved]).await
    }

    async fn change_lease(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Option<i64>, Trouble> {
        let lease = self.pool.take().await?;
        let rows = timeout(LEASE_TIME_MAX, read(&lease, sql, values)).await.map_err(|_| no_answer())??;
        lease.give_back();
        rows.first().map(|row| column(row, 0).map_err(Trouble::Fault)).transpose()
    }

    /// Takes the lease of the purge, or renews it; returns whether this server has it.
    pub(super) async fn may_purge(&self) -> Result<bool, Trouble> {
        if self.renew_lease(PURGE_LEASE, 0).await?.is_some() {
            return Ok(true);
        }
        Ok(self.take_lease(PURGE_LEASE, 0, 0, i64::MAX).await?.is_some())
    }

    /// Gives the leases back, so that others can have them at once. Those that could not be given back expire.
    pub(super) async fn return_leases(&self) {
        let _one_at_a_time = self.reserving.lock().await;
        let held = {
            let mut slot = self.slot();
            slot.number.take().map(|number| (number, slot.last + 1))
        };
        for (number, end) in held.into_iter().chain([(PURGE_LEASE, 0)]) {
            let _not_returned = self.change_lease(statements::RETURN_LEASE, &[&number, &self.holder, &end]).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[derive(Debug)]
    struct SetClock(AtomicI64);

    impl Clock for SetClock {
        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.0.load(Ordering::SeqCst)).unwrap()
        }
    }

    #[test]
    fn stamps_grow_have_the_number_of_the_slot_and_stay_below_what_is_reserved() {
        let mut slot = Slot::new(SetClock(AtomicI64::new(1000)));
        assert_eq!(slot.next(0), None, "no slot is held");
        (slot.number, slot.reserved) = (Some(5), 1300);
        let mut next = |above| slot.next(above).map(DateTime::ticks);
        assert_eq!(next(0), Some(1029));
        assert_eq!(next(0), Some(1093), "the clock stands still");
        assert_eq!(next(1157), Some(1221), "after the stamp that was found");
        assert_eq!(next(1156), Some(1285));
        assert_eq!(next(0), None, "no more is reserved");
        slot.clock.0.store(10, Ordering::SeqCst);
        slot.reserved = 2000;
        assert_eq!(slot.next(0).map(DateTime::ticks), Some(1349), "the clock went back");
        slot.clock.0.store(1600, Ordering::SeqCst);
        assert_eq!(slot.next(0).map(DateTime::ticks), Some(1605));
    }
}
