//! A backup as a place that tables are copied from, as `rowhouse copy` copies them. It can only be read.

use super::chunk;
use super::manifest::{Manifest, TableContent};
use super::read::check_entity;
use super::repository::Repository;
use crate::endpoints::{Answer, Place, Written, kept};
use anyhow::{Context, anyhow, bail, ensure};
use client::{Continuation, Entity, Page, Query, WriteMode};
use model::{AccountName, EntityKey, EntityView, Position, ServiceProperties, StoredAccessPolicies, TableName};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use store::{SnapshotTable, TableKey};

/// A table of the backup.
struct Table {
    listed: SnapshotTable,
    content: TableContent,
    /// Where the last page ended, with the chunk that the next one begins in.
    ended: Mutex<Option<Ended>>,
}

struct Ended {
    next: Continuation,
    index: usize,
    content: Vec<u8>,
}

/// A backup that is open.
pub(super) struct BackupPlace {
    repository: Repository,
    /// By account and folded name.
    tables: HashMap<(AccountName, String), Table>,
}

impl BackupPlace {
    pub(super) fn new(repository: Repository, manifest: Manifest) -> anyhow::Result<Self> {
        let mut tables = HashMap::new();
        for content in manifest.tables {
            let table = content.table.decode()?;
            tables.insert(name(&table.table), Table { listed: table, content, ended: Mutex::default() });
        }
        Ok(Self { repository, tables })
    }

    fn table(&self, key: &TableKey) -> anyhow::Result<&Table> {
        self.tables.get(&name(key)).with_context(|| format!("the backup has no table '{}'", key.name))
    }

    /// Reads a page. A page ends with the chunk that it ends in, at the latest.
    fn read(&self, table: &Table, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page> {
        let ended = table.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = ended.filter(|ended| from == Some(&ended.next));
        let start = from.map(|from| Position::new(&from.partition, from.row.as_deref().unwrap_or_default()));
        let mut at = ended.as_ref().map_or(0, |ended| ended.index);
        let mut here = ended.map(|ended| ended.content);
        let mut page = Page::default();
        while let Some(entry) = table.content.chunks.get(at) {
            let content = match here.take() {
                Some(content) => content,
                None => self.repository.chunk(entry)?,
            };
            let mut next = None;
            chunk::each_entity(&content, |(key, record)| {
                if next.is_some() || start.as_ref().is_some_and(|start| key < start.as_bytes()) {
                    return Ok(());
                }
                let entity = entity(key, record).with_context(|| format!("the entity {}", key.escape_ascii()))?;
                if page.entities.len() < limit {
                    page.entities.push(entity);
                } else {
                    next = Some(continuation(&entity));
                }
                Ok(())
            })?;
            if let Some(next) = next {
                page.next = Some(next.clone());
                *table.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ended { next, index: at, content });
                return Ok(page);
            }
            at += 1;
        }
        Ok(page)
    }
}

fn name(key: &TableKey) -> (AccountName, String) {
    (key.account.clone(), key.name.folded().to_owned())
}

fn continuation(entity: &Entity) -> Continuation {
    let (partition, row) = (entity.key.partition.as_str().to_owned(), entity.key.row.as_str().to_owned());
    Continuation { partition, row: Some(row) }
}

fn entity(key: &[u8], record: &[u8]) -> anyhow::Result<Entity> {
    check_entity(key, record)?;
    let view = EntityView::new(key, record).map_err(|_| anyhow!("it cannot be read"))?;
    kept(&view, &[]).context("it cannot be read")
}

impl Place for BackupPlace {
    fn only_account(&self) -> Option<&AccountName> {
        None
    }

    fn accounts(&self) -> Answer<'_, Vec<AccountName>> {
        Box::pin(async {
            let mut accounts: Vec<_> = self.tables.values().map(|table| table.listed.table.account.clone()).collect();
            accounts.sort_unstable();
            accounts.dedup();
            Ok(accounts)
        })
    }

    fn tables<'a>(&'a self, account: &'a AccountName) -> Answer<'a, Vec<TableName>> {
        Box::pin(async move {
            let tables = self.tables.values().map(|table| &table.listed.table);
            Ok(tables.filter(|table| table.account == *account).map(|table| table.name.clone()).collect())
        })
    }

    fn page<'a>(
        &'a self,
        table: &'a TableKey,
        query: &'a Query,
        from: Option<&'a Continuation>,
        limit: usize,
    ) -> Answer<'a, Page> {
        Box::pin(async move {
            ensure!(*query == Query::default(), AS_A_WHOLE);
            let table = self.table(table)?;
            tokio::task::block_in_place(|| self.read(table, from, limit))
        })
    }

    fn policies<'a>(&'a self, table: &'a TableKey) -> Answer<'a, StoredAccessPolicies> {
        Box::pin(async move { Ok(self.table(table)?.listed.policies.clone()) })
    }

    fn properties<'a>(&'a self, _: &'a AccountName) -> Answer<'a, ServiceProperties> {
        Box::pin(async { bail!("service properties are restored into a new data folder only") })
    }

    fn create_table<'a>(&'a self, _: &'a TableKey) -> Answer<'a, ()> {
        read_only()
    }

    fn write<'a>(&'a self, _: &'a TableKey, _: Vec<Entity>, _: WriteMode) -> Answer<'a, Written> {
        read_only()
    }

    fn entity<'a>(&'a self, _: &'a TableKey, _: &'a EntityKey) -> Answer<'a, Option<Entity>> {
        Box::pin(async { bail!(AS_A_WHOLE) })
    }

    fn set_policies<'a>(&'a self, _: &'a TableKey, _: StoredAccessPolicies) -> Answer<'a, ()> {
        read_only()
    }

    fn set_properties<'a>(&'a self, _: &'a AccountName, _: ServiceProperties) -> Answer<'a, ()> {
        read_only()
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

const AS_A_WHOLE: &str = "the tables of a backup are read as a whole";

fn read_only<'a, T>() -> Answer<'a, T> {
    Box::pin(async { bail!("a backup is not changed") })
}
