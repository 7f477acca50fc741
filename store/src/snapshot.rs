//! Snapshots of everything that an engine holds, and what fills an engine with one. Backups, checks and restores know an
//! engine by these traits alone: tables by name, never by the numbers that an engine gives them.
//!
//! Invariants of a snapshot:
//!
//! 1. It shows all of each transaction that was acknowledged before it was taken, and nothing of a transaction in part.
//!    Tables, policies, properties and entities are of the same instant.
//! 2. It can be read while writers go on, for as long as the engine is open.

use crate::engine::{Fault, TableKey};
use crate::page::damaged;
use crate::{policies_value, properties_value};
use model::{AccountName, DateTime, EntityView, ServiceProperties, StoredAccessPolicies};
use std::error::Error;
use std::fmt;
use std::io;

/// Takes snapshots of an engine, for as long as the engine is open.
pub trait Snapshots: Send + Sync {
    /// Takes a snapshot, and reads all of it except the entities.
    fn take(&self) -> Result<Box<dyn Snapshot>, Fault>;
}

/// Takes an entity: key bytes inside the table, record bytes. An error ends the reading.
pub type EntityVisitor<'a, E> = dyn FnMut(&[u8], &[u8]) -> Result<(), E> + 'a;

/// Everything that an engine held at one instant. It keeps that from being removed.
pub trait Snapshot: Send {
    /// Everything but the entities.
    fn contents(&self) -> &SnapshotContents;

    /// Whether reading can go on: it must end when the engine closes or opens its storage again. A reader that waits for
    /// others between two entities asks from time to time.
    fn check(&self) -> Result<(), Fault>;

    /// Gives the entities of the table at an index of the contents to the visitor, in the order of their keys, as they
    /// are stored, damaged or not.
    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError>;

    /// Gives the entities of the table at an index of the contents to the sink, in the order of their keys, up to the first
    /// one that is damaged, which is an error.
    fn entities(&self, table: usize, sink: &mut EntityVisitor<'_, io::Error>) -> Result<(), SnapshotError> {
        self.stored_entities(table, &mut |key, record| {
            EntityView::new(key, record).map_err(|_| SnapshotError::Fault(damaged(key)))?;
            sink(key, record).map_err(SnapshotError::Sink)
        })
    }
}

/// Fills an empty engine with what a snapshot holds. Every Timestamp stays what it was.
pub trait Restore {
    /// Why something could not be stored.
    type Error: Error + Send + Sync + 'static;

    /// Adds the service properties of an account.
    fn properties(&mut self, account: &AccountName, properties: &ServiceProperties) -> Result<(), Self::Error>;

    /// Adds a table. The entities that follow belong to it.
    fn table(&mut self, table: &SnapshotTable) -> Result<(), Self::Error>;

    /// Adds an entity to the table that was added last: key bytes inside the table, record bytes.
    fn entity(&mut self, key: &[u8], record: &[u8]) -> Result<(), Self::Error>;

    /// Makes everything durable and visible. No Timestamp up to `last_stamp` is given out again.
    fn finish(self, last_stamp: DateTime) -> Result<(), Self::Error>;
}

/// Everything but the entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotContents {
    /// No Timestamp in the snapshot is later, and none that is given out after it may be earlier.
    pub last_stamp: DateTime,
    /// The accounts that have set service properties.
    pub properties: Vec<(AccountName, ServiceProperties)>,
    /// All tables.
    pub tables: Vec<SnapshotTable>,
}

/// A table without its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotTable {
    /// Its account and its name as it was spelled at creation.
    pub table: TableKey,
    /// When it was created.
    pub created: DateTime,
    /// Its stored access policies.
    pub policies: StoredAccessPolicies,
}

/// Why the entities of a snapshot were not read to the end.
#[derive(Debug)]
pub enum SnapshotError {
    /// The engine failed, or is closing.
    Fault(Fault),
    /// The sink could not take an entity.
    Sink(io::Error),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// The bytes that stand for stored access policies; `docs/backup-format.md` has them.
pub fn encode_policies(policies: &StoredAccessPolicies) -> Vec<u8> {
    let mut out = Vec::new();
    policies_value::encode_to(policies, &mut out);
    out
}

/// The policies that bytes stand for; `None` if they are damaged.
pub fn decode_policies(mut bytes: &[u8]) -> Option<StoredAccessPolicies> {
    policies_value::decode_from(&mut bytes).filter(|_| bytes.is_empty())
}

/// The bytes that stand for service properties; `docs/backup-format.md` has them.
pub fn encode_properties(properties: &ServiceProperties) -> Vec<u8> {
    properties_value::encode(properties)
}

/// The service properties that bytes stand for; `None` if they are damaged or of a newer version.
pub fn decode_properties(bytes: &[u8]) -> Option<ServiceProperties> {
    properties_value::decode(bytes)
}
