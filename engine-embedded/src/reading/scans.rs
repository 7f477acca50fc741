//! Limits the number of concurrent scans, and the time after which a running scan lets waiting ones take a turn.
//!
//! A scan needs a processor and little else, so there is about one slot per processor. More slots would not make scans
//! faster, and would take processor time from the threads that run all other requests. A page of a thousand entities
//! takes a millisecond or two, but a filter without matches may take seconds. A scan that has held its slot for a time
//! slice therefore gives it up if other scans are waiting, and resumes later.
//!
//! Invariants:
//!
//! 1. A waiting scan holds no thread.
//! 2. A new scan waits for the scans that started waiting before it, and for at most as many resuming scans as there
//!    are slots, each for one slice. Any other resuming scans first wait for each other.
//! 3. Resuming scans get their turns in the order in which they started waiting.

use engine::Fault;
use engine::parts::monotonic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The time for which a scan keeps its slot while others wait. It is enough for several pages of a thousand entities,
/// and many times the cost of resuming later.
const SLICE: Duration = Duration::from_millis(10);

pub(crate) struct Scans {
    slots: Arc<Semaphore>,
    /// As many permits as there are slots, for resuming scans that wait for a slot or have one.
    resume_permits: Arc<Semaphore>,
    slots_max: usize,
    slice: Duration,
    waiting: Arc<AtomicUsize>,
}

/// The scan holds its slot until this value is dropped.
pub(crate) struct ScanSlot {
    _permit: OwnedSemaphorePermit,
    _resume_permit: Option<OwnedSemaphorePermit>,
    slice_end: Instant,
    waiting: Arc<AtomicUsize>,
}

impl Scans {
    pub(crate) fn new(slots_max: usize) -> Self {
        let slots_max = slots_max.clamp(1, Semaphore::MAX_PERMITS);
        let semaphore = || Arc::new(Semaphore::new(slots_max));
        Self { slots: semaphore(), resume_permits: semaphore(), slots_max, slice: SLICE, waiting: Arc::default() }
    }

    pub(crate) async fn begin(&self) -> Result<ScanSlot, Fault> {
        let _waiting = WaitingCount::begin(&self.waiting);
        Ok(self.slot(acquire(&self.slots).await?, None))
    }

    /// Returns `None` if no slot becomes free before the deadline.
    pub(crate) async fn resume(&self, deadline: Instant) -> Result<Option<ScanSlot>, Fault> {
        let _waiting = WaitingCount::begin(&self.waiting);
        let slot = async {
            let resume_permit = acquire(&self.resume_permits).await?;
            Ok(self.slot(acquire(&self.slots).await?, Some(resume_permit)))
        };
        tokio::time::timeout_at(deadline.into(), slot).await.ok().transpose()
    }

    pub(crate) fn running(&self) -> usize {
        self.slots_max.saturating_sub(self.slots.available_permits())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Makes every scan give up its slot as soon as others wait, so that tests do not depend on [`SLICE`].
    #[cfg(test)]
    pub(crate) fn without_slices(&mut self) {
        self.slice = Duration::ZERO;
    }

    fn slot(&self, permit: OwnedSemaphorePermit, resume_permit: Option<OwnedSemaphorePermit>) -> ScanSlot {
        let slice_end = monotonic::now() + self.slice;
        ScanSlot { _permit: permit, _resume_permit: resume_permit, slice_end, waiting: Arc::clone(&self.waiting) }
    }
}

impl ScanSlot {
    pub(crate) fn must_yield(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && monotonic::now() >= self.slice_end
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
    Arc::clone(semaphore).acquire_owned().await.map_err(|_| Fault::Closed)
}

struct WaitingCount<'a>(&'a AtomicUsize);

impl<'a> WaitingCount<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_scan_that_begins_waits_for_no_more_of_those_that_continue_than_there_are_places() {
        let scans = Arc::new(Scans::new(1));
        let order = Arc::new(Mutex::new(Vec::new()));
        let holder = scans.begin().await.unwrap();
        let mut tasks = Vec::new();
        for (waiting, name) in (1..).zip(["continues 1", "continues 2", "continues 3", "begins 1", "begins 2"]) {
            let (scans, order) = (Arc::clone(&scans), Arc::clone(&order));
            let waits = Arc::clone(&scans);
            tasks.push(tokio::spawn(async move {
                let slot = match name.strip_prefix("continues") {
                    Some(_) => scans.resume(monotonic::now() + LONG).await.unwrap().unwrap(),
                    None => scans.begin().await.unwrap(),
                };
                order.lock().unwrap().push(name);
                drop(slot);
            }));
            // On a single thread, the spawned task reaches its wait before the test continues.
            tokio::task::yield_now().await;
            assert_eq!((waits.waiting(), waits.running()), (waiting, 1));
        }
        drop(holder);
        for task in tasks {
            task.await.unwrap();
        }
        let expected = ["continues 1", "begins 1", "begins 2", "continues 2", "continues 3"];
        assert_eq!(*order.lock().unwrap(), expected);
        assert_eq!((scans.waiting(), scans.running()), (0, 0));
    }

    #[tokio::test]
    async fn a_place_is_kept_as_long_as_nobody_waits() {
        let mut scans = Scans::new(1);
        scans.without_slices();
        let slot = scans.begin().await.unwrap();
        assert!(!slot.must_yield());
        let deadline = monotonic::now().checked_sub(LONG).unwrap();
        let waiting = scans.begin();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("no slot is free"),
            () = std::future::ready(()) => {}
        }
        assert!(slot.must_yield());
        assert!(scans.resume(deadline).await.unwrap().is_none(), "its deadline has passed");
        drop(slot);
        assert!(!waiting.await.unwrap().must_yield());
    }
}
