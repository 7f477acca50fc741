//! A change log of which only a few parts are read at a time, so that readers do not slow down writers much: each read
//! occupies a processor and the disk.
//!
//! Readers wait in the order of arrival. Each read is bounded, so none waits for long.

use engine::{ChangeLog, ChangePage, ChangeSelection, ChangesFuture, KeptChanges};
use model::DateTime;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// The maximum number of concurrent reads.
const READS_MAX: usize = 2;

pub(super) struct LimitedLog {
    log: Arc<dyn ChangeLog>,
    reads: Semaphore,
}

impl LimitedLog {
    pub(super) fn new(log: Arc<dyn ChangeLog>) -> Self {
        Self { log, reads: Semaphore::new(READS_MAX) }
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        self.reads.acquire().await.expect("the semaphore is never closed")
    }
}

impl ChangeLog for LimitedLog {
    fn kept(&self) -> KeptChanges {
        self.log.kept()
    }

    fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
        self.log.latest()
    }

    fn beginning(&self) -> ChangesFuture<'_, u64> {
        self.log.beginning()
    }

    fn read<'a>(&'a self, from: u64, selection: &'a ChangeSelection, bytes: usize) -> ChangesFuture<'a, ChangePage> {
        Box::pin(async move {
            let _permit = self.permit().await;
            self.log.read(from, selection, bytes).await
        })
    }

    fn find(&self, time: DateTime) -> ChangesFuture<'_, u64> {
        Box::pin(async move {
            let _permit = self.permit().await;
            self.log.find(time).await
        })
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.log.watch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the reads in progress, and their maximum.
    #[derive(Default)]
    struct CountingLog {
        reads: AtomicUsize,
        reads_max: AtomicUsize,
    }

    impl CountingLog {
        async fn count(&self) {
            let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
            self.reads_max.fetch_max(reads, Ordering::Relaxed);
            tokio::task::yield_now().await;
            self.reads.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl ChangeLog for CountingLog {
        fn kept(&self) -> KeptChanges {
            KeptChanges { first: 1, next: 1 }
        }

        fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
            Box::pin(async { Ok(KeptChanges { first: 1, next: 2 }) })
        }

        fn beginning(&self) -> ChangesFuture<'_, u64> {
            Box::pin(async { Ok(1) })
        }

        fn read<'a>(&'a self, from: u64, _: &'a ChangeSelection, _: usize) -> ChangesFuture<'a, ChangePage> {
            Box::pin(async move {
                self.count().await;
                Ok(ChangePage { transactions: Vec::new(), next: from })
            })
        }

        fn find(&self, _: DateTime) -> ChangesFuture<'_, u64> {
            Box::pin(async {
                self.count().await;
                Ok(1)
            })
        }

        fn watch(&self) -> watch::Receiver<u64> {
            watch::channel(1).1
        }
    }

    #[tokio::test]
    async fn few_parts_of_the_log_are_read_at_a_time() {
        let counting = Arc::new(CountingLog::default());
        let log = LimitedLog::new(Arc::clone(&counting) as Arc<dyn ChangeLog>);
        let selection = ChangeSelection::default();
        let reads = join_all((0..10).map(|from| log.read(from, &selection, 1)));
        let searches = join_all((0..10).map(|_| log.find(DateTime::MIN)));
        let (reads, searches) = tokio::join!(reads, searches);
        assert!(reads.iter().all(Result::is_ok) && searches.iter().all(Result::is_ok));
        assert_eq!(counting.reads_max.load(Ordering::Relaxed), READS_MAX);
    }

    #[tokio::test]
    async fn what_other_servers_have_read_is_known() {
        let log = LimitedLog::new(Arc::new(CountingLog::default()));
        assert_eq!((log.kept().next, log.latest().await.unwrap().next), (1, 2));
    }
}
