//! The open streams of changes: limits their number, shows how far each has come, and ends them on shutdown.
//!
//! This module must not depend on what a stream contains.

use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::ErrorCode;

#[derive(Debug)]
pub(crate) struct StreamRegistry {
    /// The positions of the streams. A free slot is `None`. There are as many slots as streams were ever open at once.
    slots: Mutex<Vec<Option<Arc<AtomicU64>>>>,
    streams_max: usize,
    refused: AtomicU64,
    stop: watch::Sender<bool>,
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

    pub(crate) fn open(self: &Arc<Self>) -> Result<StreamSlot, Failure> {
        let mut slots = self.lock();
        let free = slots.iter().position(Option::is_none);
        let number = free.unwrap_or(slots.len());
        if number >= self.streams_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let reason = "the maximum number of streams of changes is open (--max-change-streams)";
            return Err(Failure::service(ErrorCode::ServerBusy).with_reason(reason));
        }
        let position = Arc::new(AtomicU64::new(0));
        let slot = Some(Arc::clone(&position));
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
        let position = |(number, slot): (usize, &Option<Arc<AtomicU64>>)| {
            slot.as_ref().map(|position| (number, position.load(Ordering::Relaxed)))
        };
        let positions = self.lock().iter().enumerate().filter_map(position).collect();
        StreamFigures { positions, streams_max: self.streams_max, refused: self.refused.load(Ordering::Relaxed) }
    }

    /// The slots are consistent at every moment, so a panic elsewhere does no harm.
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<AtomicU64>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
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
        if let Some(slot) = self.registry.lock().get_mut(self.number) {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_and_used_again() {
        let registry = StreamRegistry::new(2);
        let (first, second) = (registry.open().unwrap(), registry.open().unwrap());
        first.advance(7);
        second.advance(8);
        assert_eq!(registry.open().unwrap_err().error.code, ErrorCode::ServerBusy);
        assert_eq!(registry.figures().positions, [(0, 7), (1, 8)]);
        drop(first);
        assert_eq!(registry.figures().positions, [(1, 8)]);
        registry.open().unwrap().advance(9);
        let figures = registry.figures();
        assert_eq!((figures.positions, figures.streams_max, figures.refused), (vec![(1, 8)], 2, 1));
        assert!(StreamRegistry::new(0).open().is_err());
    }
}
