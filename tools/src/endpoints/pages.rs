//! Reads the pages of a table, one ahead: while a page is used, the next one is read.

use super::endpoint::{Page, Query, Source};
use crate::runtime::TASK_FAILED;
use anyhow::anyhow;
use client::Continuation;
use engine::TableKey;
use model::limits::PAGE_RESULTS_MAX;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The pages of a query from a position on. At most one page is in memory in addition to the page that was returned
/// last.
pub(crate) struct Pages {
    pages: mpsc::Receiver<anyhow::Result<Page>>,
    is_complete: bool,
}

impl Pages {
    pub(crate) fn read(
        source: &Arc<dyn Source>,
        table: &TableKey,
        query: Query,
        mut from: Option<Continuation>,
    ) -> Self {
        let (sender, pages) = mpsc::channel(1);
        let (source, table) = (Arc::clone(source), table.clone());
        // The task stops when everything has been read, or when the receiver is dropped.
        tokio::spawn(async move {
            while let Ok(room) = sender.reserve().await {
                let page = tokio::select! {
                    page = source.page(&table, &query, from.as_ref(), PAGE_RESULTS_MAX) => page,
                    () = sender.closed() => return,
                };
                from = page.as_ref().ok().and_then(|page| page.next.clone());
                room.send(page);
                if from.is_none() {
                    return;
                }
            }
        });
        Self { pages, is_complete: false }
    }

    /// Returns `None` after the last page. Must not be called again after an error.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Page>> {
        if self.is_complete {
            return Ok(None);
        }
        let page = self.pages.recv().await.ok_or_else(|| anyhow!(TASK_FAILED))??;
        self.is_complete = page.next.is_none();
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::faulty_source::{FaultySource, table};
    use std::sync::atomic::Ordering;

    fn read(source: &Arc<FaultySource>) -> Pages {
        Pages::read(&(Arc::clone(source) as Arc<dyn Source>), &table(), Query::default(), None)
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
        drop(pages);
    }
}
