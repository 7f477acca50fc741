//! What this server knows about the change log without querying the database.

use engine::figures::ChangeLogFigures;
use engine::{KeepChanges, KeptChanges};
use model::DateTime;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;

/// The change log as this server last read it.
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) keep: KeepChanges,
    kept: Mutex<KeptChanges>,
    /// The position after the last transaction.
    next: watch::Sender<u64>,
    /// The size of the kept transactions, in bytes, and the time of the oldest one.
    size: Mutex<(u64, Option<DateTime>)>,
    /// How far this server has decoded the log of each node.
    decoded: Mutex<BTreeMap<i32, u64>>,
    /// The size of the nodes' logs that has not been decoded yet, in bytes, while this server decodes them.
    undecoded_bytes: AtomicU64,
    is_decoding: AtomicBool,
}

impl LogState {
    pub(crate) fn new(keep: KeepChanges) -> Self {
        Self {
            keep,
            kept: Mutex::new(KeptChanges { first: 0, next: 0 }),
            next: watch::Sender::new(0),
            size: Mutex::default(),
            decoded: Mutex::default(),
            undecoded_bytes: AtomicU64::new(0),
            is_decoding: AtomicBool::new(false),
        }
    }

    pub(crate) fn kept(&self) -> KeptChanges {
        *self.kept.lock()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    /// Records what was read from the database. Results may arrive out of order, but positions never decrease.
    pub(crate) fn note(&self, read: KeptChanges) {
        let mut kept = self.kept.lock();
        *kept = KeptChanges { first: kept.first.max(read.first), next: kept.next.max(read.next) };
        let next = kept.next;
        // While the lock is held, so that a receiver that reads `kept` finds at least what it was told.
        self.next.send_if_modified(|known| {
            let is_later = next > *known;
            *known = next.max(*known);
            is_later
        });
    }

    pub(crate) fn note_size(&self, bytes: u64, oldest: Option<DateTime>) {
        *self.size.lock() = (bytes, oldest);
    }

    pub(crate) fn set_decoding(&self, is_decoding: bool) {
        self.is_decoding.store(is_decoding, Ordering::Relaxed);
    }

    pub(crate) fn is_decoding(&self) -> bool {
        self.is_decoding.load(Ordering::Relaxed)
    }

    pub(crate) fn note_decoded(&self, decoded: BTreeMap<i32, u64>) {
        *self.decoded.lock() = decoded;
    }

    /// Notes the ends of the nodes' logs.
    pub(crate) fn note_ends(&self, ends: &BTreeMap<i32, u64>) {
        let decoded = self.decoded.lock();
        let undecoded = |(node, end): (&i32, &u64)| Some(end.saturating_sub(*decoded.get(node)?));
        self.undecoded_bytes.store(ends.iter().filter_map(undecoded).sum(), Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> ChangeLogFigures {
        let KeptChanges { first, next } = self.kept();
        let (bytes, oldest) = *self.size.lock();
        let undecoded_bytes = self.is_decoding().then(|| self.undecoded_bytes.load(Ordering::Relaxed));
        ChangeLogFigures { bytes, first, next, oldest, undecoded_bytes }
    }
}
