//! The change feed: the engine's log as tables that clients can read (`docs/change-feed.md`).
//!
//! Invariants:
//!
//! 1. A reader sees only the account and the entities that its credential covers. It sees the creation and deletion of
//!    a table only if its credential covers all entities of the table.
//! 2. A reader whose credential is for a table sees no entities of an earlier table with the same name.
//! 3. A reader that names a position gets every change from there on, or an error.
//!
//! This folder must not depend on operations, credentials or HTTP.

mod bounds;
mod rows;

pub(crate) use bounds::ChangeBounds;
pub(crate) use rows::ChangeRows;

use crate::failure::Failure;
use crate::limits::streams::StreamRegistry;
use engine::{ChangeEffect, ChangeLog, ChangePage, ChangeSelection, ChangesError, KeptChanges, TableKey};
use model::{AccountName, ChangePosition, ChangesTable, DateTime, KeyRange};
use std::fmt;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use wire::{ErrorCode, ServiceError};

/// The size of the part of the log that is read at a time, in bytes.
pub(crate) const READ_BYTES: usize = 1024 * 1024;
/// The maximum number of concurrent reads of the log. Each read occupies a processor and the disk, and would slow down
/// writers. Readers wait in the order of arrival. Each read is bounded, so none waits for long.
const READS_MAX: usize = 2;
/// The position of the first transaction of a log.
const FIRST_POSITION: u64 = 1;

/// The change feed of a server.
pub(crate) struct ChangeFeed {
    log: Arc<dyn ChangeLog>,
    reads: Semaphore,
    pub(crate) streams: Arc<StreamRegistry>,
}

/// The changes that a reader sees.
#[derive(Debug, Clone)]
pub(crate) struct ChangeScope {
    pub(crate) selection: ChangeSelection,
    /// The keys of the entities whose changes it sees. `None` for everything, including the changes of tables.
    ranges: Option<Vec<KeyRange>>,
}

impl ChangeFeed {
    pub(crate) fn new(log: Arc<dyn ChangeLog>, streams_max: usize) -> Self {
        Self { log, reads: Semaphore::new(READS_MAX), streams: StreamRegistry::new(streams_max) }
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        self.reads.acquire().await.expect("the semaphore is never closed")
    }

    /// Reads a part of the log; see [`ChangeLog::read`].
    pub(crate) async fn read(
        &self,
        from: u64,
        selection: &ChangeSelection,
        bytes: usize,
    ) -> Result<ChangePage, ChangesError> {
        let _permit = self.permit().await;
        self.log.read(from, selection, bytes).await
    }

    async fn find(&self, time: DateTime) -> Result<u64, ChangesError> {
        let _permit = self.permit().await;
        self.log.find(time).await
    }

    /// Returns the position after the last transaction.
    pub(crate) fn next(&self) -> u64 {
        self.log.kept().next
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.log.watch()
    }

    /// Returns the position from which a stream reads. Without a bound, it begins with the next transaction.
    pub(crate) async fn stream_start(&self, bounds: &ChangeBounds) -> Result<ChangePosition, Failure> {
        if bounds.has_lower { self.start(bounds).await } else { Ok(ChangePosition::start_of(self.next())) }
    }

    /// Returns the last position that a stream can return, as far as it is known now.
    pub(crate) async fn stream_last(&self, bounds: &ChangeBounds) -> Result<Option<ChangePosition>, Failure> {
        let Some(end) = bounds.end else { return Ok(bounds.last) };
        // A transaction that is committed during the search may have an earlier time.
        let next = self.next();
        let found = self.find(end).await?;
        let last = (found < next).then(|| ChangePosition::start_of(found).previous());
        Ok(last.into_iter().chain(bounds.last).min())
    }

    /// Returns the position from which a query reads.
    pub(crate) async fn start(&self, bounds: &ChangeBounds) -> Result<ChangePosition, Failure> {
        let at_minute = match bounds.minute {
            Some(minute) => Some(self.find(minute).await?),
            None => None,
        };
        let is_ahead = |next| bounds.position.is_some_and(|position| position.transaction > next);
        // Only now, because transactions may have been dropped during the search.
        let KeptChanges { mut first, next } = self.log.kept();
        if is_ahead(next) {
            // The reader may have the position from a server that knows more of the log.
            let latest = self.log.latest().await?;
            if is_ahead(latest.next) {
                return Err(ahead(latest.next));
            }
            first = latest.first;
        }
        let oldest = ChangePosition::start_of(first);
        // The transactions before the first one of a minute are all older than the minute. If the oldest transaction is
        // not one of them, transactions of the minute may have been dropped.
        let at_minute = at_minute.filter(|found| *found > first).map(ChangePosition::start_of);
        let kept = bounds.position.filter(|position| *position >= oldest).max(at_minute);
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let is_incomplete = match (bounds.position, bounds.minute) {
            // An earlier position is from a former log, or of a transaction that was dropped.
            (Some(_), _) => first > FIRST_POSITION,
            // There is no change before the log began.
            (None, Some(_)) => first > self.log.beginning().await?,
            (None, None) => false,
        };
        if is_incomplete { Err(ChangesError::Dropped(first).into()) } else { Ok(oldest) }
    }
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("kept", &self.log.kept()).finish_non_exhaustive()
    }
}

impl ChangeScope {
    /// Creates the scope of a reader of a table of the feed whose credential covers the given key ranges.
    /// `existing_only` leaves out entities of earlier tables with the same name.
    pub(crate) fn new(account: &AccountName, table: &ChangesTable, ranges: Vec<KeyRange>, existing_only: bool) -> Self {
        let table = match table {
            ChangesTable::All => None,
            ChangesTable::Of(name) => Some(TableKey { account: account.clone(), name: name.clone() }),
        };
        let is_everything = ranges == [KeyRange::all()];
        let selection = ChangeSelection { account: Some(account.clone()), table, existing_only };
        Self { selection, ranges: (!is_everything).then_some(ranges) }
    }

    fn contains(&self, effect: &ChangeEffect) -> bool {
        let key = match effect {
            ChangeEffect::Put { table, key, .. } | ChangeEffect::Delete { table, key, .. } => {
                // Clients do not write metrics tables.
                if table.name.is_metrics_table() || !self.selection.contains(table) {
                    return false;
                }
                key
            }
            ChangeEffect::CreateTable { table, .. } | ChangeEffect::DeleteTable { table } => {
                return self.ranges.is_none() && !table.name.is_metrics_table() && self.selection.contains(table);
            }
            ChangeEffect::SetTable { .. } | ChangeEffect::SetProperties { .. } => return false,
        };
        self.ranges.as_ref().is_none_or(|ranges| KeyRange::any_contains(ranges, key))
    }
}

/// Happens if a client has positions of another log, such as the log of a server that kept its data in memory.
fn ahead(next: u64) -> Failure {
    let end = ChangePosition::start_of(next);
    let message = format!("The change feed does not contain this position yet. The next position is {end}.");
    let error = ServiceError::new(ErrorCode::PositionExpired, message);
    Failure { position: Some(end.previous()), ..Failure::query(error) }
}

#[cfg(test)]
pub(crate) mod tests;
