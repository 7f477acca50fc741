//! What a log must contain after a crash.

use super::disk::Crash;
use crate::log::format::Record;
use crate::sequence::Sequence;
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) payload: Vec<u8>,
    pub(super) stamp: u64,
    pub(super) origin: u8,
}

/// The transactions of a log, from the first one. Those after `acknowledged` were written, or are being written, and
/// may be found or not.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) all: Vec<Arc<Written>>,
    /// The number of transactions that survive every crash.
    pub(super) synced: usize,
    /// The number of transactions that survive the end of the process.
    pub(super) acknowledged: usize,
    /// The number of transactions whose loss is proven by other bytes of the log.
    pub(super) evidenced: usize,
    /// Groups that are not synced yet: the number of transactions up to each, and the number of those whose loss it
    /// would prove.
    pub(super) claims: Vec<(usize, usize)>,
    /// The number of transactions that are stored elsewhere.
    pub(super) persisted: usize,
}

/// What recovery found.
#[derive(Debug, Default)]
pub(super) struct Found {
    records: Vec<(Sequence, Written)>,
}

impl Found {
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let written =
            Written { payload: record.payload.to_vec(), stamp: record.header.stamp, origin: record.header.origin };
        self.records.push((record.header.sequence, written));
    }
}

impl Model {
    pub(super) fn persisted(&self) -> Sequence {
        Sequence::new(self.persisted as u64)
    }

    pub(super) fn required(&self, crash: Crash) -> usize {
        match crash {
            Crash::Kill => self.acknowledged,
            Crash::PowerLoss => self.synced,
        }
    }

    /// Records that everything up to a transaction is on disk.
    pub(super) fn synced_through(&mut self, through: usize) {
        self.synced = self.synced.max(through);
        let claimed = self.claims.iter().filter(|(end, _)| *end <= through).map(|(_, proven)| *proven).max();
        self.evidenced = self.evidenced.max(claimed.unwrap_or(0));
        self.claims.retain(|(end, _)| *end > through);
    }

    /// Compares what recovery found, and returns the model of the recovered log.
    pub(super) fn compare(&self, found: &Found, last: Sequence, required: usize) -> Result<Self, String> {
        for (at, (sequence, written)) in found.records.iter().enumerate() {
            let index = self.persisted + at;
            if sequence.get() != index as u64 + 1 {
                return Err(format!("transaction {sequence} was found in place of {}", index + 1));
            }
            if self.all.get(index).map(Arc::as_ref) != Some(written) {
                return Err(format!(
                    "transaction {sequence} was found with contents that were cut off or never written"
                ));
            }
        }
        let count = self.persisted + found.records.len();
        if last.get() != count as u64 {
            return Err(format!("{count} transactions were found, but the last one is said to be {last}"));
        }
        if count < required {
            return Err(format!("only {count} of {required} acknowledged transactions were found"));
        }
        let all = self.all[..count].to_vec();
        let evidenced = self.evidenced.min(count);
        let claims = Vec::new();
        Ok(Self { all, synced: count, acknowledged: count, evidenced, claims, persisted: self.persisted })
    }
}
