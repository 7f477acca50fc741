//! A model of the data folder: the batches on disk, and the writes that fail.
//!
//! It checks the invariants of each write. The committer catches panics, so a violation is recorded, and
//! [`Disk::finish`] reports it.

use crate::disk::layout::{self, EngineEntry, TableId};
use crate::disk::preflight::Acknowledged;
use fjall::UserValue;
use model::{DateTime, RecordView};
use shuttle::rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) type Items = Vec<(Vec<u8>, Option<UserValue>)>;
pub(crate) type Contents = BTreeMap<Vec<u8>, UserValue>;

/// The way in which a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The write fails, but the batch may be on disk.
    Failure,
    /// The library panics before it writes anything.
    Panic,
}

#[derive(Debug)]
pub(crate) struct Folder(Arc<Disk>);

/// The lock is never held while another thread may run.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The complete batches, with their sequence numbers.
    journal: Vec<(u64, Items)>,
    /// The number of batches that are certain to be on disk.
    synced: usize,
    is_open: bool,
    writes: usize,
    /// The numbers of the writes that fail, counted from 0.
    mishaps: BTreeMap<usize, Mishap>,
    refused_probes: usize,
    accepted_probes: usize,
    /// The properties of acknowledged writes that the disk has lost. No later write may contain them.
    lost: BTreeSet<String>,
    checks_merges: bool,
    violations: Vec<String>,
}

impl Folder {
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Self(Arc::clone(disk))
    }

    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.0
    }

    pub(crate) fn probe(&self) -> io::Result<()> {
        let mut state = self.0.state();
        if let Some(left) = state.refused_probes.checked_sub(1) {
            state.refused_probes = left;
            return Err(io::Error::other("the disk refuses the probe"));
        }
        state.accepted_probes += 1;
        Ok(())
    }
}

impl Disk {
    /// Creates a disk on which the given writes fail, counted from 0, and which then refuses some probes. Every write
    /// of an entity must keep the entity's properties.
    pub(crate) fn failing(mishaps: impl IntoIterator<Item = (usize, Mishap)>, refused_probes: usize) -> Arc<Self> {
        let mishaps = mishaps.into_iter().collect();
        Arc::new(Self(Mutex::new(State { mishaps, refused_probes, checks_merges: true, ..State::default() })))
    }

    /// Writes the first batch, before the database is opened.
    pub(crate) fn format(&self, items: Items) {
        let mut state = self.state();
        state.journal = vec![(0, items)];
        state.synced = 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn accepted_probes(&self) -> usize {
        self.state().accepted_probes
    }

    pub(crate) fn violation(&self, what: impl Into<String>) {
        self.state().violations.push(what.into());
    }

    /// Panics if an invariant was violated.
    pub(crate) fn finish(&self) {
        let state = self.state();
        assert!(state.violations.is_empty(), "{:#?}", state.violations);
        assert!(!state.is_open, "the database was not closed");
    }

    /// Returns the number of batches on disk that contain the key.
    pub(crate) fn writes_of(&self, key: &[u8]) -> usize {
        let state = self.state();
        let synced = state.journal[..state.synced].iter();
        synced.flat_map(|(_, items)| items).filter(|(other, _)| other == key).count()
    }

    /// Returns the contents after the writes that are certain to be on disk.
    pub(crate) fn synced(&self) -> Contents {
        let state = self.state();
        contents(&state.journal[..state.synced])
    }

    /// Returns the last Timestamp on disk.
    pub(crate) fn last_stamp(&self) -> DateTime {
        last_stamp(self.synced().iter().map(|(key, value)| (key, Some(value)))).unwrap_or(DateTime::MIN)
    }

    pub(crate) fn open(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_open, true) {
            state.violations.push("the database was opened twice".to_owned());
        }
    }

    pub(crate) fn close(&self) {
        self.state().is_open = false;
    }

    pub(crate) fn append(&self, number: u64, items: &Items, is_synced: bool) -> io::Result<()> {
        let mut state = self.state();
        state.writes += 1;
        let mishap = state.mishaps.get(&(state.writes - 1)).copied();
        if mishap == Some(Mishap::Panic) {
            drop(state);
            // Unlike `panic!`, this prints nothing.
            resume_unwind(Box::new("the library panics"));
        }
        state.check(items);
        if mishap == Some(Mishap::Failure) {
            if shuttle::rand::thread_rng().gen_bool(0.5) {
                state.journal.push((number, items.clone()));
            }
            return Err(io::Error::other("the write fails"));
        }
        state.journal.push((number, items.clone()));
        if is_synced {
            state.synced = state.journal.len();
        }
        Ok(())
    }

    /// Removes what did not reach the disk, and returns the rest. If the acknowledged batches are known, they are on
    /// disk, and nothing else is kept.
    pub(crate) fn recover(&self, acknowledged: Acknowledged) -> (u64, Contents) {
        let mut state = self.state();
        let kept = match acknowledged {
            Acknowledged::UpTo(last) => state.journal.iter().take_while(|(number, _)| Some(*number) <= last).count(),
            Acknowledged::Unknown => shuttle::rand::thread_rng().gen_range(state.synced..=state.journal.len()),
        };
        if kept < state.synced {
            state.violations.push("an acknowledged write was cut off".to_owned());
        }
        let lost = state.journal.split_off(kept);
        state.synced = kept;
        let kept = contents(&state.journal);
        let lost = contents(&lost).values().flat_map(|value| properties(value)).collect::<BTreeSet<_>>();
        let found = kept.values().flat_map(|value| properties(value)).collect::<BTreeSet<_>>();
        state.lost.extend(lost.difference(&found).cloned());
        let next = state.journal.last().map_or(0, |(number, _)| number + 1);
        (next, kept)
    }
}

impl State {
    /// Checks that the last issued stamp is written with the entities that carry it, and that no update is lost.
    fn check(&mut self, items: &Items) {
        let last = last_stamp(items.iter().map(|(key, value)| (key, value.as_ref())));
        let before = contents(&self.journal);
        let earlier = last_stamp(before.iter().map(|(key, value)| (key, Some(value))));
        let is_deleted = |key: &[u8]| {
            let tables = before.iter().filter_map(|(key, value)| layout::decode_catalog_entry(key, value));
            !tables.into_iter().any(|entry| key.starts_with(&entry.id.to_bytes()))
        };
        let deleted = items.iter().filter(|(key, _)| is_of_entity(key) && is_deleted(key)).count();
        if deleted > 0 {
            self.violations.push("an entity was written to a deleted table".to_owned());
        }
        let mut current = before;
        for (key, value) in items.iter().filter(|(key, _)| is_of_entity(key)) {
            let stamp = value.as_ref().map(|value| RecordView::new(value).unwrap().timestamp());
            if stamp.is_some() && (stamp > last || stamp <= earlier) {
                self.violations.push(format!("{stamp:?} is not between {earlier:?} and {last:?}"));
            }
            let (old, new) =
                (current.get(key).map(|value| properties(value)), value.as_ref().map(|value| properties(value)));
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            if self.checks_merges && (!old.is_subset(&new) || !new.is_disjoint(&self.lost)) {
                self.violations.push(format!("{old:?} became {new:?}, but {:?} are lost", self.lost));
            }
            match value {
                Some(value) => current.insert(key.clone(), value.clone()),
                None => current.remove(key),
            };
        }
    }
}

pub(crate) fn is_of_entity(key: &[u8]) -> bool {
    key >= &TableId::FIRST.to_bytes()[..]
}

pub(crate) fn properties(value: &[u8]) -> BTreeSet<String> {
    // The engine's own entries are not records.
    let Ok(record) = RecordView::new(value) else { return BTreeSet::new() };
    record.properties().filter_map(|property| Some(property.ok()?.name().ok()?.to_owned())).collect()
}

fn contents(journal: &[(u64, Items)]) -> Contents {
    let mut contents = Contents::new();
    for (key, value) in journal.iter().flat_map(|(_, items)| items) {
        match value {
            Some(value) => contents.insert(key.clone(), value.clone()),
            None => contents.remove(key),
        };
    }
    contents
}

fn last_stamp<'a>(mut items: impl Iterator<Item = (&'a Vec<u8>, Option<&'a UserValue>)>) -> Option<DateTime> {
    let (key, value) = items.find(|(key, _)| *key == layout::LAST_STAMP)?;
    match layout::decode_engine_entry(key, value?) {
        Ok(EngineEntry::LastStamp(stamp)) => Some(stamp),
        _ => None,
    }
}
