//! Replication: a standby holds the same log as its primary, record by record, and the same keys and values.
//!
//! A standby begins with a base copy, the contents of the tree at one transaction, and then receives the records of the
//! log that follow. It appends them as they are, so sequences, Timestamps and table IDs are the same, and positions of
//! the change log stay valid when it becomes the primary. Merges, flushes and segments are the standby's own.
//!
//! Invariants:
//!
//! 1. A standby's log is a prefix of what its primary has on disk. Only synced records are sent.
//! 2. A folder in which a base copy is incomplete is opened only to begin again.
//! 3. An epoch ends with a promotion. A log that continued after it is not extended, and its folder is not followed.
//! 4. If writes wait for confirmations, only one standby's confirmations count. Its promotion therefore loses nothing
//!    that was acknowledged.

mod decisions;
mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod promotion;
mod standby;
#[cfg(test)]
mod tests;

pub use frames::{BASE_COPY_BYTES, FrameError, RecordBatch};
pub use promotion::{Promotion, lineage_of, promote_folder, promote_folder_despite_loss};
pub use standby::{AppendError, StandbyFolder, StandbyLog};

use crate::disk::confirmations::Confirmations;
use crate::disk::lineage::{Awaited, Epoch, Identity, Lineage, Role};
use crate::disk::open_error::OpenError;
use crate::disk::storage::storage_fault;
use crate::log::holds::LogHold;
use crate::log::reader::{LogReader, ReadLogError};
use crate::log::real_disk::RealDisk;
use crate::sequence::Sequence;
use crate::state::EmbeddedState;
use crate::tree::Snapshot;
use decisions::PrimaryLog;
use engine::Fault;
use frames::BatchBuilder;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The reason why a fenced primary refuses writes.
pub(crate) const FENCED: &str = "a standby was promoted, so nothing may be written to this server any more";
/// The reason why a standby refuses writes.
pub(crate) const STANDBY: &str = "this server is a standby; only its primary can be written";

/// How a standby introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StandbyHello {
    /// Identifies the standby.
    pub standby: Identity,
    /// What the standby has; `None` if it needs a base copy.
    pub has: Option<StandbyPosition>,
    /// Whether the standby may take over from the one whose confirmations count.
    pub replaces: bool,
}

/// The end of a standby's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StandbyPosition {
    /// The identity of the log.
    pub log: Identity,
    /// The epoch of the standby.
    pub epoch: Epoch,
    /// The last transaction that is on disk.
    pub last: u64,
}

/// The reason why a standby is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This server has a different log.
    OtherLog,
    /// The standby's log contains transactions that this server's log does not.
    Diverged,
    /// The log begins with a later transaction than the standby needs.
    Dropped,
    /// Another standby's confirmations count.
    OtherStandby,
    /// A standby was promoted, so this server is not the primary any more.
    Fenced,
    /// This server is a standby itself.
    NotPrimary,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherLog => "the server is not the primary of this standby: it has a different log",
            Self::Diverged => {
                "the standby has transactions that the primary does not have; begin again with an empty folder"
            }
            Self::Dropped => {
                "the primary no longer keeps the part of its log that the standby needs; begin again with an empty \
                 folder, and give the primary a longer --keep-log"
            }
            Self::OtherStandby => {
                "the primary waits for another standby; to replace that standby, start this one with --replace"
            }
            Self::Fenced => "a standby of this server was promoted, so it is not a primary any more",
            Self::NotPrimary => "the server is a standby itself",
        })
    }
}

/// The reason why a request of a standby failed.
#[derive(Debug)]
pub enum ReplicationError {
    /// The standby is not served.
    Refused(Refusal),
    /// The engine failed.
    Fault(Fault),
    /// The state of the replication could not be written.
    State(OpenError),
}

impl From<Refusal> for ReplicationError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for ReplicationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
            Self::State(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplicationError {}

/// What a primary offers to its standbys. The methods block while they wait for the disk.
#[derive(Clone)]
pub struct Replication(Arc<Inner>);

struct Inner {
    shared: Arc<EmbeddedState>,
    reader: LogReader<RealDisk>,
    lineage: Mutex<Lineage>,
    confirmations: Option<Arc<Confirmations>>,
}

/// The contents of the tree at one transaction, in chunks. The files that it needs are kept while it exists.
pub struct BaseCopy {
    snapshot: Snapshot,
    shared: Arc<EmbeddedState>,
}

impl BaseCopy {
    /// Returns the last transaction that the copy contains.
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence().get()
    }

    /// Returns the chunk that follows a key, or the first one without a key; `None` at the end. A chunk can be
    /// requested again.
    pub fn chunk(&self, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
        self.shared.check_open()?;
        let mut chunk = Vec::new();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.snapshot.range::<&[u8]>((start, Bound::Unbounded)) {
            let (key, value) = entry.map_err(storage_fault)?;
            frames::push_entry(&mut chunk, &key, &value);
            if chunk.len() >= BASE_COPY_BYTES {
                break;
            }
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// Keeps the log for a standby that receives a base copy, or has received one and lacks what was written since,
/// whatever its age. The maximum size of the kept log still applies.
#[derive(Debug)]
pub struct KeptForStandby {
    hold: Option<LogHold>,
}

impl KeptForStandby {
    /// Records the last transaction that the standby has.
    pub fn advance(&self, last: u64) {
        if let Some(hold) = &self.hold {
            hold.advance(Sequence::new(last).next());
        }
    }
}

impl Replication {
    /// Continues or begins the lineage of a folder.
    pub(crate) fn new(
        shared: Arc<EmbeddedState>,
        confirmations: Option<Arc<Confirmations>>,
    ) -> Result<Self, OpenError> {
        let lineage = if let Some(lineage) = shared.folder().lineage()? {
            lineage
        } else {
            let lineage = Lineage::new(Identity::random(), Identity::random());
            shared.folder().write_lineage(&lineage)?;
            lineage
        };
        let reader = LogReader::new(&shared.storage.upkeep);
        Ok(Self(Arc::new(Inner { shared, reader, lineage: Mutex::new(lineage), confirmations })))
    }

    fn lock(&self) -> MutexGuard<'_, Lineage> {
        self.0.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log's identity and epochs, and the role of the folder.
    pub fn lineage(&self) -> Lineage {
        self.lock().clone()
    }

    /// Returns the last transaction that is on disk.
    pub fn synced(&self) -> u64 {
        self.0.shared.storage.upkeep.synced_through().get()
    }

    /// Returns a receiver of [`Self::synced`].
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.shared.storage.watch_synced()
    }

    /// Returns whether writes wait for a standby's confirmation.
    pub fn waits_for_confirmations(&self) -> bool {
        self.0.confirmations.is_some()
    }

    /// Decides whether a standby is served. A standby with a higher epoch proves that this server was replaced, and
    /// fences it.
    pub fn admit(&self, hello: &StandbyHello) -> Result<Lineage, ReplicationError> {
        let mut lineage = self.lock();
        if let Some(has) = hello.has.filter(|has| has.log == lineage.log)
            && let Some(fenced) = decisions::fencing(&lineage, &has.epoch, false)
        {
            self.fence_locked(&mut lineage, fenced, has.epoch.number)?;
        }
        // Nothing is confirmed while the lineage is locked, so nothing is acknowledged in the meantime.
        let acknowledged = self.0.confirmations.as_ref().map(|confirmations| self.acknowledged(confirmations));
        let synced = self.0.shared.storage.upkeep.synced_through();
        let log = PrimaryLog { first: self.0.reader.first(), synced, acknowledged };
        if let Some(changed) = decisions::admission(&lineage, hello, log)? {
            tracing::info!(standby = %hello.standby, "writes wait for this standby from now on");
            self.0.shared.folder().write_lineage(&changed).map_err(ReplicationError::State)?;
            *lineage = changed;
        }
        Ok(lineage.clone())
    }

    /// Returns the last transaction that may have been acknowledged.
    fn acknowledged(&self, confirmations: &Confirmations) -> Sequence {
        self.0.shared.storage.tree.published().max(confirmations.through())
    }

    /// Returns whether writes wait for a standby that has everything up to `last`.
    pub fn awaited(&self, standby: Identity, last: u64) -> Awaited {
        let lineage = self.lock();
        let Some(confirmations) = &self.0.confirmations else { return Awaited::None };
        // A primary that did not wait for a while may have acknowledged what the standby does not have yet.
        let has_all = last >= self.acknowledged(confirmations).get();
        if decisions::counts(&lineage, standby) && has_all { Awaited::This } else { Awaited::Other }
    }

    /// Copies the contents of the tree. Everything in the copy is on disk.
    pub fn base_copy(&self) -> Result<BaseCopy, Fault> {
        let shared = &self.0.shared;
        shared.check_open()?;
        let snapshot = shared.storage.tree.snapshot();
        shared.storage.sync().map_err(storage_fault)?;
        Ok(BaseCopy { snapshot, shared: Arc::clone(shared) })
    }

    /// Keeps the log that follows a transaction while the returned value exists.
    pub fn keep_after(&self, last: u64) -> KeptForStandby {
        let archive = self.0.shared.storage.upkeep.archive();
        KeptForStandby { hold: archive.map(|archive| archive.holds.begin(Sequence::new(last).next())) }
    }

    /// Returns whether the log still contains everything that follows a transaction.
    pub fn is_kept_after(&self, last: u64) -> bool {
        self.0.reader.first() <= Sequence::new(last).next()
    }

    /// Returns the transactions from `from` on that are on disk, up to about `bytes` bytes, at least one. Returns
    /// `None` if there is none yet.
    pub fn read(&self, from: u64, bytes: usize) -> Result<Option<RecordBatch>, ReplicationError> {
        self.0.shared.check_open().map_err(ReplicationError::Fault)?;
        let mut batch = BatchBuilder::default();
        let through = self.0.shared.storage.upkeep.synced_through();
        let read = self.0.reader.read(Sequence::new(from), through, &mut |record| {
            let may_continue = batch.push(record) && batch.bytes() < bytes;
            if may_continue { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match read {
            Ok(_) => Ok(batch.finish()),
            Err(ReadLogError::Dropped(_)) => Err(Refusal::Dropped.into()),
            Err(ReadLogError::Log(error)) => Err(ReplicationError::Fault(Fault::Storage(Box::new(error)))),
        }
    }

    /// Records what a standby has on disk. It counts if writes wait for this standby.
    pub fn confirm(&self, standby: Identity, through: u64) {
        let lineage = self.lock();
        if let Some(confirmations) = &self.0.confirmations
            && decisions::counts(&lineage, standby)
        {
            confirmations.confirm(Sequence::new(through));
        }
    }

    /// Refuses writes forever, because a standby of this log was promoted in an epoch. Does nothing if this log is in
    /// that epoch or in a later one. Returns whether the folder is fenced.
    pub fn fence(&self, log: Identity, epoch: &Epoch) -> Result<bool, ReplicationError> {
        let mut lineage = self.lock();
        if log != lineage.log {
            return Err(Refusal::OtherLog.into());
        }
        if let Some(fenced) = decisions::fencing(&lineage, epoch, true) {
            self.fence_locked(&mut lineage, fenced, epoch.number)?;
        }
        Ok(matches!(lineage.role, Role::Fenced { .. }))
    }

    fn fence_locked(&self, lineage: &mut Lineage, fenced: Lineage, epoch: u64) -> Result<(), ReplicationError> {
        // Even if the folder cannot be written, this process must not write any more.
        let shared = &self.0.shared;
        let _is_set = shared.read_only.set(FENCED);
        shared.storage.fence();
        tracing::error!(epoch, "{FENCED}");
        shared.folder().write_lineage(&fenced).map_err(ReplicationError::State)?;
        *lineage = fenced;
        Ok(())
    }
}
