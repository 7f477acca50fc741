//! The side of the primary: it sends a copy of the tree, and records of the log.

use super::FENCED;
use super::records::{BatchBuilder, RecordBatch};
use crate::disk::confirmations::Confirmations;
use crate::disk::lineage::{Identity, Lineage};
use crate::disk::open_error::OpenError;
use crate::disk::storage::storage_fault;
use crate::log::holds::LogHold;
use crate::log::reader::{LogReader, ReadLogError};
use crate::log::real_disk::RealDisk;
use crate::sequence::Sequence;
use crate::state::EmbeddedState;
use crate::tree::Snapshot;
use engine::Fault;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use tokio::sync::watch;

/// The log of a primary. The methods block while they wait for the disk.
pub struct PrimaryLog {
    shared: Arc<EmbeddedState>,
    reader: LogReader<RealDisk>,
    confirmations: Option<Arc<Confirmations>>,
}

/// The reason why records were not read.
#[derive(Debug)]
pub enum ReadRecordsError {
    /// The log begins with a later transaction.
    Dropped,
    /// The engine failed.
    Fault(Fault),
}

/// The contents of the tree at one transaction. The files that it needs are kept while it exists.
pub struct BaseCopy {
    snapshot: Snapshot,
    shared: Arc<EmbeddedState>,
}

impl BaseCopy {
    /// Returns the last transaction that the copy contains.
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence().get()
    }

    /// Passes the keys and values that follow a key to `visit`, or all of them without a key, until it breaks.
    pub fn read(
        &self,
        after: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        self.shared.check_open()?;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.snapshot.range::<&[u8]>((start, Bound::Unbounded)) {
            let (key, value) = entry.map_err(storage_fault)?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
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

impl PrimaryLog {
    /// Continues or begins the lineage of a folder.
    pub(crate) fn new(
        shared: Arc<EmbeddedState>,
        confirmations: Option<Arc<Confirmations>>,
    ) -> Result<(Self, Lineage), OpenError> {
        let lineage = if let Some(lineage) = shared.folder().lineage()? {
            lineage
        } else {
            let lineage = Lineage::new(Identity::random(), Identity::random());
            shared.folder().write_lineage(&lineage)?;
            lineage
        };
        let reader = LogReader::new(&shared.storage.upkeep);
        Ok((Self { shared, reader, confirmations }, lineage))
    }

    /// Changes the lineage of the folder durably.
    pub fn set_lineage(&self, lineage: &Lineage) -> Result<(), OpenError> {
        self.shared.folder().write_lineage(lineage)
    }

    /// Refuses writes forever, because a standby of this log was promoted in an epoch. `fenced` is the lineage from now
    /// on. Even if the folder cannot be written, this process does not write any more.
    pub fn fence(&self, fenced: &Lineage, epoch: u64) -> Result<(), OpenError> {
        let _is_set = self.shared.read_only.set(FENCED);
        self.shared.storage.fence();
        tracing::error!(epoch, "{FENCED}");
        self.set_lineage(fenced)
    }

    /// Returns the first transaction that can be read.
    pub fn first(&self) -> u64 {
        self.reader.first().get()
    }

    /// Returns the last transaction that is on disk.
    pub fn synced(&self) -> u64 {
        self.shared.storage.upkeep.synced_through().get()
    }

    /// Returns a receiver of [`Self::synced`].
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.shared.storage.watch_synced()
    }

    /// Returns the last transaction that may have been acknowledged; `None` if writes wait for no confirmation.
    pub fn acknowledged(&self) -> Option<u64> {
        let confirmations = self.confirmations.as_ref()?;
        Some(self.shared.storage.tree.published().max(confirmations.through()).get())
    }

    /// Acknowledges writes that wait, up to the last transaction that the awaited standby has on disk.
    pub fn confirm(&self, through: u64) {
        if let Some(confirmations) = &self.confirmations {
            confirmations.confirm(Sequence::new(through));
        }
    }

    /// Copies the contents of the tree. Everything in the copy is on disk.
    pub fn base_copy(&self) -> Result<BaseCopy, Fault> {
        let shared = &self.shared;
        shared.check_open()?;
        let snapshot = shared.storage.tree.snapshot();
        shared.storage.sync().map_err(storage_fault)?;
        Ok(BaseCopy { snapshot, shared: Arc::clone(shared) })
    }

    /// Keeps the log that follows a transaction while the returned value exists.
    pub fn keep_after(&self, last: u64) -> KeptForStandby {
        let archive = self.shared.storage.upkeep.archive();
        KeptForStandby { hold: archive.map(|archive| archive.holds.begin(Sequence::new(last).next())) }
    }

    /// Returns the transactions from `from` on that are on disk, up to about `bytes` bytes, at least one. Returns
    /// `None` if there is none yet.
    pub fn read(&self, from: u64, bytes: usize) -> Result<Option<RecordBatch>, ReadRecordsError> {
        self.shared.check_open().map_err(ReadRecordsError::Fault)?;
        let mut batch = BatchBuilder::default();
        let through = self.shared.storage.upkeep.synced_through();
        let read = self.reader.read(Sequence::new(from), through, &mut |record| {
            let may_continue = batch.push(record) && batch.bytes() < bytes;
            if may_continue { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match read {
            Ok(_) => Ok(batch.finish()),
            Err(ReadLogError::Dropped(_)) => Err(ReadRecordsError::Dropped),
            Err(ReadLogError::Log(error)) => Err(ReadRecordsError::Fault(Fault::Storage(Box::new(error)))),
        }
    }
}
