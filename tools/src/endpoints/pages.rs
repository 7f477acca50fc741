//! Reads the pages of a table. While a page is used, the next one is read.

use super::endpoint::{Page, Query, Source};
use crate::runtime::TASK_FAILED;
use anyhow::Context;
use client::Continuation;
use engine::TableKey;
use model::limits::PAGE_RESULTS_MAX;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The pages of a query from a position on.
pub(crate) struct Pages {
    source: Arc<dyn Source>,
    table: TableKey,
    query: Arc<Query>,
    from: Option<Continuation>,
    is_complete: bool,
    /// Whether the page after the one that is returned next is read while that page is used. It is then in memory, too.
    pub(crate) reads_ahead: bool,
    /// Reads at most one page. The read stops when this is dropped.
    ahead: JoinSet<anyhow::Result<Page>>,
}

impl Pages {
    pub(crate) fn new(source: &Arc<dyn Source>, table: &TableKey, query: Query, from: Option<Continuation>) -> Self {
        Self {
            source: Arc::clone(source),
            table: table.clone(),
            query: Arc::new(query),
            from,
            is_complete: false,
            reads_ahead: true,
            ahead: JoinSet::new(),
        }
    }

    /// Returns `None` after the last page. Must not be called again after an error.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Page>> {
        if self.is_complete {
            return Ok(None);
        }
        let page = match self.ahead.join_next().await {
            Some(read) => read.context(TASK_FAILED)??,
            None => self.read().await?,
        };
        self.from.clone_from(&page.next);
        self.is_complete = page.next.is_none();
        if self.reads_ahead && !self.is_complete {
            self.ahead.spawn(self.read());
        }
        Ok(Some(page))
    }

    fn read(&self) -> impl Future<Output = anyhow::Result<Page>> + use<> {
        let (source, table, query) = (Arc::clone(&self.source), self.table.clone(), Arc::clone(&self.query));
        let from = self.from.clone();
        async move { source.page(&table, &query, from.as_ref(), PAGE_RESULTS_MAX).await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::faulty_source::{FaultySource, table};
    use std::sync::atomic::Ordering;

    fn read(source: &Arc<FaultySource>) -> Pages {
        Pages::new(&(Arc::clone(source) as Arc<dyn Source>), &table(), Query::default(), None)
    }

    async fn rows(source: &Arc<FaultySource>) -> anyhow::Result<Vec<String>> {
        let mut pages = read(source);
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await? {
            rows.extend(page.entities.iter().map(|entity| entity.key.row.as_str().to_owned()));
        }
        assert!(pages.next().await?.is_none(), "the end stays the end");
        Ok(rows)
    }

    #[tokio::test]
    async fn pages_are_complete_or_an_error() {
        let source = FaultySource::of_rows(7, 2).await;
        assert_eq!(rows(&source).await.unwrap(), ["00000", "00001", "00002", "00003", "00004", "00005", "00006"]);
        source.fail_at(2);
        assert_eq!(rows(&source).await.unwrap_err().to_string(), "planted");
        // A task that ends early must not look like the end of the table.
        source.panic_at(2);
        assert_eq!(rows(&source).await.unwrap_err().to_string(), TASK_FAILED);
    }

    #[tokio::test]
    async fn one_page_is_read_ahead_and_no_more() {
        let source = FaultySource::of_rows(7, 2).await;
        let mut pages = read(&source);
        pages.next().await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(source.pages.load(Ordering::Relaxed), 2);
        pages.reads_ahead = false;
        pages.next().await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(source.pages.load(Ordering::Relaxed), 2);
    }
}
