//! How much the server admits at one time: requests in work, and memory for the bodies of requests and responses.
//!
//! Requests beyond these limits wait a little, in the order of their arrival, and are then refused as "server busy". So
//! neither a burst of requests nor clients that read slowly can make the server use more memory than configured. Only the
//! response to a write may exceed the limit.

use crate::request::Failure;
use bytes::Bytes;
use model::limits::{PAGE_ENTITY_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorCode;

/// How long a request waits for a permit before it is refused.
const WAIT: Duration = Duration::from_secs(1);
/// Bodies up to this size are not counted, in bytes. A connection has one at most.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// The size that a page is counted as until it is known, in bytes: its entities, and as much again for names and escapes.
pub(crate) const PAGE_BYTES: usize = 2 * PAGE_ENTITY_BYTES_MAX;
/// Least memory for bodies, in bytes: enough for one page, or for one body and the records made of it.
pub const MEMORY_BYTES_MIN: usize = 2 * PAGE_BYTES;
/// Memory is counted in units of this many bytes, because a semaphore has a bounded number of permits.
const UNIT_BYTES: usize = 1024;

const _: () = assert!(2 * REQUEST_BODY_BYTES_MAX <= MEMORY_BYTES_MIN);

/// The permits for requests and for memory.
#[derive(Debug)]
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    units: usize,
    requests_max: usize,
    refused_requests: AtomicU64,
    refused_memory: AtomicU64,
}

/// The permits in use at one moment, and how many requests were refused so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AdmissionFigures {
    pub(crate) requests: u64,
    pub(crate) requests_max: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_bytes_max: u64,
    pub(crate) refused_requests: u64,
    pub(crate) refused_memory: u64,
}

/// Permission for one request to be in work; released when dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    _permit: OwnedSemaphorePermit,
}

/// Memory that a request holds; released when dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryPermit(Option<OwnedSemaphorePermit>);

impl Admission {
    pub(crate) fn new(requests_max: usize, memory_bytes: usize) -> Self {
        let units = (memory_bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        let requests_max = requests_max.min(Semaphore::MAX_PERMITS);
        Self {
            requests: Arc::new(Semaphore::new(requests_max)),
            memory: Arc::new(Semaphore::new(units)),
            units,
            requests_max,
            refused_requests: AtomicU64::new(0),
            refused_memory: AtomicU64::new(0),
        }
    }

    /// The figures at this moment.
    pub(crate) fn figures(&self) -> AdmissionFigures {
        AdmissionFigures {
            requests: used(self.requests_max, &self.requests) as u64,
            requests_max: self.requests_max as u64,
            memory_bytes: (used(self.units, &self.memory) * UNIT_BYTES) as u64,
            memory_bytes_max: (self.units * UNIT_BYTES) as u64,
            refused_requests: self.refused_requests.load(Ordering::Relaxed),
            refused_memory: self.refused_memory.load(Ordering::Relaxed),
        }
    }

    /// A permit for a request.
    pub(crate) async fn request(&self) -> Result<RequestPermit, Failure> {
        take(&self.requests, 1, &self.refused_requests).await.map(|permit| RequestPermit { _permit: permit })
    }

    /// Memory for this many bytes.
    pub(crate) async fn memory(&self, bytes: usize) -> Result<MemoryPermit, Failure> {
        let units = self.units_of(bytes);
        if units == 0 {
            return Ok(MemoryPermit::default());
        }
        take(&self.memory, units, &self.refused_memory).await.map(|permit| MemoryPermit(Some(permit)))
    }

    /// Makes a permit fit the size of the response: releases what is too much, or acquires what is missing.
    pub(crate) async fn settle(&self, mut permit: MemoryPermit, bytes: usize) -> Result<MemoryPermit, Failure> {
        let missing = permit.fit(self.units_of(bytes));
        if missing > 0 {
            permit.add(take(&self.memory, missing, &self.refused_memory).await?);
        }
        Ok(permit)
    }

    /// As [`Self::settle`], for the response to a request that may have written. It never fails: "server busy" would mean
    /// that nothing was written, and the client would write again. It acquires as much of the missing memory as is free.
    ///
    /// The excess is bounded: twice the size of the body was acquired before the operation began, and a response that shows
    /// what was written is a few times as long as the body.
    pub(crate) fn settle_written(&self, mut permit: MemoryPermit, bytes: usize) -> MemoryPermit {
        let missing = permit.fit(self.units_of(bytes));
        if missing > 0
            && let Some(free) = take_free(&self.memory, missing)
        {
            permit.add(free);
        }
        permit
    }

    /// The units for a number of bytes. A response that is larger than all memory for bodies counts as all of it.
    fn units_of(&self, bytes: usize) -> usize {
        if bytes <= UNCOUNTED_BYTES { 0 } else { bytes.div_ceil(UNIT_BYTES).min(self.units) }
    }
}

impl MemoryPermit {
    /// Releases units beyond this number; returns how many are missing.
    fn fit(&mut self, units: usize) -> usize {
        let held = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if let Some(permit) = &mut self.0 {
            drop(permit.split(held.saturating_sub(units)));
        }
        units.saturating_sub(held)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(permit) => permit.merge(more),
            None => self.0 = Some(more),
        }
    }
}

fn used(most: usize, semaphore: &Semaphore) -> usize {
    most.saturating_sub(semaphore.available_permits())
}

async fn take(semaphore: &Arc<Semaphore>, count: usize, refused: &AtomicU64) -> Result<OwnedSemaphorePermit, Failure> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if let Ok(permit) = Arc::clone(semaphore).try_acquire_many_owned(count) {
        return Ok(permit);
    }
    if let Ok(Ok(permit)) = tokio::time::timeout(WAIT, Arc::clone(semaphore).acquire_many_owned(count)).await {
        return Ok(permit);
    }
    refused.fetch_add(1, Ordering::Relaxed);
    Err(Failure::service(ErrorCode::ServerBusy)
        .because("the limit of requests in work (--max-requests) or of memory for bodies (--body-mib) is reached"))
}

/// Acquires as much of the count as is free at this moment; `None` if nothing is.
fn take_free(semaphore: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    loop {
        let free = u32::try_from(count.min(semaphore.available_permits())).unwrap_or(u32::MAX);
        if free == 0 {
            return None;
        }
        // Another task may have acquired some in between, so that less is free.
        if let Ok(permit) = Arc::clone(semaphore).try_acquire_many_owned(free) {
            return Some(permit);
        }
    }
}

/// The size of a body in bytes.
pub(crate) fn size(segments: &[Bytes]) -> usize {
    segments.iter().map(Bytes::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_busy<T>(result: &Result<T, Failure>) -> bool {
        matches!(result, Err(failure) if failure.error.code == ErrorCode::ServerBusy)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_limit_wait_and_are_refused() {
        let admission = Admission::new(1, 64 * 1024);
        let place = admission.request().await.unwrap();
        assert!(is_busy(&admission.request().await));
        let (next, ()) = tokio::join!(admission.request(), async {
            tokio::time::sleep(WAIT / 2).await;
            drop(place);
        });
        assert!(next.is_ok());

        let share = admission.memory(40 * 1024).await.unwrap();
        assert!(is_busy(&admission.memory(40 * 1024).await));
        assert!(admission.memory(UNCOUNTED_BYTES).await.is_ok(), "small bodies are not counted");
        let share = admission.settle(share, 20 * 1024).await.unwrap();
        let other = admission.memory(40 * 1024).await.unwrap();
        assert!(is_busy(&admission.settle(share, 30 * 1024).await));
        drop(other);
        assert!(
            admission.memory(10 * 1024 * 1024).await.is_ok(),
            "a body that is larger than all memory counts as all of it"
        );
        let figures = admission.figures();
        assert_eq!((figures.refused_requests, figures.refused_memory), (1, 2));
        assert_eq!((figures.memory_bytes, figures.memory_bytes_max), (0, 64 * 1024), "everything was released");
        let _place = admission.request().await;
        assert_eq!((admission.figures().requests, admission.figures().requests_max), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_response_to_a_write_takes_what_is_free_without_waiting_and_is_never_refused() {
        let admission = Admission::new(1, 64 * 1024);
        let began = tokio::time::Instant::now();
        let share = admission.memory(20 * 1024).await.unwrap();
        let other = admission.memory(40 * 1024).await.unwrap();
        let share = admission.settle_written(share, 60 * 1024);
        assert_eq!(admission.figures().memory_bytes, 64 * 1024, "the 4 KiB that were free were taken");
        let beyond = admission.settle_written(MemoryPermit::default(), 60 * 1024);
        drop(beyond);
        drop(share);
        assert_eq!(admission.figures().memory_bytes, 40 * 1024, "what was not acquired is not released");
        let share = admission.settle_written(admission.memory(20 * 1024).await.unwrap(), 18 * 1024);
        assert_eq!(admission.figures().memory_bytes, 58 * 1024, "what is too much is released at once");
        drop((share, other));
        assert_eq!(admission.figures(), Admission::new(1, 64 * 1024).figures());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
