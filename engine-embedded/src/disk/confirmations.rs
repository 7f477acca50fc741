//! What a standby has confirmed to have on disk, and the wait for it.

use crate::sequence::Sequence;
use crate::sync::{Condvar, Mutex, now};
use std::time::Duration;

/// Lets writes wait until a standby has them on disk.
#[derive(Debug)]
pub(crate) struct Confirmations {
    /// The time after which a write stops waiting.
    timeout: Duration,
    confirmed: Mutex<Confirmed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Confirmed {
    /// The standby has every transaction up to this one on disk.
    through: Sequence,
    /// Whether the waits have ended because nothing more may be written.
    is_closed: bool,
}

impl Confirmations {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, confirmed: Mutex::new(Confirmed::default()), changed: Condvar::new() }
    }

    pub(crate) fn confirm(&self, through: Sequence) {
        let mut confirmed = self.confirmed.lock();
        if through > confirmed.through {
            confirmed.through = through;
            drop(confirmed);
            self.changed.notify_all();
        }
    }

    /// Returns the last confirmed transaction.
    pub(crate) fn through(&self) -> Sequence {
        self.confirmed.lock().through
    }

    /// Ends all waits, now and in the future. Nothing more is confirmed.
    pub(crate) fn close(&self) {
        self.confirmed.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Returns whether a transaction is confirmed.
    pub(crate) fn covers(&self, last: Sequence) -> bool {
        let confirmed = self.confirmed.lock();
        !confirmed.is_closed && confirmed.through >= last
    }

    /// Waits until a transaction is confirmed. Returns false if that takes too long, or after [`Self::close`].
    pub(crate) fn wait(&self, last: Sequence) -> bool {
        let deadline = now() + self.timeout;
        let mut confirmed = self.confirmed.lock();
        loop {
            if confirmed.is_closed {
                return false;
            }
            if confirmed.through >= last {
                return true;
            }
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return false;
            }
            self.changed.wait_for(&mut confirmed, left);
        }
    }
}
