//! Writes windows. The transactions of a window are written in parallel, while the next window is read.
//!
//! Memory is bounded: each table that is being imported has at most three windows in memory. One is being written, one
//! waits, and one is being read.

use super::bad_lines::{BadLine, BadLines};
use super::files::TableInput;
use super::read::{EntityLine, Window, WindowReader};
use super::state::{ImportProgress, ImportState};
use crate::endpoints::{
    Endpoint, EntityTooLarge, WriteMode, WriteOutcome, difference, group_into_transactions, is_forbidden,
};
use crate::runtime::{for_each_table, next_result};
use crate::state_file::Save;
use crate::terminal::Progress;
use anyhow::{Context, bail};
use client::PropertyBag;
use engine::TableKey;
use model::clock::SystemClock;
use model::{AccountName, Clock, DateTime, EdmType, EntityKey, KeyText, Retention, TableSettings};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

/// The reason why the target refuses a line whose entity this program can read.
const TOO_LARGE: &str = "the target accepts no entity as large as this one";

pub(super) struct FileImport {
    pub(super) endpoint: Arc<dyn Endpoint>,
    pub(super) account: AccountName,
    pub(super) mode: WriteMode,
    pub(super) types: Arc<Vec<(String, EdmType)>>,
    pub(super) guesses_types: bool,
    /// If true, the file must have all properties in `types`.
    pub(super) is_only_table: bool,
    pub(super) with_policies: bool,
    pub(super) bad_lines: BadLines,
    pub(super) state: ImportState,
    pub(super) progress: Arc<Progress>,
    pub(super) transactions: Arc<Semaphore>,
    /// The number of entities in the windows that had expired already by the imported retention of their tables.
    pub(super) expired: AtomicU64,
}

impl FileImport {
    pub(super) async fn run(self: Arc<Self>, tables: &[TableInput]) -> anyhow::Result<()> {
        for_each_table(tables, |input| &input.table, |input| Arc::clone(&self).import(input)).await
    }

    async fn import(self: Arc<Self>, input: TableInput) -> anyhow::Result<()> {
        let table = TableKey { account: self.account.clone(), name: input.table.clone() };
        let mut progress = block_in_place(|| self.state.begin(&input.table, input.fingerprint()?.as_deref()))?;
        if (progress.is_done || progress.offset > 0) && self.is_gone(&table).await? {
            // The table no longer exists, and neither does the data that an earlier run wrote. The bad lines will be
            // found again.
            let known = progress.bad;
            progress = ImportProgress { fingerprint: progress.fingerprint, ..ImportProgress::default() };
            block_in_place(|| {
                self.bad_lines.forget(known)?;
                self.state.advance(&input.table, &progress, Save::Now)
            })?;
        }
        if progress.is_done {
            self.progress.skip_work(progress.offset);
        } else {
            block_in_place(|| input.check())?;
            self.prepare(&table, &input).await?;
            self.progress.skip_work(progress.offset);
            let keeps_raw = self.bad_lines.has_file();
            let reader = WindowReader::open(&input, &progress, &self.types, self.guesses_types, keeps_raw)?;
            if let Some(name) = reader.missing_column(&self.types).filter(|_| self.is_only_table) {
                bail!("{} has no column '{name}', which is listed in --types", input.name());
            }
            let header = reader.header_text().map(<[u8]>::to_vec);
            let mut windows = read_ahead(reader);
            while let Some(window) = windows.recv().await {
                self.import_window(&table, &input, header.as_deref(), &mut progress, window?).await?;
            }
        }
        self.progress.add_table();
        Ok(())
    }

    async fn is_gone(&self, table: &TableKey) -> anyhow::Result<bool> {
        match self.endpoint.tables(&self.account).await {
            // A signature that allows writing entities does not always allow listing tables.
            Err(error) if is_forbidden(&error) => Ok(false),
            names => Ok(!names?.contains(&table.name)),
        }
    }

    async fn prepare(&self, table: &TableKey, input: &TableInput) -> anyhow::Result<()> {
        match self.endpoint.create_table(table).await {
            // A signature that allows writing entities does not always allow creating tables. The table may exist.
            Err(error) if is_forbidden(&error) => {}
            result => result?,
        }
        if let Some(policies) = input.policies.as_ref().filter(|_| self.with_policies)
            && *policies != self.endpoint.policies(table).await?
        {
            self.endpoint.set_policies(table, policies.clone()).await?;
        }
        if self.with_policies && !input.settings.is_default() {
            let existing = self.endpoint.settings(table).await?.unwrap_or_default();
            let TableSettings { retention, indexes } = input.settings.clone();
            let indexes = if indexes.is_empty() { existing.indexes.clone() } else { indexes };
            let wanted = TableSettings { retention: retention.or_else(|| existing.retention.clone()), indexes };
            if wanted != existing {
                self.endpoint.set_settings(table, wanted).await?;
            }
        }
        Ok(())
    }

    /// When this returns, the whole window has been acknowledged and recorded.
    async fn import_window(
        self: &Arc<Self>,
        table: &TableKey,
        input: &TableInput,
        header: Option<&[u8]>,
        progress: &mut ImportProgress,
        window: Window,
    ) -> anyhow::Result<()> {
        let name = input.name();
        let Window { entities, mut bad_lines, position, is_last } = window;
        bad_lines.iter().try_for_each(|line| self.bad_lines.add(&name, line))?;
        if let Some(retention) = input.settings.retention.as_ref().filter(|_| self.with_policies) {
            let expired = entities.iter().filter(|line| has_expired(&line.entity, retention)).count();
            self.expired.fetch_add(expired as u64, Ordering::Relaxed);
        }
        let count = entities.len();
        let refused = self.write(table, entities).await?;
        refused.iter().try_for_each(|line| self.bad_lines.add(&name, line))?;
        progress.entities += (count - refused.len()) as u64;
        bad_lines.extend(refused);
        bad_lines.sort_by_key(|line| line.number);
        self.progress.add_work(position.0.saturating_sub(progress.offset));
        (progress.offset, progress.line) = position;
        progress.bad += bad_lines.iter().map(|line| line.lines).sum::<u64>();
        progress.is_done = is_last;
        block_in_place(|| {
            if !bad_lines.is_empty() {
                progress.bad_bytes = self.bad_lines.write(header, &bad_lines)?;
            }
            let save = if is_last || !bad_lines.is_empty() { Save::Now } else { Save::WhenDue };
            self.state.advance(&input.table, progress, save)
        })
    }

    /// Returns the lines of entities that already exist and differ, or are larger than the target allows.
    async fn write(self: &Arc<Self>, table: &TableKey, entities: Vec<EntityLine>) -> anyhow::Result<Vec<BadLine>> {
        let mut refused = Vec::new();
        for round in by_occurrence(entities) {
            refused.extend(self.write_distinct(table, round).await?);
        }
        refused.sort_by_key(|line: &BadLine| line.number);
        Ok(refused)
    }

    /// Like `write`, for entities with distinct keys, which can be written in any order.
    async fn write_distinct(
        self: &Arc<Self>,
        table: &TableKey,
        entities: Vec<EntityLine>,
    ) -> anyhow::Result<Vec<BadLine>> {
        let mut running = JoinSet::new();
        for transaction in group_into_transactions(by_partition(entities), |line| &line.entity) {
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (this, table) = (Arc::clone(self), table.clone());
            running.spawn(async move {
                let number = |line: Option<&EntityLine>| line.map_or(0, |line| line.number);
                let (first, last) = (number(transaction.first()), number(transaction.last()));
                let count = transaction.len() as u64;
                let written = this.write_transaction(&table, transaction).await;
                let refused = written.with_context(|| format!("writing lines {first} to {last}"))?;
                drop(permit);
                this.progress.add_entities(count - refused.len() as u64);
                anyhow::Ok(refused)
            });
        }
        let mut refused = Vec::new();
        while let Some(lines) = next_result(&mut running).await? {
            refused.extend(lines);
        }
        Ok(refused)
    }

    async fn write_transaction(&self, table: &TableKey, mut lines: Vec<EntityLine>) -> anyhow::Result<Vec<BadLine>> {
        let mut refused = Vec::new();
        while !lines.is_empty() {
            let entities: Vec<PropertyBag> = lines.iter().map(|line| line.entity.clone()).collect();
            match self.endpoint.write(table, entities, self.mode).await {
                Ok(WriteOutcome::Done) => break,
                Ok(WriteOutcome::SomeExist) => {
                    refused.extend(self.write_singly(table, lines).await?);
                    break;
                }
                Err(error) => {
                    let too_large = error.downcast_ref::<EntityTooLarge>();
                    let at = too_large.and_then(|large| lines.iter().position(|line| line.entity.key == large.key));
                    refused.push(lines.remove(at.ok_or(error)?).refused(TOO_LARGE.to_owned()));
                }
            }
        }
        Ok(refused)
    }

    /// Inserts the missing entities. If an equal entity exists, an earlier run or a request whose response was lost
    /// wrote it.
    async fn write_singly(&self, table: &TableKey, lines: Vec<EntityLine>) -> anyhow::Result<Vec<BadLine>> {
        let mut refused = Vec::new();
        for line in lines {
            let entity = &line.entity;
            let existing = match self.endpoint.entity(table, &entity.key).await? {
                Some(existing) => existing,
                None => match self.endpoint.write(table, vec![entity.clone()], self.mode).await {
                    Ok(WriteOutcome::Done) => continue,
                    Ok(WriteOutcome::SomeExist) => match self.endpoint.entity(table, &entity.key).await? {
                        Some(existing) => existing,
                        None => continue,
                    },
                    Err(error) if error.is::<EntityTooLarge>() => {
                        refused.push(line.refused(TOO_LARGE.to_owned()));
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            if difference(entity, &existing).is_some() {
                let (partition, row) = (entity.key.partition.as_str(), entity.key.row.as_str());
                let advice =
                    if self.bad_lines.has_options() { " (overwrite it with --mode replace or merge)" } else { "" };
                let reason = format!(
                    "the entity with partition {partition:?} and row {row:?} already exists with different \
                     properties{advice}"
                );
                refused.push(line.refused(reason));
            }
        }
        Ok(refused)
    }
}

/// Separates lines with the same keys: the first list contains the first line with each key, the second list the second
/// lines, and so on. If the lists are written one after another, each entity gets its lines in their order, in as few
/// transactions as the keys allow.
fn by_occurrence(lines: Vec<EntityLine>) -> Vec<Vec<EntityLine>> {
    let mut occurrences: HashMap<EntityKey, usize> = HashMap::new();
    let mut rounds: Vec<Vec<EntityLine>> = Vec::new();
    for line in lines {
        let earlier = occurrences.entry(line.entity.key.clone()).or_default();
        match rounds.get_mut(*earlier) {
            Some(round) => round.push(line),
            None => rounds.push(vec![line]),
        }
        *earlier += 1;
    }
    rounds
}

/// The partitions are in the order of their first lines, and the lines of each partition keep their order.
fn by_partition(lines: Vec<EntityLine>) -> Vec<EntityLine> {
    let mut ranks: HashMap<KeyText, usize> = HashMap::new();
    let mut ranked: Vec<(usize, EntityLine)> = Vec::with_capacity(lines.len());
    for line in lines {
        let next = ranks.len();
        let rank = *ranks.entry(line.entity.key.partition.clone()).or_insert(next);
        ranked.push((rank, line));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, line)| line).collect()
}

/// Reads on a separate thread, one window ahead of the window that is being written.
fn read_ahead(mut reader: WindowReader) -> mpsc::Receiver<anyhow::Result<Window>> {
    let (sender, windows) = mpsc::channel(1);
    spawn_blocking(move || {
        loop {
            let window = reader.window();
            let is_end = window.as_ref().map_or(true, |window| window.is_last);
            // If the import stops early, the receiver is dropped.
            if sender.blocking_send(window).is_err() || is_end {
                return;
            }
        }
    });
    windows
}

/// Returns whether an entity that is written now has expired already.
fn has_expired(entity: &PropertyBag, retention: &Retention) -> bool {
    let start = retention.property().and_then(|name| entity.get::<Option<DateTime>>(name).ok()?);
    start.and_then(|start| start.plus_seconds(retention.seconds())).is_some_and(|expiry| expiry <= SystemClock.now())
}
