//! Copies tables: several at a time, page by page, and the transactions of a page beside each other.
//!
//! Memory is bounded: for each table at work there are at most two pages, one that is written and one that is read.

use super::plan::{Plan, Task};
use super::state::State;
use crate::endpoints::{Place, Progress, TABLES_AT_ONCE, each, transactions};
use anyhow::{Context, bail};
use client::{Continuation, Entity, Query, WriteMode};
use model::AccountName;
use model::limits::PAGE_RESULTS_MAX;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Most refused tables that are named.
const NAMED_MAX: usize = 5;

/// What all tables of a copy share.
pub(super) struct Transfer {
    pub(super) from: Arc<dyn Place>,
    pub(super) to: Arc<dyn Place>,
    pub(super) state: Arc<State>,
    pub(super) progress: Arc<Progress>,
    pub(super) transactions: Arc<Semaphore>,
    pub(super) with_policies: bool,
}

/// The folded names of the tables of each target account.
pub(super) async fn target_tables(
    to: &dyn Place,
    plan: &Plan,
) -> anyhow::Result<HashMap<AccountName, HashSet<String>>> {
    let mut all = HashMap::new();
    for (_, account) in &plan.accounts {
        let tables = to.tables(account).await?;
        all.insert(account.clone(), tables.iter().map(|table| table.folded().to_owned()).collect());
    }
    Ok(all)
}

/// Refuses a target whose tables hold anything that this copy did not write, and notes the tables as begun.
pub(super) async fn prepare(to: &dyn Place, state: &State, plan: &Plan, overwrite: bool) -> anyhow::Result<()> {
    let existing = target_tables(to, plan).await?;
    let mut full = Vec::new();
    for task in &plan.tables {
        let exists = existing.get(&task.to.account).is_some_and(|tables| tables.contains(task.to.name.folded()));
        if !exists {
            // What an earlier run wrote is gone with the table.
            state.forget(task);
        } else if state.table(task).is_none() && !overwrite && !is_empty(to, task).await? {
            full.push(task.to.name.as_str());
        }
    }
    if !full.is_empty() {
        let more = if full.len() > NAMED_MAX { ", ..." } else { "" };
        let named = full.iter().take(NAMED_MAX).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        bail!(
            "the target holds entities already, in {named}{more}; nothing was copied. --overwrite writes into them: \
             entities with the same keys are replaced, the others stay. --verify-only compares both sides"
        );
    }
    state.begin(plan.tables.iter())
}

async fn is_empty(place: &dyn Place, task: &Task) -> anyhow::Result<bool> {
    let mut from = None;
    loop {
        let page = place.page(&task.to, &Query::default(), from.as_ref(), 1).await?;
        if !page.entities.is_empty() {
            return Ok(false);
        }
        match page.next {
            None => return Ok(true),
            next => from = next,
        }
    }
}

/// Runs a job for each table, a few at a time; the first failure ends all.
pub(super) async fn each_table<J: Future<Output = anyhow::Result<()>> + Send + 'static>(
    tasks: &[Task],
    mut job: impl FnMut(Task) -> J,
) -> anyhow::Result<()> {
    each(tasks, TABLES_AT_ONCE, |task| {
        let name = task.from.name.clone();
        let job = job(task);
        async move { job.await.with_context(|| format!("table '{name}'")) }
    })
    .await
}

impl Transfer {
    /// Copies what is left of a table.
    pub(super) async fn copy(self: Arc<Self>, task: Task) -> anyhow::Result<()> {
        let progress = self.state.table(&task).unwrap_or_default();
        if !progress.is_done {
            self.to.create_table(&task.to).await?;
            if self.with_policies {
                let policies = self.from.policies(&task.from).await?;
                if policies != self.to.policies(&task.to).await? {
                    self.to.set_policies(&task.to, policies).await?;
                }
            }
            self.copy_entities(&task, progress.next()).await?;
        }
        self.progress.add_table();
        Ok(())
    }

    async fn copy_entities(self: &Arc<Self>, task: &Task, from: Option<Continuation>) -> anyhow::Result<()> {
        let all = Query::default();
        let mut page = self.from.page(&task.from, &all, from.as_ref(), PAGE_RESULTS_MAX).await?;
        loop {
            let (entities, next) = (page.entities, page.next);
            let count = entities.len() as u64;
            let read_ahead = async {
                match &next {
                    Some(_) => self.from.page(&task.from, &all, next.as_ref(), PAGE_RESULTS_MAX).await.map(Some),
                    None => Ok(None),
                }
            };
            let ((), following) = tokio::try_join!(self.write(task, entities), read_ahead)?;
            tokio::task::block_in_place(|| self.state.advance(task, count, next.as_ref()))?;
            match following {
                Some(following) => page = following,
                None => return Ok(()),
            }
        }
    }

    /// Writes a page; all of it is acknowledged when this returns.
    async fn write(self: &Arc<Self>, task: &Task, entities: Vec<Entity>) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        for part in transactions(entities, |entity| entity) {
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (this, table) = (Arc::clone(self), task.to.clone());
            running.spawn(async move {
                let count = part.len() as u64;
                this.to.write(&table, part, WriteMode::Replace).await?;
                drop(permit);
                this.progress.add_entities(count);
                anyhow::Ok(())
            });
        }
        while let Some(result) = running.join_next().await {
            result.context("a task failed inside")??;
        }
        Ok(())
    }
}
