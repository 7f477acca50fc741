//! A group of transactions that are written in one batch and synced once.
//!
//! Invariant: a transaction sees what all transactions before it in the group did, and nothing of one that is refused.

use super::layout::{self, TableId};
use super::state::EmbeddedState;
use super::storage::{Storage, storage_fault};
use crate::engine::{CommitError, TableKey};
use crate::page::damaged;
use crate::stamp::Stamps;
use fjall::{OwnedWriteBatch, PersistMode, UserKey, UserValue};
use model::mutation::Effect;
use model::{Clock, DateTime, Mutation, MutationError, Transaction, Written};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// The transactions so far.
pub(super) struct Group<'a> {
    shared: &'a EmbeddedState,
    storage: &'a Storage,
    batch: OwnedWriteBatch,
    /// What the batch makes of each entity. A single transaction needs none: it never names an entity twice.
    overlay: Option<HashMap<UserKey, Option<UserValue>>>,
}

impl<'a> Group<'a> {
    /// An empty group, for one transaction or for several.
    pub(super) fn new(shared: &'a EmbeddedState, storage: &'a Storage, has_several: bool) -> Self {
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
        let (keys, effects) = self.effects(id, transaction, stamp)?;
        stamps.give_out(stamp);
        let written = effects.iter().map(Effect::written).collect();
        for (key, effect) in keys.into_iter().zip(effects) {
            self.push(key, effect);
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
    fn effects(
        &self,
        id: TableId,
        transaction: Transaction,
        now: DateTime,
    ) -> Result<(Vec<UserKey>, Vec<Effect>), CommitError> {
        let mutations = transaction.mutations();
        let keys: Vec<UserKey> =
            mutations.iter().map(|mutation| layout::key_of_entity(id, mutation.key()).into()).collect();
        let existing = self.existing(mutations, &keys).map_err(|error| CommitError::Fault(storage_fault(error)))?;
        let effects = transaction.apply(now, existing).map_err(|(index, error)| match error {
            MutationError::DamagedRecord => CommitError::Fault(damaged(keys.get(index).map_or(&[], |key| &key[..]))),
            error => CommitError::Refused(index, error),
        });
        effects.map(|effects| (keys, effects))
    }

    /// The entity that each mutation finds, where the mutation depends on it. All are read before the first mutation is
    /// judged, so an entity that cannot be read is a fault even if an earlier mutation would have been refused.
    fn existing(&self, mutations: &[Mutation], keys: &[UserKey]) -> fjall::Result<Vec<Option<UserValue>>> {
        let find = |(mutation, key): (&Mutation, &UserKey)| {
            // An upsert that replaces needs nothing of the existing entity, not even its Timestamp, because that of the
            // transaction is later than every one before it. Not reading it is what keeps blind writes fast.
            if matches!(mutation, Mutation::InsertOrReplace { .. }) {
                return Ok(None);
            }
            match self.overlay.as_ref().and_then(|overlay| overlay.get(key)) {
                Some(known) => Ok(known.clone()),
                None => self.storage.data.get(key),
            }
        };
        mutations.iter().zip(keys).map(find).collect()
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
