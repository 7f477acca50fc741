//! Copies tables: several in parallel, page by page, with the transactions of a page in parallel.
//!
//! Memory is bounded: each table that is being copied has at most five pages in memory. Four of them are being written,
//! and the fifth is being read.

use crate::copy::plan::{Plan, TableCopy};
use crate::copy::state::{CopyProgress, CopyState};
use crate::endpoints::{Endpoint, Page, Pages, Query, Source, WriteMode, group_into_transactions};
use crate::runtime::{for_each_table, next_result};
use crate::state_file::Save;
use crate::terminal::Progress;
use anyhow::{Context, bail, ensure};
use client::{Change, ChangeOperation, ChangeStream, Changes, Continuation, Error, PropertyBag};
use engine::TableKey;
use model::limits::{PAGE_BODY_BYTES_MAX, PAGE_RESULTS_MAX};
use model::{AccountName, EntityKey};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const NAMED_TABLES_MAX: usize = 5;
/// The maximum number of pages of a table that are written at a time. A data folder syncs all transactions that arrive
/// during a sync together, so the more there are, the fewer syncs are needed.
const WRITTEN_PAGES_MAX: usize = 4;

pub(super) struct Transfer {
    pub(super) from: Arc<dyn Source>,
    pub(super) to: Arc<dyn Endpoint>,
    pub(super) state: Arc<CopyState>,
    pub(super) progress: Arc<Progress>,
    pub(super) transactions: Arc<Semaphore>,
    pub(super) with_policies: bool,
    pub(super) follow: bool,
}

/// The names are case-folded.
pub(super) async fn target_tables(
    to: &dyn Source,
    plan: &Plan,
) -> anyhow::Result<HashMap<AccountName, HashSet<String>>> {
    let mut all = HashMap::new();
    for (_, account) in &plan.accounts {
        let tables = to.tables(account).await?;
        all.insert(account.clone(), tables.iter().map(|table| table.folded().to_owned()).collect());
    }
    Ok(all)
}

/// Refuses a target whose tables contain entities that this copy did not write. Records the tables as started.
pub(super) async fn prepare(to: &dyn Endpoint, state: &CopyState, plan: &Plan, overwrite: bool) -> anyhow::Result<()> {
    let existing = target_tables(to, plan).await?;
    let mut full = Vec::new();
    for table in &plan.tables {
        let exists = existing.get(&table.to.account).is_some_and(|tables| tables.contains(table.to.name.folded()));
        if !exists {
            // The table no longer exists, so the data that an earlier run wrote is gone as well.
            state.forget(table)?;
        } else if state.table(&table.name()).is_none() && !overwrite && !is_empty(to, &table.to).await? {
            full.push(table.to.name.as_str());
        }
    }
    if !full.is_empty() {
        let more = if full.len() > NAMED_TABLES_MAX { ", ..." } else { "" };
        let named = full.iter().take(NAMED_TABLES_MAX).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        bail!(
            "the target already contains entities, in {named}{more}; nothing was copied. --overwrite writes into these tables: \
             entities with the same keys are replaced, the others are kept. --verify-only compares both sides"
        );
    }
    state.begin(plan.tables.iter())
}

async fn is_empty(endpoint: &dyn Source, table: &TableKey) -> anyhow::Result<bool> {
    let mut from = None;
    loop {
        let page = endpoint.page(table, &Query::default(), from.as_ref(), 1).await?;
        if !page.entities.is_empty() {
            return Ok(false);
        }
        match page.next {
            None => return Ok(true),
            next => from = next,
        }
    }
}

/// A page that is being written. Dropping it stops the writes.
struct WrittenPage {
    transactions: JoinSet<anyhow::Result<()>>,
    count: u64,
    next: Option<Continuation>,
}

impl Transfer {
    pub(super) async fn run(self: Arc<Self>, plan: &Plan) -> anyhow::Result<()> {
        for_each_table(&plan.tables, |table| &table.from.name, |table| Arc::clone(&self).copy(table)).await
    }

    async fn copy(self: Arc<Self>, table: TableCopy) -> anyhow::Result<()> {
        let progress = self.state.table(&table.name()).unwrap_or_default();
        if self.follow {
            self.begin_to_follow(&table, &progress).await?;
        }
        if !progress.is_done || self.follow {
            self.to.create_table(&table.to).await?;
            if self.with_policies {
                let policies = self.from.policies(&table.from).await?;
                if policies != self.to.policies(&table.to).await? {
                    self.to.set_policies(&table.to, policies).await?;
                }
                if let Some(settings) = self.from.settings(&table.from).await?
                    && settings != self.to.settings(&table.to).await?.unwrap_or_default()
                {
                    self.to.set_settings(&table.to, settings).await?;
                }
            }
        }
        if !progress.is_done {
            self.copy_entities(&table, progress.next()).await?;
        }
        if self.follow {
            self.apply_changes(&table).await?;
        }
        self.progress.add_table();
        Ok(())
    }

    async fn copy_entities(self: &Arc<Self>, table: &TableCopy, from: Option<Continuation>) -> anyhow::Result<()> {
        let mut pages = Pages::new(&self.from, &table.from, Query::default(), from);
        let mut writing = VecDeque::new();
        while let Some(Page { entities, next }) = pages.next().await? {
            let count = entities.len() as u64;
            let (this, target) = (Arc::clone(self), table.clone());
            let mut transactions = JoinSet::new();
            transactions.spawn(async move { this.write(&target, entities).await });
            writing.push_back(WrittenPage { transactions, count, next });
            if writing.len() == WRITTEN_PAGES_MAX
                && let Some(first) = writing.pop_front()
            {
                self.record(table, first).await?;
            }
        }
        for page in writing {
            self.record(table, page).await?;
        }
        Ok(())
    }

    /// Records a page once it is written. All pages before it must have been recorded.
    async fn record(&self, table: &TableCopy, mut page: WrittenPage) -> anyhow::Result<()> {
        while next_result(&mut page.transactions).await?.is_some() {}
        tokio::task::block_in_place(|| self.state.advance(table, page.count, page.next.as_ref()))
    }

    /// When this returns, the target has acknowledged the whole page.
    pub(super) async fn write(self: &Arc<Self>, table: &TableCopy, entities: Vec<PropertyBag>) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        for transaction in group_into_transactions(entities, |entity| entity) {
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (this, target) = (Arc::clone(self), table.to.clone());
            running.spawn(async move {
                let count = transaction.len() as u64;
                this.to.write(&target, transaction, WriteMode::Replace).await?;
                drop(permit);
                this.progress.add_entities(count);
                anyhow::Ok(())
            });
        }
        while next_result(&mut running).await?.is_some() {}
        Ok(())
    }
}

// Applies the changes that the source made during a copy, up to the end of its change feed.
//
// Invariants:
//
// 1. The position of a table is recorded before its first page is read, so each change that a page lacks comes after
//    it.
// 2. A position is recorded only when the target has all changes up to it. Changes are applied again after an
//    interruption, which ends with the same entities.

/// The last change of each entity, by its encoded key: the entity, or only the key if it was deleted.
type LastChanges = BTreeMap<Vec<u8>, Result<PropertyBag, EntityKey>>;

impl Transfer {
    fn changes(&self, table: &TableCopy) -> anyhow::Result<Changes<PropertyBag>> {
        self.from.changes(&table.from).context("--follow needs a running server with --keep-log as --from")
    }

    /// Records the end of the table's feed if the table has not been begun.
    pub(super) async fn begin_to_follow(&self, table: &TableCopy, progress: &CopyProgress) -> anyhow::Result<()> {
        let changes = self.changes(table)?;
        if progress.changes().is_some() {
            return Ok(());
        }
        ensure!(
            !progress.has_begun(),
            "the state file belongs to a copy without --follow, which may have missed changes; delete the state file and \
             the tables of the target to start over"
        );
        let end = changes.end().await.context(
            "--follow reads the change feed of --from: start that server with --keep-log, and use an account key or a \
             signature that can read the feed",
        )?;
        tokio::task::block_in_place(|| self.state.advance_changes(table, end, Save::Now))
    }

    pub(super) async fn apply_changes(self: &Arc<Self>, table: &TableCopy) -> anyhow::Result<()> {
        let from = self.state.table(&table.name()).and_then(|progress| progress.changes());
        let from = from.context("the position in the state file is not valid")?;
        let mut stream = self.changes(table)?.from(from).until_end().stream();
        loop {
            let last = next_changes(&mut stream).await?;
            let is_end = last.is_empty();
            self.apply(table, last).await?;
            if let Some(position) = stream.position() {
                tokio::task::block_in_place(|| self.state.advance_changes(table, position, Save::WhenDue))?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn apply(self: &Arc<Self>, table: &TableCopy, last: LastChanges) -> anyhow::Result<()> {
        let (mut entities, mut deletions) = (Vec::new(), JoinSet::new());
        for change in last.into_values() {
            let key = match change {
                Ok(entity) => {
                    entities.push(entity);
                    continue;
                }
                Err(key) => key,
            };
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (to, target) = (Arc::clone(&self.to), table.to.clone());
            deletions.spawn(async move {
                to.delete(&target, key).await?;
                drop(permit);
                anyhow::Ok(())
            });
        }
        while next_result(&mut deletions).await?.is_some() {}
        self.write(table, entities).await
    }
}

/// Reads up to a page of changes. Returns none at the end of the feed.
async fn next_changes(stream: &mut ChangeStream<Change<PropertyBag>>) -> anyhow::Result<LastChanges> {
    let (mut last, mut bytes) = (LastChanges::new(), 0);
    while last.len() < PAGE_RESULTS_MAX && bytes < PAGE_BODY_BYTES_MAX {
        let Some(change) = stream.next().await else { break };
        let change = change.map_err(expired).context("--from")?;
        match (change.operation, change.key, change.entity) {
            (ChangeOperation::Put, _, Some(entity)) => {
                let entity = entity.into_entity();
                bytes += entity.properties.as_record_builder().formula_bytes();
                last.insert(entity.key.encode(), Ok(entity));
            }
            (ChangeOperation::Delete | ChangeOperation::Expire, Some(key), _) => {
                last.insert(key.encode(), Err(key));
            }
            (ChangeOperation::CreateTable, ..) => {}
            _ => bail!(
                "the source deleted the table during the copy; delete it in the target, and run the command again"
            ),
        }
    }
    Ok(last)
}

fn expired(error: Error) -> anyhow::Error {
    let is_expired = matches!(error, Error::PositionExpired { .. });
    let error = anyhow::Error::from(error);
    if is_expired {
        return error.context(
            "the source no longer has all changes since the last run; delete the state file and the tables of the target \
             to start over, and give the source a longer --keep-log",
        );
    }
    error
}
