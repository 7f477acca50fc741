//! Batches of records: the records as they are in the log, without gaps.
//!
//! A standby receives them from the network, so decoding can fail, but never panics. Each record has a hash.

use crate::log::format::{self, Record};
use crate::sequence::Sequence;
use std::fmt;

/// The reason why received bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameError(&'static str);

impl FrameError {
    /// The entries of a base copy are malformed, or not in order.
    pub const ENTRY: Self = Self("an entry of the base copy is damaged");
    pub(super) const RECORD: Self = Self("a record of the log is damaged");
    /// What was received does not continue the log.
    pub const ORDER: Self = Self("a record of the log does not follow the previous one");
    pub(super) const ORIGIN: Self =
        Self("a record of the log was written by a newer version; update the standby before the primary");
    pub(super) const TOO_MANY: Self = Self("the base copy is larger than its transactions could have written");
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for FrameError {}

/// Consecutive transactions of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    /// The first transaction.
    pub first: u64,
    /// The number of transactions.
    pub count: u32,
    /// The records of the log.
    pub records: Vec<u8>,
}

impl RecordBatch {
    /// Returns the last transaction.
    pub fn last(&self) -> u64 {
        (self.first.saturating_add(u64::from(self.count))).saturating_sub(1)
    }

    /// Passes each record to `visit`, after it was found to be intact and to follow the previous record.
    pub(super) fn for_each<E: From<FrameError>>(
        &self,
        mut visit: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut next, mut count, mut bytes) = (Sequence::new(self.first), 0, 0);
        for record in format::records(&self.records, self.count) {
            if record.header.sequence != next {
                return Err(FrameError::ORDER.into());
            }
            if format::payload_hash(record.payload) != record.header.payload_hash {
                return Err(FrameError::RECORD.into());
            }
            visit(&record)?;
            next = next.next();
            count += 1;
            bytes += record.header_bytes.len() + record.payload.len();
        }
        let is_whole = count == self.count && bytes == self.records.len();
        if is_whole { Ok(()) } else { Err(FrameError::RECORD.into()) }
    }
}

#[derive(Debug, Default)]
pub(super) struct BatchBuilder {
    first: Option<Sequence>,
    count: u32,
    records: Vec<u8>,
}

impl BatchBuilder {
    /// Adds a record. Returns false if numbers were skipped before it, so that it begins the next batch.
    pub(super) fn push(&mut self, record: &Record<'_>) -> bool {
        let first = *self.first.get_or_insert(record.header.sequence);
        if record.header.sequence != first.plus(self.count.into()) {
            return false;
        }
        self.count += 1;
        self.records.extend_from_slice(record.header_bytes);
        self.records.extend_from_slice(record.payload);
        true
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.len()
    }

    pub(super) fn finish(self) -> Option<RecordBatch> {
        let Self { first, count, records } = self;
        Some(RecordBatch { first: first?.get(), count, records })
    }
}
