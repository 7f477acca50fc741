//! A backup as a source for `rowhouse copy`.

use super::repository::{BackupManifest, Repository, TableContent, check_entity, describe, each_entity};
use crate::endpoints::{Page, Query, Source, copy_entity};
use anyhow::{Context, anyhow, bail, ensure};
use async_trait::async_trait;
use client::{Continuation, PropertyBag};
use engine::{SnapshotTable, TableKey};
use model::{AccountName, EntityView, Position, ServiceProperties, StoredAccessPolicies, TableName, TableSettings};
use parking_lot::Mutex;
use std::collections::HashMap;

struct BackupTable {
    table: SnapshotTable,
    content: TableContent,
    /// The end of the last page, kept so that the next page does not read the same chunk again.
    last_page: Mutex<Option<PageEnd>>,
}

struct PageEnd {
    next: Continuation,
    index: usize,
    content: Vec<u8>,
}

pub(super) struct BackupSource {
    repository: Repository,
    tables: HashMap<(AccountName, String), BackupTable>,
}

impl BackupSource {
    pub(super) fn new(repository: Repository, manifest: BackupManifest) -> anyhow::Result<Self> {
        let mut tables = HashMap::new();
        for content in manifest.tables {
            let table = content.table.decode()?;
            tables.insert(name(&table.table), BackupTable { table, content, last_page: Mutex::default() });
        }
        Ok(Self { repository, tables })
    }

    fn table(&self, key: &TableKey) -> anyhow::Result<&BackupTable> {
        self.tables.get(&name(key)).with_context(|| format!("the backup has no table '{}'", key.name))
    }

    fn read(&self, table: &BackupTable, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page> {
        let last_page = table.last_page.lock().take();
        let last_page = last_page.filter(|last_page| from == Some(&last_page.next));
        let start = from.map(|from| Position::new(&from.partition, from.row.as_deref().unwrap_or_default()));
        let mut index = last_page.as_ref().map_or(0, |last_page| last_page.index);
        let mut known_content = last_page.map(|last_page| last_page.content);
        let mut page = Page::default();
        while index < table.content.chunks.len() {
            let content = match known_content.take() {
                Some(content) => content,
                None => self.repository.chunk(&table.content, index)?,
            };
            let mut next = None;
            each_entity(&content, |bytes| {
                if next.is_some() || start.as_ref().is_some_and(|start| bytes.0 < start.as_bytes()) {
                    return Ok(());
                }
                let entity = entity(bytes).with_context(|| describe(bytes))?;
                if page.entities.len() < limit {
                    page.entities.push(entity);
                } else {
                    next = Some(continuation(&entity));
                }
                Ok(())
            })?;
            if let Some(next) = next {
                page.next = Some(next.clone());
                let end = Some(PageEnd { next, index, content });
                *table.last_page.lock() = end;
                return Ok(page);
            }
            index += 1;
        }
        Ok(page)
    }
}

fn name(key: &TableKey) -> (AccountName, String) {
    (key.account.clone(), key.name.folded().to_owned())
}

fn continuation(entity: &PropertyBag) -> Continuation {
    let (partition, row) = (entity.key.partition.as_str().to_owned(), entity.key.row.as_str().to_owned());
    Continuation { partition, row: Some(row) }
}

fn entity(bytes: (&[u8], &[u8])) -> anyhow::Result<PropertyBag> {
    check_entity(bytes)?;
    let view = EntityView::new(bytes.0, bytes.1).map_err(|_| anyhow!("it is malformed"))?;
    copy_entity(&view, &[]).context("it is malformed")
}

#[async_trait]
impl Source for BackupSource {
    fn only_account(&self) -> Option<&AccountName> {
        None
    }

    async fn accounts(&self) -> anyhow::Result<Vec<AccountName>> {
        let mut accounts: Vec<_> = self.tables.values().map(|table| table.table.table.account.clone()).collect();
        accounts.sort_unstable();
        accounts.dedup();
        Ok(accounts)
    }

    async fn tables(&self, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let tables = self.tables.values().map(|table| &table.table.table);
        Ok(tables.filter(|table| table.account == *account).map(|table| table.name.clone()).collect())
    }

    async fn page(
        &self,
        table: &TableKey,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> anyhow::Result<Page> {
        ensure!(*query == Query::default(), "a backup supports no queries: its tables are read as a whole");
        let table = self.table(table)?;
        tokio::task::block_in_place(|| self.read(table, from, limit))
    }

    async fn policies(&self, table: &TableKey) -> anyhow::Result<StoredAccessPolicies> {
        Ok(self.table(table)?.table.policies.clone())
    }

    async fn settings(&self, table: &TableKey) -> anyhow::Result<Option<TableSettings>> {
        Ok(Some(self.table(table)?.table.settings.clone()))
    }

    async fn properties(&self, _: &AccountName) -> anyhow::Result<ServiceProperties> {
        bail!("service properties can be restored only into a new data folder")
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
