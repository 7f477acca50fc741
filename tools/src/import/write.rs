//! Writes windows: the transactions of one beside each other, while the next one is read.
//!
//! Memory is bounded: for each table at work there are at most three windows, one that is written, one that waits and
//! one that is read.

use super::bad::{BadLine, BadLines};
use super::read::{Numbered, Reader, Window};
use super::source::Item;
use super::state::{State, TableProgress};
use crate::endpoints::{Place, Progress, Written, difference, is_forbidden, transactions};
use crate::formats::Bad;
use anyhow::{Context, bail};
use client::{Entity, WriteMode};
use model::{AccountName, EdmType, KeyText};
use std::collections::HashMap;
use std::sync::Arc;
use store::TableKey;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

/// What all tables of an import share.
pub(super) struct Writer {
    pub(super) place: Arc<dyn Place>,
    pub(super) account: AccountName,
    pub(super) mode: WriteMode,
    pub(super) types: Arc<Vec<(String, EdmType)>>,
    /// Whether the types are meant for one file alone, so that they must fit.
    pub(super) is_only_table: bool,
    pub(super) with_policies: bool,
    pub(super) bad: BadLines,
    pub(super) state: State,
    pub(super) progress: Arc<Progress>,
    pub(super) transactions: Arc<Semaphore>,
}

impl Writer {
    /// Imports what is left of a table.
    pub(super) async fn import(self: Arc<Self>, item: Item) -> anyhow::Result<()> {
        let table = TableKey { account: self.account.clone(), name: item.table.clone() };
        let mut progress = block_in_place(|| self.state.begin(&item.table, item.fingerprint()?.as_deref()))?;
        if (progress.is_done || progress.offset > 0) && self.is_gone(&table).await? {
            // What an earlier run wrote is gone with the table, and its bad lines are met again.
            let known = progress.bad;
            progress = TableProgress { fingerprint: progress.fingerprint, ..TableProgress::default() };
            block_in_place(|| {
                self.bad.forget(known)?;
                self.state.advance(&item.table, &progress, true)
            })?;
        }
        if progress.is_done {
            self.progress.add_work(progress.offset);
        } else {
            block_in_place(|| item.check())?;
            self.prepare(&table, &item).await?;
            self.progress.add_work(progress.offset);
            let reader = Reader::open(&item, &progress, &self.types, self.bad.keeps())?;
            if let Some(name) = reader.lacks(&self.types).filter(|_| self.is_only_table) {
                bail!("{} has no column '{name}', which --types names", item.shown());
            }
            let header = reader.header_text().map(<[u8]>::to_vec);
            let mut windows = read_ahead(reader);
            while let Some(window) = windows.recv().await {
                self.take(&table, &item, header.as_deref(), &mut progress, window?).await?;
            }
        }
        self.progress.add_table();
        Ok(())
    }

    async fn is_gone(&self, table: &TableKey) -> anyhow::Result<bool> {
        match self.place.tables(&self.account).await {
            // Who may write entities alone may not list tables.
            Err(error) if is_forbidden(&error) => Ok(false),
            names => Ok(!names?.contains(&table.name)),
        }
    }

    async fn prepare(&self, table: &TableKey, item: &Item) -> anyhow::Result<()> {
        match self.place.create_table(table).await {
            // Who may write entities alone may not create tables, and need not if it is there.
            Err(error) if is_forbidden(&error) => {}
            result => result?,
        }
        if let Some(policies) = item.policies.as_ref().filter(|_| self.with_policies)
            && *policies != self.place.policies(table).await?
        {
            self.place.set_policies(table, policies.clone()).await?;
        }
        Ok(())
    }

    /// Writes a window; all of it is acknowledged, and noted, when this returns.
    async fn take(
        self: &Arc<Self>,
        table: &TableKey,
        item: &Item,
        header: Option<&[u8]>,
        progress: &mut TableProgress,
        window: Window,
    ) -> anyhow::Result<()> {
        let shown = item.shown();
        let Window { entities, mut bad, position, is_last } = window;
        bad.iter().try_for_each(|line| self.bad.add(&shown, line))?;
        let count = entities.len();
        let refused = self.write(table, entities).await?;
        refused.iter().try_for_each(|line| self.bad.add(&shown, line))?;
        progress.entities += (count - refused.len()) as u64;
        bad.extend(refused);
        bad.sort_by_key(|line| line.number);
        self.progress.add_work(position.0.saturating_sub(progress.offset));
        (progress.offset, progress.line) = position;
        (progress.bad, progress.is_done) = (progress.bad + bad.iter().map(|line| line.lines).sum::<u64>(), is_last);
        block_in_place(|| {
            if !bad.is_empty() {
                progress.bad_bytes = self.bad.keep(header, &bad)?;
            }
            self.state.advance(&item.table, progress, is_last || !bad.is_empty())
        })
    }

    /// Writes entities; answers those that are there already and differ.
    async fn write(self: &Arc<Self>, table: &TableKey, entities: Vec<Numbered>) -> anyhow::Result<Vec<BadLine>> {
        let mut running = JoinSet::new();
        for part in transactions(by_partition(entities), |numbered| &numbered.entity) {
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (this, table) = (Arc::clone(self), table.clone());
            running.spawn(async move {
                let (first, last) = (part.first().map_or(0, |one| one.line), part.last().map_or(0, |one| one.line));
                let count = part.len() as u64;
                let written = this.write_part(&table, part).await;
                let refused = written.with_context(|| format!("writing the lines {first} to {last}"))?;
                drop(permit);
                this.progress.add_entities(count - refused.len() as u64);
                anyhow::Ok(refused)
            });
        }
        let mut refused = Vec::new();
        while let Some(result) = running.join_next().await {
            refused.extend(result.context("a task failed inside")??);
        }
        refused.sort_by_key(|line: &BadLine| line.number);
        Ok(refused)
    }

    async fn write_part(&self, table: &TableKey, part: Vec<Numbered>) -> anyhow::Result<Vec<BadLine>> {
        let entities: Vec<Entity> = part.iter().map(|numbered| numbered.entity.clone()).collect();
        match self.place.write(table, entities, self.mode).await? {
            Written::Done => Ok(Vec::new()),
            Written::SomeExist => self.write_singly(table, part).await,
        }
    }

    /// Inserts the entities that are missing. What is there and the same was written before: by an earlier run, or by
    /// an attempt whose answer was lost.
    async fn write_singly(&self, table: &TableKey, part: Vec<Numbered>) -> anyhow::Result<Vec<BadLine>> {
        let mut refused = Vec::new();
        for Numbered { entity, line, lines, raw } in part {
            let existing = match self.place.entity(table, &entity.key).await? {
                Some(existing) => existing,
                None => match self.place.write(table, vec![entity.clone()], self.mode).await? {
                    Written::Done => continue,
                    Written::SomeExist => match self.place.entity(table, &entity.key).await? {
                        Some(existing) => existing,
                        None => continue,
                    },
                },
            };
            if difference(&entity, &existing).is_some() {
                let (partition, row) = (entity.key.partition.as_str(), entity.key.row.as_str());
                let reason = format!(
                    "the entity with partition {partition:?} and row {row:?} is in the table already, with other \
                     properties (--mode replace or merge writes over it)"
                );
                refused.push(BadLine { number: line, lines, bad: Bad::at(1, reason), raw });
            }
        }
        Ok(refused)
    }
}

/// Entities of a partition one behind the other, in the order of their lines.
fn by_partition(entities: Vec<Numbered>) -> Vec<Numbered> {
    let mut places: HashMap<KeyText, usize> = HashMap::new();
    let mut placed: Vec<(usize, Numbered)> = Vec::with_capacity(entities.len());
    for numbered in entities {
        let next = places.len();
        let place = *places.entry(numbered.entity.key.partition.clone()).or_insert(next);
        placed.push((place, numbered));
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, numbered)| numbered).collect()
}

/// Reads windows on a thread of its own, one ahead of what is taken.
fn read_ahead(mut reader: Reader) -> mpsc::Receiver<anyhow::Result<Window>> {
    let (sender, windows) = mpsc::channel(1);
    spawn_blocking(move || {
        loop {
            let window = reader.window();
            let is_end = window.as_ref().map_or(true, |window| window.is_last);
            // Nobody wants more when the import ends.
            if sender.blocking_send(window).is_err() || is_end {
                return;
            }
        }
    });
    windows
}
