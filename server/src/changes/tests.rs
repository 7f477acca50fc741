//! Tests of the change feed, on a log that is not kept by an engine.

use super::*;
use engine::ChangesFuture;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A log without changes, in which every transaction is of the same minute.
#[derive(Default)]
pub(crate) struct EmptyLog {
    pub(crate) first: AtomicU64,
    pub(crate) next: u64,
    /// The number of transactions that are dropped during the first search or read.
    pub(crate) drops: AtomicU64,
    pub(crate) beginning: u64,
    pub(crate) reads: AtomicUsize,
    pub(crate) reads_max: AtomicUsize,
}

impl EmptyLog {
    async fn examine(&self) -> u64 {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        self.reads_max.fetch_max(reads, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.reads.fetch_sub(1, Ordering::Relaxed);
        let dropped = self.drops.swap(0, Ordering::Relaxed);
        self.first.fetch_add(dropped, Ordering::Relaxed) + dropped
    }
}

impl ChangeLog for EmptyLog {
    fn kept(&self) -> KeptChanges {
        KeptChanges { first: self.first.load(Ordering::Relaxed), next: self.next }
    }

    fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
        Box::pin(async { Ok(self.kept()) })
    }

    fn beginning(&self) -> ChangesFuture<'_, u64> {
        Box::pin(async { Ok(self.beginning) })
    }

    fn read<'a>(&'a self, from: u64, _: &'a ChangeSelection, _: usize) -> ChangesFuture<'a, ChangePage> {
        Box::pin(async move {
            let first = self.examine().await;
            let page = ChangePage { transactions: Vec::new(), next: from + 1 };
            if from < first { Err(ChangesError::Dropped(first)) } else { Ok(page) }
        })
    }

    fn find(&self, _: DateTime) -> ChangesFuture<'_, u64> {
        Box::pin(async { Ok(self.examine().await) })
    }

    fn watch(&self) -> watch::Receiver<u64> {
        watch::channel(self.next).1
    }
}

/// Returns the start of a reader of a log that began with transaction 3.
async fn start(first: u64, drops: u64, position: Option<u64>) -> Result<u64, ErrorCode> {
    let (first, drops) = (AtomicU64::new(first), AtomicU64::new(drops));
    let log = EmptyLog { first, next: 9, drops, beginning: 3, ..EmptyLog::default() };
    let feed = ChangeFeed::new(Arc::new(log), 1);
    let position = position.map(ChangePosition::start_of);
    let bounds = ChangeBounds { position, minute: Some(DateTime::MIN), has_lower: true, ..ChangeBounds::default() };
    feed.start(&bounds).await.map(|start| start.transaction).map_err(|failure| failure.error.code)
}

#[tokio::test]
async fn a_minute_before_the_log_began_is_its_beginning_unless_something_was_dropped() {
    assert_eq!(start(3, 0, None).await, Ok(3));
    assert_eq!(start(4, 0, None).await, Err(ErrorCode::PositionExpired));
    assert_eq!(start(3, 1, None).await, Err(ErrorCode::PositionExpired), "it is dropped during the search");
    // A former log had such a position.
    assert_eq!(start(3, 0, Some(2)).await, Err(ErrorCode::PositionExpired));
    assert_eq!(start(3, 0, Some(5)).await, Ok(5));
}

#[tokio::test]
async fn few_parts_of_the_log_are_read_at_a_time() {
    let log = Arc::new(EmptyLog::default());
    let feed = ChangeFeed::new(Arc::clone(&log) as _, 1);
    let selection = ChangeSelection::default();
    let reads = join_all((0..10).map(|from| feed.read(from, &selection, 1)));
    let searches = join_all((0..10).map(|_| feed.find(DateTime::MIN)));
    let (reads, searches) = tokio::join!(reads, searches);
    assert!(reads.iter().all(Result::is_ok) && searches.iter().all(Result::is_ok));
    assert_eq!(log.reads_max.load(Ordering::Relaxed), READS_MAX);
}
