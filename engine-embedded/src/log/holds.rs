//! Parts of the log that are kept for a reader although they are too old.

use crate::sequence::Sequence;
use crate::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The holds on a log that exist.
#[derive(Debug, Default)]
pub(crate) struct LogHolds(Mutex<Vec<Weak<AtomicU64>>>);

/// Keeps the log from a transaction on, within the maximum size of the kept log, until it is dropped.
#[derive(Debug)]
pub(crate) struct LogHold(Arc<AtomicU64>);

impl LogHolds {
    pub(crate) fn begin(&self, from: Sequence) -> LogHold {
        let hold = Arc::new(AtomicU64::new(from.get()));
        self.0.lock().push(Arc::downgrade(&hold));
        LogHold(hold)
    }

    /// Returns the first transaction that is held.
    pub(crate) fn first(&self) -> Option<Sequence> {
        let mut holds = self.0.lock();
        holds.retain(|hold| hold.strong_count() > 0);
        let held = holds.iter().filter_map(Weak::upgrade).map(|hold| hold.load(Ordering::Relaxed));
        held.min().map(Sequence::new)
    }
}

impl LogHold {
    /// Gives up what precedes a transaction.
    pub(crate) fn advance(&self, from: Sequence) {
        self.0.fetch_max(from.get(), Ordering::Relaxed);
    }
}
