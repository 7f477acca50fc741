//! A group of transactions that are written and synced together.
//!
//! Invariant: a transaction sees the effects of all earlier transactions in the group, except those that were refused.

use crate::disk::layout::{self, StoredTable, TableId};
use crate::disk::payload::{LoggedTransaction, Operations, Origin};
use crate::disk::storage::storage_fault;
use crate::disk::storage_error::StorageError;
use crate::hashed_key::{HashedKey, HashedKeyMap};
use crate::state::EmbeddedState;
use crate::sync::atomic::Ordering;
use crate::tree::{Key, TreeError, Value};
use crate::writing::prepared::{Change, Prepared, RecentWrites, Submitted, encode};
use engine::parts::index;
use engine::parts::page::damaged;
use engine::parts::stamp::Stamps;
use engine::{CommitError, Fault, TableKey};
use model::transaction::StoredBound;
use model::{DateTime, Expiry, MutationError, MutationResult, Record, Transaction, Visibility, record};
use tokio::sync::oneshot;

pub(crate) struct Group<'a> {
    shared: &'a EmbeddedState,
    number: u64,
    recent: &'a mut RecentWrites,
    transactions: Vec<LoggedTransaction>,
    entities: usize,
    stored_bytes: usize,
    /// The state of each entity after the group. A group of a single transaction needs no overlay, because the
    /// transaction's entities are distinct.
    overlay: Option<HashedKeyMap<Option<Value>>>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(shared: &'a EmbeddedState, recent: &'a mut RecentWrites, requests: usize) -> Self {
        let overlay = (requests > 1).then(HashedKeyMap::default);
        Self {
            shared,
            number: recent.begin_group(),
            recent,
            transactions: Vec::with_capacity(requests),
            entities: 0,
            stored_bytes: 0,
            overlay,
        }
    }

    pub(crate) fn apply(
        &mut self,
        Submitted { table, transaction }: &Submitted,
        prepared: Option<Prepared>,
        stamps: &mut Stamps,
    ) -> Result<Vec<MutationResult>, CommitError> {
        let catalog = self.shared.catalog.read();
        let listed = catalog.get(table).ok_or(CommitError::TableNotFound)?;
        let (stored, retention) = (&listed.table, listed.settings.retention.as_ref());
        let prepared = prepared.filter(|prepared| prepared.is_for(stored, retention));
        let mut prepared = prepared.unwrap_or_else(|| {
            Prepared::keys_only(stored.clone(), retention.cloned(), transaction, &self.shared.key_hashes)
        });
        let expiry = self.shared.expiry(retention, transaction.visible());
        drop(catalog);
        let stamp = stamps.propose();
        let has_changed = self.look_up_changed(transaction, &expiry, &mut prepared)?;
        let Prepared { changes, mut written, encoded, .. } = prepared;
        for (index, change) in changes.iter().enumerate() {
            match change.outcome {
                Some(Err(MutationError::DamagedRecord)) => return Err(CommitError::Fault(damaged(&change.key.key))),
                Some(Err(error)) => return Err(CommitError::Refused(index, error)),
                _ => {}
            }
        }
        let encoded = encoded.filter(|_| !has_changed).unwrap_or_else(|| encode(&changes));
        stamps.issue(stamp);
        self.entities += changes.len();
        let mut items =
            Vec::with_capacity(changes.len() + changes.iter().map(|change| change.entries.len()).sum::<usize>());
        let mut returned = transaction.returned_records();
        for (index, Change { key, outcome, entries, .. }) in changes.into_iter().enumerate() {
            let value = outcome.and_then(Result::ok).flatten();
            let value = value.map(|mut value| {
                let mut bytes = value.get_mut().expect("nothing else holds the value");
                let timestamp = record::stamp(&mut bytes, stamp).expect("the record was just built");
                written.push(if returned.includes(index, bytes.len()) {
                    MutationResult::Returned(Record::from_bytes(bytes.to_vec()))
                } else {
                    MutationResult::Stored(timestamp)
                });
                drop(bytes);
                Value::from(value)
            });
            if value.is_none() {
                written.push(MutationResult::Deleted);
            }
            self.record(&key, value.as_ref());
            items.push((key.key, value));
            for (key, is_added) in entries {
                self.stored_bytes += key.len();
                items.push((key, is_added.then(|| Value::from([]))));
            }
        }
        let origin = match transaction.visible() {
            Visibility::Live => Origin::Client,
            Visibility::Expired => Origin::Expiry,
        };
        self.transactions.push(LoggedTransaction { encoded, origin, stamp: Some(stamp), items });
        Ok(written)
    }

    /// An entity that the group writes twice counts twice.
    pub(crate) fn entities(&self) -> usize {
        self.entities
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// The group becomes visible when it has been written.
    pub(crate) fn write(self, last_stamp: DateTime) -> Result<(), StorageError> {
        if self.transactions.is_empty() {
            return Ok(());
        }
        self.shared.storage.write(self.transactions, Some(last_stamp), false)?;
        self.shared.visible_group.store(self.number, Ordering::Release);
        Ok(())
    }

    /// Looks up the entities that have not been looked up yet, or that have been written or have expired since. All of
    /// them are read before the first mutation is evaluated. An entity that cannot be read is therefore a fault, even
    /// if an earlier mutation would have been refused. Returns whether any outcome is new.
    fn look_up_changed(
        &self,
        transaction: &Transaction,
        expiry: &Expiry,
        prepared: &mut Prepared,
    ) -> Result<bool, CommitError> {
        let (seen, mut has_changed) = (prepared.seen, false);
        let mut stored = StoredBound::default();
        for (change, mutation) in prepared.changes.iter_mut().zip(transaction.mutations()) {
            let is_unchanged = || !change.depends_on_existing || self.recent.is_unchanged_since(seen, &change.key);
            let is_current = || is_unchanged() && change.is_as_assumed(expiry);
            if change.outcome.is_none() || !is_current() {
                let existing = if change.depends_on_existing { self.existing(&change.key) } else { Ok(None) };
                let existing = existing.map_err(|error| CommitError::Fault(storage_fault(error)))?;
                change.decide(&prepared.table, mutation, existing.as_deref(), expiry);
                has_changed = true;
            }
            if let Err(too_large) = stored.add(change.value().map_or(0, <[u8]>::len)) {
                change.outcome = Some(Err(too_large));
                break;
            }
        }
        Ok(has_changed)
    }

    /// Returns the entity in the state after the earlier transactions.
    fn existing(&self, key: &HashedKey) -> Result<Option<Value>, TreeError> {
        if self.recent.is_of_current_group(key)
            && let Some(known) = self.overlay.as_ref().and_then(|overlay| overlay.get(key))
        {
            return Ok(known.clone());
        }
        self.shared.storage.tree.latest(&key.key)
    }

    fn record(&mut self, key: &HashedKey, value: Option<&Value>) {
        self.recent.record(key);
        self.stored_bytes += key.key.len() + value.map_or(0, |value| value.len());
        if let Some(overlay) = &mut self.overlay {
            overlay.insert(key.clone(), value.cloned());
        }
    }
}

/// A step of the construction of indexes of one table.
pub(crate) struct IndexRequest {
    pub(crate) table: TableKey,
    pub(crate) id: TableId,
    /// The indexes that are being built.
    pub(crate) indexes: Vec<TableId>,
    pub(crate) step: IndexStep,
    pub(crate) answer: oneshot::Sender<Result<(), Fault>>,
}

pub(crate) enum IndexStep {
    /// Adds the entries of entities.
    Add {
        /// The last group whose writes are guaranteed to be visible in the snapshot.
        seen: u64,
        entities: Vec<IndexedEntity>,
    },
    /// Marks the indexes as ready.
    Finish,
}

pub(crate) struct IndexedEntity {
    pub(crate) key: HashedKey,
    /// The ID of an index, and the key of an entry of it.
    pub(crate) entries: Vec<(TableId, Key)>,
}

impl IndexRequest {
    /// Returns what the step `Add` writes in the latest state of the table.
    pub(crate) fn operations(
        &self,
        shared: &EmbeddedState,
        recent: &RecentWrites,
        table: &StoredTable,
    ) -> Result<Operations, TreeError> {
        let mut operations = Operations::default();
        let IndexStep::Add { seen, entities } = &self.step else { return Ok(operations) };
        // An index that was removed in the meantime must not get entries, because its purge may be over.
        let built: Vec<_> = table.indexes().iter().filter(|index| self.indexes.contains(&index.id)).collect();
        for IndexedEntity { key, entries } in entities {
            if recent.is_unchanged_since(*seen, key) {
                let is_built = |(id, _): &&(TableId, Key)| built.iter().any(|index| index.id == *id);
                for (_, entry) in entries.iter().filter(is_built) {
                    operations.put(entry.clone(), []);
                }
                continue;
            }
            let Some(record) = shared.storage.tree.latest(&key.key)? else { continue };
            let key_in_table = layout::key_in_table(&key.key).unwrap_or_default();
            for index in &built {
                if let Some(entry) = index::entry_of(&index.property, key_in_table, &record) {
                    operations.put(layout::entity_key(index.id, &entry), []);
                }
            }
        }
        Ok(operations)
    }
}
