//! The state that a backup and the log that continues it lead to.
//!
//! The log is read once. The catalog is kept in memory; the last change of each entity is sorted by table and key, so
//! that it can be merged into the entities of the backup, which are in the same order.

use crate::backup::coverage::{Continuation, Target};
use crate::backup::read::each_entity_of_table;
use crate::backup::repository::{AccountEntry, BackupManifest, PartName, Repository, TableContent};
use crate::file::ScratchFolder;
use anyhow::{Context, bail, ensure};
use engine::{ChangeEffect, ChangedTransaction, SnapshotTable, TableKey};
use model::{AccountName, DateTime, ServiceProperties, StoredAccessPolicies, TableSettings};
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table at the target.
#[derive(Debug, Clone)]
pub(super) struct RestorableTable<'m> {
    pub(super) table: SnapshotTable,
    /// `None` if the table was created after the backup.
    content: Option<&'m TableContent>,
    /// Identifies the table among the sorted changes. A table that was deleted and created again has another number.
    pub(super) number: u32,
}

impl RestorableTable<'_> {
    /// Returns the number of entities in the backup, without the changes of the log.
    pub(super) fn entities(&self) -> u64 {
        self.content.map_or(0, |content| content.entities)
    }
}

/// A backup, or the state that the log leads to from it.
pub(super) struct RestorableState<'m> {
    pub(super) accounts: Vec<(AccountName, ServiceProperties)>,
    /// The tables in the order of their numbers.
    pub(super) tables: Vec<RestorableTable<'m>>,
    pub(super) last_stamp: DateTime,
    /// An upper bound of the Timestamps in the backup.
    backup_stamp: DateTime,
    changes: SortedChanges,
}

impl<'m> RestorableState<'m> {
    /// Returns the state of the backup itself.
    pub(super) fn new(manifest: &'m BackupManifest) -> anyhow::Result<Self> {
        let mut tables = Vec::new();
        for (number, content) in (0..).zip(&manifest.tables) {
            tables.push(RestorableTable { table: content.table.decode()?, content: Some(content), number });
        }
        let accounts = manifest.accounts.iter().map(AccountEntry::decode).collect::<anyhow::Result<_>>()?;
        let last_stamp = manifest.last_stamp()?;
        Ok(Self { accounts, tables, last_stamp, backup_stamp: last_stamp, changes: SortedChanges::default() })
    }

    pub(super) fn into_entities(self, repository: &Repository) -> RestorableEntities<'_> {
        RestorableEntities { repository, backup_stamp: self.backup_stamp, changes: self.changes }
    }
}

/// The entities of a state.
pub(super) struct RestorableEntities<'r> {
    repository: &'r Repository,
    backup_stamp: DateTime,
    changes: SortedChanges,
}

impl RestorableEntities<'_> {
    /// Passes the entities of a table to the sink in order, each as its key inside the table and its record. Must be
    /// called for tables in the order of their numbers.
    pub(super) fn each(
        &mut self,
        table: &RestorableTable<'_>,
        mut sink: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Self { repository, backup_stamp, changes } = self;
        changes.skip_to(table.number)?;
        if let Some(content) = table.content {
            each_entity_of_table(repository, content, *backup_stamp, |key, record| {
                while let Some(change) = changes.next_up_to(table.number, Some(key))? {
                    if let Some(changed) = &change.record {
                        sink(&change.key, changed)?;
                    }
                    if change.key == key {
                        return Ok(());
                    }
                }
                sink(key, record)
            })?;
        }
        while let Some(change) = changes.next_up_to(table.number, None)? {
            if let Some(changed) = &change.record {
                sink(&change.key, changed)?;
            }
        }
        Ok(())
    }
}

/// Replays a log on the state of a backup.
pub(super) struct Replay<'m, F> {
    state: RestorableState<'m>,
    /// The tables by account and folded name.
    tables: BTreeMap<(AccountName, String), RestorableTable<'m>>,
    accounts: BTreeMap<AccountName, ServiceProperties>,
    next_number: u32,
    sorter: Sorter,
    /// Returns whether the entities of a table are needed.
    is_wanted: F,
}

impl<'m, F: Fn(&TableKey) -> bool> Replay<'m, F> {
    /// If the changes need more memory than there is for them, they are sorted in `scratch`.
    pub(super) fn new(manifest: &'m BackupManifest, scratch: PathBuf, is_wanted: F) -> anyhow::Result<Self> {
        let mut state = RestorableState::new(manifest)?;
        let next_number = u32::try_from(state.tables.len())?;
        let tables =
            std::mem::take(&mut state.tables).into_iter().map(|table| (name(&table.table.table), table)).collect();
        let accounts = std::mem::take(&mut state.accounts).into_iter().collect();
        Ok(Self { state, tables, accounts, next_number, sorter: Sorter::new(scratch), is_wanted })
    }

    /// Reads the log up to the target.
    pub(super) fn run(
        mut self,
        repository: &Repository,
        continuation: &Continuation,
        target: Target,
        stop: &AtomicBool,
    ) -> anyhow::Result<RestorableState<'m>> {
        let log = &continuation.log.id;
        let mut next = continuation.log.position;
        // Even if later parts are damaged, earlier states can be restored.
        let is_needed = |part: &&PartName| !part.is_empty() && !target.is_before(&part.range);
        let parts: Vec<_> = continuation.parts.iter().filter(is_needed).collect();
        repository.read_ahead(
            &parts,
            |part| repository.part(log, part),
            |part, content| {
                let before = next.saturating_sub(1);
                let content = content.with_context(|| {
                    format!("the log is intact only up to position {before}; pass --to {before} to restore the state up to there")
                })?;
                repository.each_transaction(log, part, &content, |transaction| {
                    ensure!(!stop.load(Ordering::Relaxed), "stopped");
                    // Parts may overlap.
                    if transaction.position >= next && target.includes(&transaction) {
                        next = transaction.position + 1;
                        let position = transaction.position;
                        self.apply(transaction).with_context(|| format!("transaction {position} of the log"))?;
                    }
                    Ok(())
                })
            },
        )?;
        self.finish()
    }

    fn apply(&mut self, transaction: ChangedTransaction) -> anyhow::Result<()> {
        self.state.last_stamp = self.state.last_stamp.max(transaction.time);
        for change in transaction.changes {
            match change.effect {
                ChangeEffect::Put { table, key, record } => {
                    let Some(known) = self.tables.get(&name(&table)) else {
                        bail!("table {} does not exist", table.name)
                    };
                    if (self.is_wanted)(&table) {
                        self.sorter.push(known.number, key, Some(record.as_bytes().to_vec()))?;
                    }
                }
                ChangeEffect::Delete { table, key, .. } => {
                    // The table may already have been deleted.
                    if let Some(known) = self.tables.get(&name(&table)).filter(|_| (self.is_wanted)(&table)) {
                        self.sorter.push(known.number, key, None)?;
                    }
                }
                ChangeEffect::CreateTable { table, created } => self.create(&table, created)?,
                ChangeEffect::DeleteTable { table } => {
                    ensure!(self.tables.remove(&name(&table)).is_some(), "table {} does not exist", table.name);
                }
                ChangeEffect::SetTable { table, policies, settings } => {
                    let known = self.tables.get_mut(&name(&table));
                    let known = known.with_context(|| format!("table {} does not exist", table.name))?;
                    (known.table.policies, known.table.settings) = (policies, settings);
                }
                ChangeEffect::SetProperties { account, properties } => {
                    self.accounts.insert(account, *properties);
                }
            }
        }
        Ok(())
    }

    fn create(&mut self, key: &TableKey, created: DateTime) -> anyhow::Result<()> {
        let (policies, settings) = (StoredAccessPolicies::default(), TableSettings::default());
        let table = SnapshotTable { table: key.clone(), created, policies, settings };
        let table = RestorableTable { table, content: None, number: self.next_number };
        self.next_number = self.next_number.checked_add(1).context("the log creates too many tables")?;
        ensure!(self.tables.insert(name(key), table).is_none(), "table {} already exists", key.name);
        Ok(())
    }

    fn finish(self) -> anyhow::Result<RestorableState<'m>> {
        let mut tables: Vec<_> = self.tables.into_values().collect();
        tables.sort_unstable_by_key(|table| table.number);
        Ok(RestorableState {
            accounts: self.accounts.into_iter().collect(),
            tables,
            changes: self.sorter.finish()?,
            ..self.state
        })
    }
}

fn name(key: &TableKey) -> (AccountName, String) {
    (key.account.clone(), key.name.folded().to_owned())
}

// The last change of each entity, sorted by table and key.
//
// Memory is bounded: changes are collected in memory up to a limit, and then written to a file as a sorted run. In the
// end, the runs are merged.

/// The size of the changes that are collected in memory, in bytes.
const MEMORY_BYTES: usize = 256 * 1024 * 1024;
/// The estimated memory for each change apart from its key and record, in bytes.
const CHANGE_BYTES: usize = 128;
/// More runs are merged into one, so that the number of open files is bounded.
const RUNS_MAX: usize = 32;

/// The last change of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityChange {
    pub(super) table: u32,
    pub(super) key: Vec<u8>,
    /// `None` if the entity was deleted.
    pub(super) record: Option<Vec<u8>>,
}

type Collected = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;
type Run = Box<dyn Iterator<Item = anyhow::Result<EntityChange>>>;

pub(super) struct Sorter {
    base: PathBuf,
    memory_bytes: usize,
    collected: Collected,
    collected_bytes: usize,
    /// Created when the first run is written.
    scratch: Option<ScratchFolder>,
    /// The files of the runs, the oldest first.
    runs: Vec<PathBuf>,
    next_run: u32,
}

impl Sorter {
    /// Creates a temporary folder in `base` if the changes do not fit in memory.
    pub(super) fn new(base: PathBuf) -> Self {
        Self::with_memory(base, MEMORY_BYTES)
    }

    fn with_memory(base: PathBuf, memory_bytes: usize) -> Self {
        let collected = Collected::new();
        Self { base, memory_bytes, collected, collected_bytes: 0, scratch: None, runs: Vec::new(), next_run: 0 }
    }

    /// Adds a change that is later than all earlier ones.
    pub(super) fn push(&mut self, table: u32, key: Vec<u8>, record: Option<Vec<u8>>) -> anyhow::Result<()> {
        let bytes = |record: &Option<Vec<u8>>| record.as_ref().map_or(0, Vec::len);
        self.collected_bytes += bytes(&record);
        let key_bytes = key.len();
        match self.collected.insert((table, key), record) {
            Some(replaced) => self.collected_bytes -= bytes(&replaced),
            None => self.collected_bytes += CHANGE_BYTES + key_bytes,
        }
        if self.collected_bytes < self.memory_bytes {
            return Ok(());
        }
        self.collected_bytes = 0;
        let run = in_memory(std::mem::take(&mut self.collected));
        self.write(run)?;
        if self.runs.len() < RUNS_MAX {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        let merged = Merge::new(open_all(&runs)?)?;
        self.write(Box::new(merged))?;
        for run in runs {
            std::fs::remove_file(&run).with_context(|| format!("removing {}", run.display()))?;
        }
        Ok(())
    }

    fn write(&mut self, run: Run) -> anyhow::Result<()> {
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(ScratchFolder::create(&self.base, "restore")?),
        };
        let path = scratch.path().join(format!("{}.run", self.next_run));
        self.next_run += 1;
        let written = || -> anyhow::Result<()> {
            let mut out = BufWriter::new(File::create(&path)?);
            for change in run {
                write_change(&mut out, &change?)?;
            }
            Ok(out.flush()?)
        };
        written().with_context(|| format!("writing {}", path.display()))?;
        self.runs.push(path);
        Ok(())
    }

    pub(super) fn finish(self) -> anyhow::Result<SortedChanges> {
        let mut runs = open_all(&self.runs)?;
        runs.push(in_memory(self.collected));
        let mut merge = Merge::new(runs)?;
        Ok(SortedChanges { next: merge.next().transpose()?, merge: Some(merge), _scratch: self.scratch })
    }
}

fn in_memory(collected: Collected) -> Run {
    Box::new(collected.into_iter().map(|((table, key), record)| Ok(EntityChange { table, key, record })))
}

fn open_all(runs: &[PathBuf]) -> anyhow::Result<Vec<Run>> {
    let open = |path: &PathBuf| {
        let mut input = BufReader::new(File::open(path).with_context(|| format!("reading {}", path.display()))?);
        anyhow::Ok(Box::new(std::iter::from_fn(move || read_change(&mut input).transpose())) as Run)
    };
    runs.iter().map(open).collect()
}

fn write_change(out: &mut impl Write, change: &EntityChange) -> anyhow::Result<()> {
    let record = change.record.as_deref();
    out.write_all(&change.table.to_be_bytes())?;
    out.write_all(&u32::try_from(change.key.len())?.to_be_bytes())?;
    out.write_all(&u32::try_from(record.map_or(0, |record| record.len() + 1))?.to_be_bytes())?;
    out.write_all(&change.key)?;
    Ok(out.write_all(record.unwrap_or_default())?)
}

/// Returns `None` at the end of the run.
fn read_change(input: &mut impl Read) -> anyhow::Result<Option<EntityChange>> {
    let mut number = [0; 4];
    match input.read_exact(&mut number) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let table = u32::from_be_bytes(number);
    input.read_exact(&mut number)?;
    let mut key = vec![0; usize::try_from(u32::from_be_bytes(number))?];
    input.read_exact(&mut number)?;
    let length = usize::try_from(u32::from_be_bytes(number))?;
    input.read_exact(&mut key)?;
    let mut record = length.checked_sub(1).map(|length| vec![0; length]);
    input.read_exact(record.as_deref_mut().unwrap_or_default())?;
    Ok(Some(EntityChange { table, key, record }))
}

/// Merges sorted runs. Of several changes of an entity, only the one of the latest run remains.
struct Merge {
    runs: Vec<Run>,
    /// The next change of each run that is not at its end.
    heads: BinaryHeap<Head>,
}

struct Head {
    change: EntityChange,
    run: usize,
}

impl Head {
    fn key(&self) -> (u32, &[u8]) {
        (self.change.table, &self.change.key)
    }
}

/// The greatest head is the next one: the smallest key, and of equal keys the latest run.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key().cmp(&self.key()).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == std::cmp::Ordering::Equal
    }
}

impl Eq for Head {}

impl Merge {
    /// The runs must be in the order of time.
    fn new(runs: Vec<Run>) -> anyhow::Result<Self> {
        let count = runs.len();
        let mut merge = Self { runs, heads: BinaryHeap::new() };
        (0..count).try_for_each(|run| merge.advance(run))?;
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> anyhow::Result<()> {
        if let Some(change) = self.runs.get_mut(run).and_then(Iterator::next) {
            self.heads.push(Head { change: change?, run });
        }
        Ok(())
    }

    fn pop(&mut self) -> anyhow::Result<Option<EntityChange>> {
        let Some(Head { change, run }) = self.heads.pop() else { return Ok(None) };
        self.advance(run)?;
        while self.heads.peek().is_some_and(|head| head.key() == (change.table, &change.key)) {
            let Some(Head { run, .. }) = self.heads.pop() else { break };
            self.advance(run)?;
        }
        Ok(Some(change))
    }
}

impl Iterator for Merge {
    type Item = anyhow::Result<EntityChange>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pop().transpose()
    }
}

/// The last change of each entity, sorted by table and key.
#[derive(Default)]
pub(super) struct SortedChanges {
    next: Option<EntityChange>,
    merge: Option<Merge>,
    // Dropped last, after the files in it have been closed.
    _scratch: Option<ScratchFolder>,
}

impl SortedChanges {
    /// Skips the changes of all tables before this one.
    pub(super) fn skip_to(&mut self, table: u32) -> anyhow::Result<()> {
        while self.next.as_ref().is_some_and(|next| next.table < table) {
            self.advance()?;
        }
        Ok(())
    }

    /// Returns the next change of the table if its key is at most `key`.
    pub(super) fn next_up_to(&mut self, table: u32, key: Option<&[u8]>) -> anyhow::Result<Option<EntityChange>> {
        let is_next = |next: &EntityChange| next.table == table && key.is_none_or(|key| next.key.as_slice() <= key);
        if self.next.as_ref().is_some_and(is_next) { self.advance() } else { Ok(None) }
    }

    fn advance(&mut self) -> anyhow::Result<Option<EntityChange>> {
        let following = self.merge.as_mut().and_then(Iterator::next).transpose()?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_change_of_each_entity_remains_however_small_the_memory_is(
            changes in prop::collection::vec((0..3_u32, 0..40_u8, prop::option::of(0..300_usize)), 0..400),
            memory in prop_oneof![Just(1_usize), Just(700), Just(5_000), Just(1_000_000)],
        ) {
            let place = tempfile::tempdir().unwrap();
            let mut sorter = Sorter::with_memory(place.path().to_owned(), memory);
            let mut model = BTreeMap::new();
            for (number, (table, key, record)) in changes.into_iter().enumerate() {
                let record = record.map(|length| vec![u8::try_from(number % 256).unwrap(); length]);
                model.insert((table, vec![key]), record.clone());
                sorter.push(table, vec![key], record).unwrap();
            }
            prop_assert_eq!(sorter.scratch.is_none(), sorter.next_run == 0);
            let mut sorted = sorter.finish().unwrap();
            let mut found = Vec::new();
            for table in 0..3 {
                // Table 1 is not wanted.
                sorted.skip_to(table + u32::from(table == 1)).unwrap();
                while let Some(change) = sorted.next_up_to(table, Some(&[19])).unwrap() {
                    prop_assert!(change.key[0] <= 19);
                    found.push(change);
                }
                while let Some(change) = sorted.next_up_to(table, None).unwrap() {
                    found.push(change);
                }
            }
            let expected = model.into_iter().filter(|((table, _), _)| *table != 1);
            let expected = expected.map(|((table, key), record)| EntityChange { table, key, record });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
            drop(sorted);
            prop_assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the temporary folder is removed");
        }
    }
}
