//! A source in memory that fails at a chosen page, for tests.

use super::endpoint::{Endpoint, Page, Query, Source, WriteMode};
use super::engine::EngineEndpoint;
use anyhow::bail;
use async_trait::async_trait;
use client::{Continuation, PropertyBag};
use engine::{Memory, TableKey};
use model::clock::SystemClock;
use model::{
    AccountName, EdmValue, EntityKey, KeyText, RecordBuilder, ServiceProperties, StoredAccessPolicies, TableName,
    TableSettings,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct FaultySource {
    inner: EngineEndpoint,
    page_size: usize,
    /// The number of pages that were requested.
    pub(crate) pages: AtomicUsize,
    fails_at: AtomicUsize,
    panics_at: AtomicUsize,
}

pub(crate) fn table() -> TableKey {
    TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("cars").unwrap() }
}

impl FaultySource {
    /// Returns a source with a table of one partition, which never fails.
    pub(crate) async fn of_rows(rows: usize, page_size: usize) -> Arc<Self> {
        let inner = EngineEndpoint(Arc::new(Memory::new(SystemClock)));
        inner.create_table(&table()).await.unwrap();
        for row in 0..rows {
            let text = |text: &str| KeyText::new(text).unwrap();
            let mut properties = RecordBuilder::default();
            properties.push("Number", EdmValue::Int64(i64::try_from(row).unwrap()));
            let key = EntityKey { partition: text("p"), row: text(&format!("{row:05}")) };
            let entity = PropertyBag::of_properties(key, properties);
            inner.write(&table(), vec![entity], WriteMode::Replace).await.unwrap();
        }
        let [pages, fails_at, panics_at] = [0, usize::MAX, usize::MAX].map(AtomicUsize::new);
        Arc::new(Self { inner, page_size, pages, fails_at, panics_at })
    }

    /// Fails instead of returning the page with this number, counted from now on, and all following pages.
    pub(crate) fn fail_at(&self, number: usize) {
        self.pages.store(0, Ordering::Relaxed);
        self.fails_at.store(number, Ordering::Relaxed);
    }

    pub(crate) fn panic_at(&self, number: usize) {
        self.fail_at(usize::MAX);
        self.panics_at.store(number, Ordering::Relaxed);
    }
}

#[async_trait]
impl Source for FaultySource {
    fn only_account(&self) -> Option<&AccountName> {
        None
    }

    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>> {
        self.inner.accounts().await
    }

    async fn tables(&self, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        self.inner.tables(account).await
    }

    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page> {
        let number = self.pages.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.panics_at.load(Ordering::Relaxed), "planted");
        if number >= self.fails_at.load(Ordering::Relaxed) {
            bail!("planted");
        }
        self.inner.page(table, query, from, limit.min(self.page_size)).await
    }

    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies> {
        self.inner.policies(table).await
    }

    async fn settings(&self, table: &TableKey) -> anyhow::Result<Option<TableSettings>> {
        self.inner.settings(table).await
    }

    async fn properties(&self, account: &AccountName) -> anyhow::Result<ServiceProperties> {
        self.inner.properties(account).await
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.inner.close().await
    }
}
