//! Snapshots of an engine's entire contents, and restores into an engine. Backups, checks and restores use an engine
//! only through these traits. Tables are identified by name, never by an engine's internal IDs.
//!
//! Invariants of a snapshot:
//!
//! 1. It contains every transaction that was acknowledged before it was taken, and no partial transaction. Tables,
//!    policies, settings, properties and entities are from the same instant.
//! 2. It can be read while writes continue, as long as the engine is open.

use crate::contract::{Fault, TableKey};
use crate::parts::page::damaged;
use crate::parts::{policies_value, properties_value, settings_value};
use model::{AccountName, DateTime, EntityView, ServiceProperties, StoredAccessPolicies, TableSettings};
use std::error::Error;
use std::fmt;
use std::io;

/// A source of snapshots of an engine, as long as the engine is open.
pub trait Snapshots: Send + Sync {
    /// Takes a snapshot and reads everything except the entities.
    fn take(&self) -> Result<Box<dyn Snapshot>, Fault>;
}

/// A function that receives an entity as key bytes inside the table and record bytes. An error stops the iteration.
pub type EntityVisitor<'a, E> = dyn FnMut(&[u8], &[u8]) -> Result<(), E> + 'a;

/// The contents of an engine at one instant. They are retained as long as the snapshot exists.
pub trait Snapshot: Send {
    /// Returns everything except the entities.
    fn contents(&self) -> &SnapshotContents;

    /// Returns an error if reading must stop because the engine is closing. A reader that pauses between two
    /// entities must call this from time to time.
    fn check(&self) -> Result<(), Fault>;

    /// Passes the entities of a table to the visitor, in key order. `table` is the table's index in the contents.
    /// Damaged entities are passed as they are stored.
    fn stored_entities(&self, table: usize, visit: &mut EntityVisitor<'_, SnapshotError>) -> Result<(), SnapshotError>;

    /// Passes the entities of a table to the sink, in key order. `table` is the table's index in the contents. The
    /// first damaged entity causes an error.
    fn entities(&self, table: usize, sink: &mut EntityVisitor<'_, io::Error>) -> Result<(), SnapshotError> {
        self.stored_entities(table, &mut |key, record| {
            EntityView::new(key, record).map_err(|_| SnapshotError::Fault(damaged(key)))?;
            sink(key, record).map_err(SnapshotError::Sink)
        })
    }
}

/// A receiver that fills an empty engine with the contents of a snapshot. All Timestamps are preserved.
pub trait Restore {
    /// The reason why data could not be stored.
    type Error: Error + Send + Sync + 'static;

    /// Adds the service properties of an account.
    fn properties(&mut self, account: &AccountName, properties: &ServiceProperties) -> Result<(), Self::Error>;

    /// Adds a table. The entities that follow belong to it.
    fn table(&mut self, table: &SnapshotTable) -> Result<(), Self::Error>;

    /// Adds an entity to the most recently added table. `key` contains its key bytes inside the table.
    fn entity(&mut self, key: &[u8], record: &[u8]) -> Result<(), Self::Error>;

    /// Makes everything durable and visible. Timestamps up to and including `last_stamp` are never issued again.
    fn finish(self, last_stamp: DateTime) -> Result<(), Self::Error>;
}

/// Everything except the entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotContents {
    /// The last Timestamp issued when the snapshot was taken. After a restore, only later ones are issued.
    pub last_stamp: DateTime,
    /// The accounts that have set service properties.
    pub properties: Vec<(AccountName, ServiceProperties)>,
    /// All tables.
    pub tables: Vec<SnapshotTable>,
    /// The position in the log after the last transaction that the snapshot contains. `None` if the engine does
    /// not number its transactions.
    pub position: Option<u64>,
}

/// A table without its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotTable {
    /// The account, and the name in the letter case in which the table was created.
    pub table: TableKey,
    /// The time of creation.
    pub created: DateTime,
    /// Its stored access policies.
    pub policies: StoredAccessPolicies,
    /// Its settings.
    pub settings: TableSettings,
}

/// The reason why not all entities of a snapshot were read.
#[derive(Debug)]
pub enum SnapshotError {
    /// The engine failed, or is closing.
    Fault(Fault),
    /// The sink could not accept an entity.
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

/// Encodes stored access policies, as described in `docs/backup-format.md`.
pub fn encode_policies(policies: &StoredAccessPolicies) -> Vec<u8> {
    let mut out = Vec::new();
    policies_value::encode_to(policies, &mut out);
    out
}

/// Decodes policies. Returns `None` if the bytes are damaged.
pub fn decode_policies(mut bytes: &[u8]) -> Option<StoredAccessPolicies> {
    policies_value::decode_from(&mut bytes).filter(|_| bytes.is_empty())
}

/// Encodes the settings of a table, as described in `docs/backup-format.md`.
pub fn encode_settings(settings: &TableSettings) -> Vec<u8> {
    settings_value::encode(settings)
}

/// Decodes settings. Returns `None` if the bytes are damaged or were written by a newer version.
pub fn decode_settings(bytes: &[u8]) -> Option<TableSettings> {
    settings_value::decode(bytes)
}

/// Encodes service properties, as described in `docs/backup-format.md`.
pub fn encode_properties(properties: &ServiceProperties) -> Vec<u8> {
    properties_value::encode(properties)
}

/// Decodes service properties. Returns `None` if the bytes are damaged or were written by a newer version.
pub fn decode_properties(bytes: &[u8]) -> Option<ServiceProperties> {
    properties_value::decode(bytes)
}
