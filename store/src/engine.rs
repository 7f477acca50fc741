//! The engine contract: the narrow interface between the service and what keeps its data.
//!
//! Invariants that every engine holds:
//!
//! 1. A commit is atomic and isolated: a page sees all of a transaction or nothing of it.
//! 2. What a commit acknowledged with `Ok` is durable, to the degree the engine was configured for.
//! 3. The Timestamp of an entity grows with every write, even if the clock stands still or goes back.
//! 4. Entities are scanned in the order of their key bytes, and a page is one snapshot.
//! 5. A deleted table is gone at once, whatever its size; a table created with its name afterwards is empty.
//! 6. Updates of service properties have one serial order, so that none reverts another one.

use crate::figures::Figures;
use model::{AccountName, EntityKey, EntityView, Filter, KeyRange, MutationError, Position, Record, ServiceProperties};
use model::{ServicePropertiesUpdate, StoredAccessPolicies, TableName, Transaction, Written};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

/// Names a table of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableKey {
    /// The account that owns the table.
    pub account: AccountName,
    /// The table; compared without regard to case.
    pub name: TableName,
}

/// An engine could not do its work. Nothing is wrong with the request.
#[derive(Debug)]
pub enum Fault {
    /// Stored data cannot be read. Damage is reported, and never returned as data.
    Damaged(String),
    /// The storage failed. Whether the operation took effect is not known.
    Storage(Box<dyn std::error::Error + Send + Sync>),
    /// The storage cannot be reached, or is too busy. Nothing happened, and a later attempt may succeed.
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// The write failed for all requests that took part in it, and the log says why, once. Whether the operation took effect
    /// is not known.
    Interrupted,
    /// The storage failed before and is not restored yet. The operation did not take effect; a later attempt may.
    Suspended,
    /// The disk has less free space than is to stay free. The operation did not take effect; a deletion would.
    Full,
    /// The answer of the storage was lost, as when it fails over. The operation happened entirely or not at all, and it is
    /// not known which.
    Unknown(Box<dyn std::error::Error + Send + Sync>),
    /// The engine is closing and accepts no more work.
    Closed,
}

impl Fault {
    /// Whether it is known that a write which ended with this changed nothing.
    pub fn is_without_effect(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Suspended | Self::Full | Self::Closed => true,
            Self::Damaged(_) | Self::Storage(_) | Self::Interrupted | Self::Unknown(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => write!(f, "stored data is damaged: {what}"),
            Self::Storage(source) => write!(f, "the storage failed: {source}"),
            Self::Unavailable(source) => write!(f, "the storage is not available: {source}"),
            Self::Interrupted => f.write_str("a write failed; the log says why"),
            Self::Suspended => f.write_str("the storage failed and is not restored yet"),
            Self::Full => f.write_str("the disk has too little free space, so only deletions are taken"),
            Self::Unknown(source) => write!(f, "it is not known whether the operation happened: {source}"),
            Self::Closed => f.write_str("the engine is closed"),
        }
    }
}

impl std::error::Error for Fault {}

/// Why the catalog was not changed.
#[derive(Debug)]
pub enum CatalogError {
    /// A table of this name exists, in any case of its letters.
    AlreadyExists,
    /// There is no table of this name.
    NotFound,
    /// The engine failed; whether the change took effect is not known.
    Fault(Fault),
}

/// Why nothing could be read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no table of this name.
    TableNotFound,
    /// The engine failed.
    Fault(Fault),
}

/// Why a transaction did not happen.
#[derive(Debug)]
pub enum CommitError {
    /// There is no table of this name. Nothing changed.
    TableNotFound,
    /// The mutation at this index was refused. Nothing changed.
    Refused(usize, MutationError),
    /// The engine failed. Unless the fault is without effect, the transaction happened entirely or not at all, and it is not
    /// known which.
    Fault(Fault),
}

impl CommitError {
    /// Whether it is known that nothing changed.
    pub fn is_without_effect(&self) -> bool {
        match self {
            Self::TableNotFound | Self::Refused(..) => true,
            Self::Fault(fault) => fault.is_without_effect(),
        }
    }
}

/// A request for a page of entities.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The ranges of keys, ascending and disjoint. Entities outside are not examined.
    pub ranges: Vec<KeyRange>,
    /// Where to continue, inclusive; `None` starts at the beginning.
    pub from: Option<Position>,
    /// Which entities of the ranges belong to the page; `None` takes all.
    pub filter: Option<Filter>,
    /// How many entities the page holds at most; may be zero.
    pub limit: usize,
    /// About how many bytes of keys and records the page takes, if that is known; else [`usize::MAX`]. An engine that reads ahead
    /// requests no more at first. It does not end the page: only the sink knows how much it keeps of an entity.
    pub bytes_expected: usize,
    /// The page ends at this instant at the latest, but not before one entity was examined.
    pub deadline: Instant,
}

/// How a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanEnd {
    /// The next entity to examine. `None`: no entity after the page matches.
    ///
    /// After a full page the scan looks ahead to the next match, so that a page which ends the result says so;
    /// if the deadline comes first, this is the first entity not examined.
    pub next: Option<Position>,
    /// How many entities were examined, matching or not.
    pub examined: u64,
    /// How many entities the page has: those that the sink took.
    pub taken: u64,
}

/// Takes the entities of a page in order, borrowed from the engine.
pub trait EntitySink: Send + 'static {
    /// Shows the sink one entity.
    fn entity(&mut self, entity: &EntityView<'_>) -> Intake;
}

/// What a sink did with an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// It took the entity, and takes more.
    Taken,
    /// It took the entity, and the page ends after it.
    TakenLast,
    /// It did not take the entity: the page ends before it, and the next page begins with it. A sink that refuses the first
    /// entity that it is shown makes no progress.
    Refused,
}

/// The contract; see the invariants of this module.
///
/// All methods may be called at any time from any number of tasks. A future that is dropped may or may not
/// have done its work.
pub trait Engine: Send + Sync + 'static {
    /// Creates an empty table.
    fn create_table(&self, table: &TableKey) -> impl Future<Output = Result<(), CatalogError>> + Send;

    /// Removes a table and all its entities, in the same short time whatever the table's size.
    fn delete_table(&self, table: &TableKey) -> impl Future<Output = Result<(), CatalogError>> + Send;

    /// The name of a table as it was spelled at creation; `None` if there is no such table.
    fn table(&self, table: &TableKey) -> impl Future<Output = Result<Option<TableName>, Fault>> + Send;

    /// The accounts that have tables or have ever set service properties, in the order of their names.
    fn accounts(&self) -> impl Future<Output = Result<Vec<AccountName>, Fault>> + Send;

    /// At most `limit` tables of an account in the order of their folded names, from `from` (folded, inclusive) on. The
    /// tables of metrics, which the service keeps, are not among them.
    fn list_tables(
        &self,
        account: &AccountName,
        from: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TableName>, Fault>> + Send;

    /// The stored access policies of a table.
    fn policies(&self, table: &TableKey) -> impl Future<Output = Result<StoredAccessPolicies, ReadError>> + Send;

    /// Replaces all stored access policies of a table. They go with the table.
    fn set_policies(
        &self,
        table: &TableKey,
        policies: StoredAccessPolicies,
    ) -> impl Future<Output = Result<(), CatalogError>> + Send;

    /// The record of one entity.
    fn get(&self, table: &TableKey, key: &EntityKey) -> impl Future<Output = Result<Option<Record>, ReadError>> + Send;

    /// Gives a page of entities to the sink, and returns the sink. A scan whose future is dropped stops soon.
    fn scan<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> impl Future<Output = Result<(S, ScanEnd), ReadError>> + Send;

    /// Applies a transaction; returns the effect of each mutation, in order.
    fn commit(
        &self,
        table: &TableKey,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Vec<Written>, CommitError>> + Send;

    /// The service properties of an account, whether it has been seen before or not.
    ///
    /// They are kept in memory, because every request needs them: this never waits for storage.
    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault>;

    /// Sets the service properties of accounts that have never set any. Until then everything is off in them.
    fn set_fresh_properties(&self, fresh: ServiceProperties);

    /// Replaces those sections of an account's service properties that the update has.
    fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The figures of the engine for operators, at this moment.
    ///
    /// It never waits for a database, but may ask the file system, so it belongs on a thread that may block.
    fn figures(&self) -> Figures;

    /// Waits until everything acknowledged is on disk, and stops background work. Later calls return `Closed`.
    fn close(&self) -> impl Future<Output = Result<(), Fault>> + Send;
}
