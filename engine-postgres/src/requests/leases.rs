//! Issues stamps that are unique across servers, and determines which server purges, and which one builds indexes.
//!
//! A server holds one of [`SLOTS`] slots, a row in `rowhouse_leases`. The low bits of all its stamps are the slot's
//! number. In that row, the server reserves stamps in advance: it issues only stamps before `reserved`. A server that
//! takes over the slot starts at `reserved`. Successive holders of a slot therefore never issue the same stamp,
//! whatever their clocks show. This is true even if a server that was presumed dead still writes, because it uses only
//! the stamps that it reserved and cannot reserve more.
//!
//! Invariants:
//!
//! 1. The stamps of one server increase, even if its clock stands still or moves backwards.
//! 2. A stamp below a slot's `reserved` is issued only by the server that reserved it.
//! 3. The presumption that a server is dead depends on the database's clock, and affects only how soon the server's
//!    slot is taken over.

use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, no_response, read};
use crate::slot::{BALANCE_LEASE, CHANGES_LEASE, INDEX_LEASE, NoSlot, PURGE_LEASE, SLOTS};
use crate::state::PostgresState;
use crate::statements;
use engine::Fault;
use model::DateTime;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

/// The length of the period for which stamps are reserved in advance, in ticks of 100 ns: ten seconds.
const RESERVED_TICKS: i64 = 100_000_000;
/// The interval between renewals of a lease. After half a minute without one (`statements::TAKE_LEASE`), the server is
/// presumed dead.
const RENEWAL: Duration = Duration::from_secs(3);
/// The interval between renewals of a lease that expires after three seconds (`statements::HOLD_SHORT_LEASE`).
pub(crate) const SHORT_RENEWAL: Duration = Duration::from_secs(1);
/// The timeout for a change to a lease. An unresponsive node must not use up the time for which stamps are reserved.
const LEASE_TIME_MAX: Duration = Duration::from_secs(2);
/// The number of failed attempts to take a lease, because of database errors, after which the server gives up.
const FAILURES_MAX: usize = 4;
const RESERVING_TIME_MAX: Duration = Duration::from_secs(4);

/// Renews the slot's lease until the engine is closed.
pub(crate) async fn renew_at_intervals(shared: Arc<PostgresState>) {
    loop {
        tokio::time::sleep(jittered(RENEWAL)).await;
        match shared.reserve(None).await {
            Ok(()) => {}
            Err(AttemptError::Fault(Fault::Closed)) => return,
            // Writes that need the lease retry this, and report the failure.
            Err(trouble) => tracing::debug!(?trouble, "the lease for Timestamps could not be renewed"),
        }
    }
}

impl PostgresState {
    pub(crate) async fn stamp(&self, above: DateTime) -> Result<DateTime, AttemptError> {
        loop {
            if let Some(stamp) = self.reserved_stamp(above) {
                return Ok(stamp);
            }
            self.reserve(Some(above.ticks())).await?;
        }
    }

    pub(crate) fn reserved_stamp(&self, above: DateTime) -> Option<DateTime> {
        self.slot().next(above.ticks())
    }

    /// Reserves stamps later than `above`, in the current slot or in another one. If `above` is `None`, renews the
    /// reservation.
    pub(crate) async fn reserve(&self, above: Option<i64>) -> Result<(), AttemptError> {
        timeout(RESERVING_TIME_MAX, self.try_reserve(above)).await.map_err(|_| no_response())?
    }

    async fn try_reserve(&self, above: Option<i64>) -> Result<(), AttemptError> {
        let _one_at_a_time = self.reserving.lock().await;
        self.check_open().map_err(AttemptError::Fault)?;
        let (number, earliest, reserved) = {
            let slot = self.slot();
            (slot.number, slot.earliest(above.unwrap_or(0)), slot.reserved)
        };
        let Some(number) = number else { return self.take_slot(earliest).await };
        // Another request may have reserved them in the meantime.
        if above.is_some() && earliest + i64::from(SLOTS) < reserved {
            return Ok(());
        }
        let lost = match self.renew_lease(number, earliest + RESERVED_TICKS).await {
            Ok(Some(reserved)) => {
                self.slot().reserved = reserved;
                return Ok(());
            }
            Ok(None) => "another server took it over",
            // The node with the slot's row may be down for a long time, but the server can still use the stamps
            // reserved so far.
            Err(trouble) if earliest + RESERVED_TICKS / 2 < reserved => return Err(trouble),
            Err(_) => "its lease cannot be renewed",
        };
        tracing::warn!(number, lost, "this server takes another slot for its Timestamps");
        // Until this server has another slot, it issues the stamps that it reserved in the current one.
        self.take_slot(earliest).await
    }

    /// Takes a slot. Prefers a slot whose reserved stamps are before the current time, so that the next stamps are not
    /// ahead of the clock.
    async fn take_slot(&self, earliest: i64) -> Result<(), AttemptError> {
        let first = fastrand::i16(0..SLOTS);
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
                    Err(AttemptError::Fault(fault)) => return Err(AttemptError::Fault(fault)),
                    // The node with this slot's row may be down while other nodes respond.
                    Err(trouble) => failures.push(trouble),
                }
            }
        }
        Err(failures.pop().unwrap_or_else(|| AttemptError::Retry(Box::new(NoSlot))))
    }

    /// Returns the new end of the reservation: the given number of ticks after `earliest` or after the previous end,
    /// whichever is later. Returns `None` if the lease is not free.
    async fn take_lease(
        &self,
        number: i16,
        ticks: i64,
        earliest: i64,
        reserved_before: i64,
    ) -> Result<Option<i64>, AttemptError> {
        let values: [&(dyn ToSql + Sync); 5] = [&number, &self.holder, &ticks, &earliest, &reserved_before];
        self.change_lease(statements::TAKE_LEASE, &values).await
    }

    /// Returns the new end of the reservation, or `None` if this server does not hold the lease.
    async fn renew_lease(&self, number: i16, reserved: i64) -> Result<Option<i64>, AttemptError> {
        self.change_lease(statements::RENEW_LEASE, &[&number, &self.holder, &reserved]).await
    }

    async fn change_lease(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Option<i64>, AttemptError> {
        let lease = self.pool.take().await?;
        let rows = timeout(LEASE_TIME_MAX, read(&lease, sql, values)).await.map_err(|_| no_response())??;
        lease.return_to_pool();
        rows.first().map(|row| column(row, 0).map_err(AttemptError::Fault)).transpose()
    }

    /// Renews or takes the lease of a background task. Returns whether this server holds it.
    pub async fn hold_lease(&self, number: i16) -> Result<bool, AttemptError> {
        if self.renew_lease(number, 0).await?.is_some() {
            return Ok(true);
        }
        Ok(self.take_lease(number, 0, 0, i64::MAX).await?.is_some())
    }

    /// Like [`Self::hold_lease`], for a lease that expires after three seconds.
    pub(crate) async fn hold_short_lease(&self, number: i16) -> Result<bool, AttemptError> {
        Ok(self.change_lease(statements::HOLD_SHORT_LEASE, &[&number, &self.holder]).await?.is_some())
    }

    /// Renews a short lease during the work, which may consist of long steps, as long as this server holds the lease.
    pub(crate) async fn while_renewing<T>(&self, number: i16, work: impl Future<Output = T>) -> T {
        let renewing = async {
            loop {
                tokio::time::sleep(SHORT_RENEWAL).await;
                if let Err(trouble) = self.renew_lease(number, 0).await {
                    tracing::debug!(?trouble, number, "the lease of a task could not be renewed");
                }
            }
        };
        tokio::select! {
            done = work => done,
            never = renewing => never,
        }
    }

    /// Other servers can take returned leases immediately. Leases that cannot be returned expire.
    pub(crate) async fn return_leases(&self) {
        let _one_at_a_time = self.reserving.lock().await;
        let held = {
            let mut slot = self.slot();
            slot.number.take().map(|number| (number, slot.last + 1))
        };
        for (number, end) in
            held.into_iter().chain([PURGE_LEASE, INDEX_LEASE, CHANGES_LEASE, BALANCE_LEASE].map(|number| (number, 0)))
        {
            let _not_returned = self.change_lease(statements::RETURN_LEASE, &[&number, &self.holder, &end]).await;
        }
    }
}
