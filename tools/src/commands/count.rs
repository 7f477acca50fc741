//! Counts the entities of a table: several key ranges in parallel, page by page.

use super::service_error::from_service;
use crate::endpoints::{PageReader, Query, split};
use crate::runtime::next_result;
use client::TableService;
use model::limits::PAGE_RESULTS_MAX;
use model::name::PARTITION_KEY;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Returns the number of matching entities. Reads up to `parallel` ranges concurrently, and stops at the first failure.
pub(super) async fn count(
    service: &TableService,
    table: &str,
    filter: Option<&str>,
    parallel: usize,
) -> anyhow::Result<u64> {
    let table: Arc<dyn PageReader> = Arc::new(service.table(table));
    let counted = count_ranges(&table, filter, parallel).await;
    counted.map_err(|error| error.downcast().map_or_else(|error| error, from_service(service)))
}

async fn count_ranges(table: &Arc<dyn PageReader>, filter: Option<&str>, parallel: usize) -> anyhow::Result<u64> {
    let mut pending = split(table, filter, parallel).await?.into_iter();
    let mut running = JoinSet::new();
    let mut count = 0;
    loop {
        while running.len() < parallel
            && let Some(range) = pending.next()
        {
            let query = Query { filter: range.filter(filter), select: vec![PARTITION_KEY.to_owned()] };
            running.spawn(count_pages(Arc::clone(table), query));
        }
        match next_result(&mut running).await? {
            Some(entities) => count += entities,
            None => return Ok(count),
        }
    }
}

async fn count_pages(table: Arc<dyn PageReader>, query: Query) -> anyhow::Result<u64> {
    let (mut count, mut next) = (0, None);
    loop {
        let page = table.page(&query, next.as_ref(), PAGE_RESULTS_MAX).await?;
        count += page.entities.len() as u64;
        match page.next {
            None => return Ok(count),
            following => next = following,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{Endpoint, EngineEndpoint, Page, SourceTable, WriteMode};
    use async_trait::async_trait;
    use client::{Continuation, PropertyBag};
    use model::clock::SystemClock;
    use model::{AccountName, EntityKey, RecordBuilder, TableName};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use store::{Memory, TableKey};

    /// A table that records how many pages are read concurrently, and fails at one of them.
    struct Observed {
        table: SourceTable,
        current: AtomicUsize,
        most: AtomicUsize,
        pages_left: AtomicUsize,
    }

    #[async_trait]
    impl PageReader for Observed {
        async fn page(&self, query: &Query, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page> {
            let left = self.pages_left.fetch_sub(1, Ordering::Relaxed);
            anyhow::ensure!(left > 0, "the service is down");
            let current = self.current.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(current, Ordering::Relaxed);
            // Let all other tasks run until they wait.
            tokio::task::yield_now().await;
            self.current.fetch_sub(1, Ordering::Relaxed);
            self.table.page(query, from, limit).await
        }
    }

    async fn table(pages_left: usize) -> Arc<Observed> {
        let source = Arc::new(EngineEndpoint(Memory::new(SystemClock)));
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("cars").unwrap() };
        source.create_table(&table).await.unwrap();
        for number in 0..6000 {
            let key = EntityKey::new(&format!("p{:03}", number / 20), &format!("{:02}", number % 20)).unwrap();
            let entity = PropertyBag::of_properties(key, RecordBuilder::default());
            source.write(&table, vec![entity], WriteMode::Replace).await.unwrap();
        }
        let (table, pages_left) = (SourceTable { source, table }, AtomicUsize::new(pages_left));
        Arc::new(Observed { table, current: AtomicUsize::new(0), most: AtomicUsize::new(0), pages_left })
    }

    #[tokio::test]
    async fn as_many_ranges_as_wanted_are_read_at_the_same_time() {
        for parallel in [1, 3, 8] {
            let observed = table(usize::MAX).await;
            let reader = Arc::clone(&observed) as Arc<dyn PageReader>;
            assert_eq!(count_ranges(&reader, None, parallel).await.unwrap(), 6000);
            assert_eq!(observed.most.load(Ordering::Relaxed), parallel);
            assert_eq!(count_ranges(&reader, Some("RowKey ge '15'"), parallel).await.unwrap(), 1500);
            assert_eq!(count_ranges(&reader, Some("PartitionKey eq 'p007'"), parallel).await.unwrap(), 20);
        }
    }

    #[tokio::test]
    async fn a_page_that_fails_ends_the_count() {
        let observed = table(usize::MAX).await;
        let reader = Arc::clone(&observed) as Arc<dyn PageReader>;
        count_ranges(&reader, None, 4).await.unwrap();
        let pages = usize::MAX - observed.pages_left.load(Ordering::Relaxed);
        for pages in [0, 1, pages / 2, pages - 1] {
            observed.pages_left.store(pages, Ordering::Relaxed);
            let error = count_ranges(&reader, None, 4).await.unwrap_err();
            assert_eq!(error.to_string(), "the service is down");
        }
    }
}
