//! A group of transactions that are written in one batch and synced once.
//!
//! Invariant: a transaction sees what all transactions before it in the group did, and nothing of one that is refused.

use super::layout::{self, TableId};
use super::shared::Shared;
use super::storage::Storage;
use crate::engine::{CommitError, Fault, TableKey};
use crate::page::damaged;
use crate::stamp::Stamps;
use fjall::{OwnedWriteBatch, PersistMode, UserKey, UserValue};
use model::mutation::Effect;
use model::transaction::{ApplyError, Change};
use model::{Clock, DateTime, Mutation, MutationError, Transaction, Written};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// The transactions so far.
pub(super) struct Group<'a> {
    shared: &'a Shared,
    storage: &'a Storage,
    batch: OwnedWriteBatch,
    /// What the batch makes of each entity. A single transaction needs none: it never names an entity twice.
    overlay: Option<HashMap<UserKey, Option<UserValue>>>,
}

impl<'a> Group<'a> {
    /// An empty group, for one transaction or for several.
    pub(super) fn new(shared: &'a Shared, storage: &'a Storage, has_several: bool) -> Self {
        Self { shared, storage, batch: storage.db.batch(), overlay: has_several.then(HashMap::new) }
    }

    /// Adds a transaction, unless it is refused.
    pub(super) fn apply<C: Clock>(
        &mut self,
        table: &TableKey,
        transaction: Transaction,
        stamps: &mut Stamps<C>,
    ) -> Result<Vec<Written>, CommitError> {
        let id = self.shared.catalog().get(table).ok_or(CommitError::TableNotFound)?.table;
        let stamp = stamps.propose();
        let (keys, changes) = self.changes(id, transaction, stamp)?;
        stamps.give_out(stamp);
        let written = changes.iter().map(Change::written).collect();
        for (key, change) in keys.into_iter().zip(changes) {
            self.push(key, change.effect);
        }
        Ok(written)
    }

    /// How many entities the batch writes or removes; one that is written twice counts twice.
    pub(super) fn entities(&self) -> usize {
        self.batch.len()
    }

    /// Writes the batch, as durably as the mode says, and makes it visible.
    pub(super) fn write(mut self, last_stamp: DateTime, mode: PersistMode) -> fjall::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.insert(&self.storage.data, layout::LAST_STAMP, layout::stamp_value(last_stamp));
        let written = self.batch.durability(Some(mode)).commit();
        self.shared.is_unsynced.store(mode == PersistMode::Buffer, Ordering::Release);
        written
    }

    /// The key of each mutation in the database, and what it makes of its entity.
    fn changes(
        &self,
        id: TableId,
        transaction: Transaction,
        now: DateTime,
    ) -> Result<(Vec<UserKey>, Vec<Change>), CommitError> {
        // An upsert that replaces needs nothing of the existing entity, not even its Timestamp, because `now` is
        // later than every stamp before it. Not reading it is what keeps blind writes fast.
        let is_blind = |mutation: &Mutation| matches!(mutation, Mutation::InsertOrReplace { .. });
        let blind: Vec<bool> = transaction.mutations().iter().map(is_blind).collect();
        let mut keys = Vec::with_capacity(blind.len());
        let mut blind = blind.into_iter();
        let mut full_key = Vec::new();
        let changes = transaction.apply(now, |_, key| {
            full_key.clear();
            layout::write_entity_key(&mut full_key, id, key);
            keys.push(UserKey::from(full_key.as_slice()));
            if blind.next() == Some(true) {
                return Ok(None);
            }
            self.read(&full_key)
        });
        let changes = changes.map_err(|error| match error {
            ApplyError::Refused(_, MutationError::DamagedRecord) => CommitError::Fault(damaged(&full_key)),
            ApplyError::Refused(index, error) => CommitError::Refused(index, error),
            ApplyError::Read(error) => CommitError::Fault(storage_fault(error)),
        });
        changes.map(|changes| (keys, changes))
    }

    fn read(&self, full_key: &[u8]) -> fjall::Result<Option<UserValue>> {
        match self.overlay.as_ref().and_then(|overlay| overlay.get(full_key)) {
            Some(value) => Ok(value.clone()),
            None => self.storage.data.get(full_key),
        }
    }

    fn push(&mut self, key: UserKey, effect: Effect) {
        let data = &self.storage.data;
        let value = match effect {
            Effect::Put(record) => Some(UserValue::from(record.as_bytes())),
            Effect::Delete => None,
        };
        if let Some(overlay) = &mut self.overlay {
            overlay.insert(key.clone(), value.clone());
        }
        match value {
            Some(value) => self.batch.insert(data, key, value),
            None => self.batch.remove(data, key),
        }
    }
}

/// A failure of the storage library as a caller gets it.
pub(super) fn storage_fault(error: fjall::Error) -> Fault {
    Fault::Storage(Box::new(error))
}
