//! Copies tables: several in parallel, page by page, with the transactions of a page in parallel.
//!
//! Memory is bounded: each table that is being copied has at most two pages in memory. One of them is being written,
//! and the other is being read.

use super::plan::{Plan, TableCopy};
use super::state::CopyState;
use crate::endpoints::{Endpoint, Query, Source, WriteMode, group_into_transactions};
use crate::runtime::{for_each_table, next_result};
use crate::terminal::Progress;
use anyhow::bail;
use client::{Continuation, PropertyBag};
use engine::TableKey;
use model::AccountName;
use model::limits::PAGE_RESULTS_MAX;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const NAMED_TABLES_MAX: usize = 5;

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
        let all = Query::default();
        let mut page = self.from.page(&table.from, &all, from.as_ref(), PAGE_RESULTS_MAX).await?;
        loop {
            let (entities, next) = (page.entities, page.next);
            let count = entities.len() as u64;
            let read_ahead = async {
                match &next {
                    Some(_) => self.from.page(&table.from, &all, next.as_ref(), PAGE_RESULTS_MAX).await.map(Some),
                    None => Ok(None),
                }
            };
            let ((), following) = tokio::try_join!(self.write(table, entities), read_ahead)?;
            tokio::task::block_in_place(|| self.state.advance(table, count, next.as_ref()))?;
            match following {
                Some(following) => page = following,
                None => return Ok(()),
            }
        }
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
