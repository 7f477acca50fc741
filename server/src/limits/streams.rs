//! The open streams of changes: limits their number, shows how far each has come, and ends them on shutdown.
//!
//! No account can hold more than half of the streams, and no signature or token more than a quarter, as with the memory
//! for bodies.
//!
//! This module must not depend on what a stream contains.

use crate::failure::Failure;
use model::AccountName;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use wire::ErrorCode;

#[derive(Debug)]
pub(crate) struct StreamRegistry {
    /// The streams. A free slot is `None`. There are as many slots as streams were ever open at once.
    slots: Mutex<Vec<Option<Stream>>>,
    streams_max: usize,
    refused: AtomicU64,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Stream {
    position: Arc<AtomicU64>,
    account: AccountName,
    /// The signature or the principal of a token; `None` for the account's keys.
    credential: Option<Box<str>>,
}

/// The slot of an open stream; freed when dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    registry: Arc<StreamRegistry>,
    number: usize,
    position: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StreamFigures {
    /// The number of the slot of each open stream, and its position.
    pub(crate) positions: Vec<(usize, u64)>,
    pub(crate) streams_max: usize,
    pub(crate) refused: u64,
}

impl StreamRegistry {
    pub(crate) fn new(streams_max: usize) -> Arc<Self> {
        let (slots, refused, stop) = (Mutex::default(), AtomicU64::new(0), watch::Sender::new(false));
        Arc::new(Self { slots, streams_max, refused, stop })
    }

    pub(crate) fn open(
        self: &Arc<Self>,
        account: &AccountName,
        credential: Option<&str>,
    ) -> Result<StreamSlot, Failure> {
        // A plus sign in a signature may have arrived as a space.
        let credential = credential.map(|credential| credential.replace(' ', "+").into_boxed_str());
        let mut slots = self.slots.lock();
        let of_account = || slots.iter().flatten().filter(|stream| stream.account == *account);
        let of_credential = || of_account().filter(|stream| stream.credential == credential);
        let free = slots.iter().position(Option::is_none);
        let number = free.unwrap_or(slots.len());
        if number >= self.streams_max
            || of_account().count() >= self.streams_max.div_ceil(2)
            || (credential.is_some() && of_credential().count() >= self.streams_max.div_ceil(4))
        {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let reason = "the maximum number of streams of changes is open (--max-change-streams), or the share that \
                          one account or one credential can hold";
            return Err(Failure::service(ErrorCode::ServerBusy).with_cause(reason));
        }
        let position = Arc::new(AtomicU64::new(0));
        let slot = Some(Stream { position: Arc::clone(&position), account: account.clone(), credential });
        match slots.get_mut(number) {
            Some(free) => *free = slot,
            None => slots.push(slot),
        }
        Ok(StreamSlot { registry: Arc::clone(self), number, position })
    }

    /// Ends all streams.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn figures(&self) -> StreamFigures {
        let position = |(number, slot): (usize, &Option<Stream>)| {
            slot.as_ref().map(|stream| (number, stream.position.load(Ordering::Relaxed)))
        };
        let positions = self.slots.lock().iter().enumerate().filter_map(position).collect();
        StreamFigures { positions, streams_max: self.streams_max, refused: self.refused.load(Ordering::Relaxed) }
    }
}

impl StreamSlot {
    /// Records how far the stream has come.
    pub(crate) fn advance(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Returns a receiver that reports when the stream must end.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.registry.stop.subscribe()
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.registry.slots.lock().get_mut(self.number) {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> AccountName {
        AccountName::new(name).unwrap()
    }

    #[test]
    fn an_account_and_a_credential_leave_streams_to_others() {
        let (registry, orchard, meadow) = (StreamRegistry::new(8), account("orchard"), account("meadow"));
        let hold = |account: &AccountName, credential: Option<&str>| {
            std::iter::from_fn(|| registry.open(account, credential).ok()).collect::<Vec<_>>()
        };
        let by_signature = hold(&orchard, Some("signa ture"));
        assert!(registry.open(&orchard, Some("signa+ture")).is_err());
        let by_another = registry.open(&orchard, Some("another")).unwrap();
        let by_key = hold(&orchard, None);
        let by_others = hold(&meadow, None);
        assert_eq!((by_signature.len(), by_key.len(), by_others.len()), (2, 1, 4));
        drop(by_another);
        assert!(registry.open(&orchard, None).is_ok());
    }

    #[test]
    fn slots_are_limited_and_used_again() {
        let registry = StreamRegistry::new(2);
        let open = |name| registry.open(&account(name), None);
        let (first, second) = (open("first").unwrap(), open("second").unwrap());
        first.advance(7);
        second.advance(8);
        assert_eq!(open("third").unwrap_err().error.code, ErrorCode::ServerBusy);
        assert_eq!(registry.figures().positions, [(0, 7), (1, 8)]);
        drop(first);
        assert_eq!(registry.figures().positions, [(1, 8)]);
        open("third").unwrap().advance(9);
        let figures = registry.figures();
        assert_eq!((figures.positions, figures.streams_max, figures.refused), (vec![(1, 8)], 2, 1));
        assert!(StreamRegistry::new(0).open(&account("first"), None).is_err());
    }
}
