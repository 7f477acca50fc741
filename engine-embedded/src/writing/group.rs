//! A group of transactions that are written in one batch and synced once.
//!
//! Invariant: a transaction sees the effects of all earlier transactions in the group, except those that were refused.

use crate::disk::layout;
use crate::disk::storage::{OwnedWriteBatch, Storage, storage_fault};
use crate::hashed_key::{HashedKey, HashedKeyMap};
use crate::state::EmbeddedState;
use crate::sync::atomic::Ordering;
use crate::writing::prepared::{Change, Prepared, RecentWrites, Submitted, outcome};
use engine::CommitError;
use engine::parts::page::damaged;
use engine::parts::stamp::Stamps;
use fjall::{PersistMode, UserValue};
use model::{Clock, DateTime, MutationError, MutationResult, Transaction, record};

pub(crate) struct Group<'a> {
    shared: &'a EmbeddedState,
    storage: &'a Storage,
    number: u64,
    recent: &'a mut RecentWrites,
    batch: OwnedWriteBatch,
    stored_bytes: usize,
    /// The state of each entity after the batch. A group of a single transaction needs no overlay, because the
    /// transaction's entities are distinct.
    overlay: Option<HashedKeyMap<Option<UserValue>>>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(
        shared: &'a EmbeddedState,
        storage: &'a Storage,
        recent: &'a mut RecentWrites,
        has_several: bool,
    ) -> Self {
        let overlay = has_several.then(HashedKeyMap::default);
        Self {
            shared,
            storage,
            number: recent.begin_group(),
            recent,
            batch: storage.db.batch(),
            stored_bytes: 0,
            overlay,
        }
    }

    pub(crate) fn apply<C: Clock>(
        &mut self,
        Submitted { table, transaction }: &Submitted,
        prepared: Option<Prepared>,
        stamps: &mut Stamps<C>,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let id = self.shared.catalog().get(table).ok_or(CommitError::TableNotFound)?.table;
        let prepared = prepared.filter(|prepared| prepared.table == id);
        let mut prepared = prepared.unwrap_or_else(|| Prepared::keys_only(id, transaction, &self.shared.key_hashes));
        let stamp = stamps.propose();
        self.look_up_changed(transaction, &mut prepared)?;
        let Prepared { changes, mut written, .. } = prepared;
        for (index, change) in changes.iter().enumerate() {
            match change.outcome {
                Some(Err(MutationError::DamagedRecord)) => return Err(CommitError::Fault(damaged(&change.key.key))),
                Some(Err(error)) => return Err(CommitError::Refused(index, error)),
                _ => {}
            }
        }
        stamps.issue(stamp);
        for Change { key, outcome, .. } in changes {
            let value = outcome.and_then(Result::ok).flatten();
            let value = value.map(|mut value| {
                let mut bytes = value.get_mut().expect("nothing else holds the value");
                let timestamp = record::stamp(&mut bytes, stamp).expect("the record was just built");
                written.push(MutationResult::Stored(timestamp));
                drop(bytes);
                UserValue::from(value)
            });
            if value.is_none() {
                written.push(MutationResult::Deleted);
            }
            self.push(key, value);
        }
        Ok(written)
    }

    /// An entity that the batch writes twice counts twice.
    pub(crate) fn entities(&self) -> usize {
        self.batch.len()
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// The batch becomes visible when it has been written.
    pub(crate) fn write(mut self, last_stamp: DateTime, mode: PersistMode) -> fjall::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.insert(&self.storage.data, layout::LAST_STAMP, layout::stamp_value(last_stamp));
        let written = self.storage.write(self.batch.durability(Some(mode)));
        self.shared.is_unsynced.store(mode == PersistMode::Buffer, Ordering::Release);
        if written.is_ok() {
            self.shared.visible_group.store(self.number, Ordering::Release);
        }
        written
    }

    /// Looks up the entities that have not been looked up yet, or that have been written since. All of them are read
    /// before the first mutation is evaluated. An entity that cannot be read is therefore a fault, even if an earlier
    /// mutation would have been refused.
    fn look_up_changed(&self, transaction: &Transaction, prepared: &mut Prepared) -> Result<(), CommitError> {
        let seen = prepared.seen;
        for (change, mutation) in prepared.changes.iter_mut().zip(transaction.mutations()) {
            let is_current = || !change.depends_on_existing || self.recent.is_unchanged_since(seen, &change.key);
            if change.outcome.is_some() && is_current() {
                continue;
            }
            let existing = if change.depends_on_existing { self.existing(&change.key) } else { Ok(None) };
            let existing = existing.map_err(|error| CommitError::Fault(storage_fault(error)))?;
            change.outcome = Some(outcome(mutation, existing.as_deref()));
        }
        Ok(())
    }

    /// Returns the entity in the state after the earlier transactions.
    fn existing(&self, key: &HashedKey) -> fjall::Result<Option<UserValue>> {
        if self.recent.is_of_current_group(key)
            && let Some(known) = self.overlay.as_ref().and_then(|overlay| overlay.get(key))
        {
            return Ok(known.clone());
        }
        self.storage.data.get(&key.key)
    }

    fn push(&mut self, key: HashedKey, value: Option<UserValue>) {
        self.recent.record(&key);
        self.stored_bytes += key.key.len() + value.as_ref().map_or(0, |value| value.len());
        let data = &self.storage.data;
        match &value {
            Some(value) => self.batch.insert(data, key.key.clone(), value.clone()),
            None => self.batch.remove(data, key.key.clone()),
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.insert(key, value);
        }
    }
}
