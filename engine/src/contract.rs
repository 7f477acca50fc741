//! The engine contract: the narrow interface between the service and its storage.
//!
//! Invariants that every engine maintains:
//!
//! 1. A commit is atomic and isolated: a page sees all of a transaction or none of it.
//! 2. A commit acknowledged with `Ok` is as durable as the engine is configured to make it.
//! 3. The Timestamp of an entity increases with every write, even if the clock stands still or moves backwards.
//! 4. Entities are scanned in key byte order, or in the order of an index, in either direction. A page is read from one
//!    snapshot.
//! 5. A table disappears as soon as it is deleted, whatever its size. A table created afterwards with the same name is
//!    empty.
//! 6. An index changes with the entities, in the same transaction. It is built in the background; until it is ready,
//!    nothing is read from it.
//! 7. An expired entity does not exist for clients, from the second at which it expires.
//! 8. Updates of service properties and of a table's settings are serialized, so none reverts another.

use crate::figures::Figures;
use async_trait::async_trait;
use model::limits::PAGE_RESULTS_MAX;
use model::plan::plan_tables;
use model::{AccountName, DateTime, EntityKey, EntityView, Filter, IndexedProperty, KeyRange, MutationError, Position};
use model::{
    MutationResult, Record, Retention, ServiceProperties, ServicePropertiesUpdate, StoredAccessPolicies, TableName,
    TableSettings,
};
use model::{TableSettingsUpdate, Transaction, Visibility};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// A boxed future. The code of an `async fn` is generated in every crate that awaits it, and behind a box only in the
/// crate that creates the box. Functions with much code that other crates call therefore return one.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The account and name of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableKey {
    /// The account that owns the table.
    pub account: AccountName,
    /// The table name. Names are compared case-insensitively.
    pub name: TableName,
}

/// A failure of the engine. The request itself was valid.
#[derive(Debug)]
pub enum Fault {
    /// Stored data cannot be read. Damage is reported and never returned as data.
    Damaged(String),
    /// The storage could not be read, or it refused a write.
    Storage(Box<dyn std::error::Error + Send + Sync>),
    /// The storage is unreachable or too busy. Nothing happened, and a retry may succeed.
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// As [`Unknown`](Self::Unknown). The write failed for all requests in its group, so the engine has logged the
    /// reason once.
    Interrupted,
    /// The storage failed earlier and has not recovered yet. The operation did not take effect; a retry may succeed.
    Suspended,
    /// The disk's free space is below the reserve. The operation did not take effect. Deletions are still accepted.
    Full,
    /// The response of the storage was lost, for example in a failover. The operation took effect entirely or not at
    /// all; it is not known which.
    Unknown(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing can be written here, for the given reason. The operation did not take effect.
    ReadOnly(&'static str),
    /// The engine accepts no more work at the moment. The operation did not take effect; a retry may succeed.
    Busy,
    /// The engine is closing and accepts no more operations.
    Closed,
}

impl Fault {
    /// Returns whether a write that failed with this fault is known to have changed nothing.
    pub fn is_without_effect(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Suspended | Self::Full | Self::ReadOnly(_) | Self::Busy | Self::Closed => true,
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
            Self::Interrupted => f.write_str("a write failed; see the log for the reason"),
            Self::Suspended => f.write_str("the storage failed and has not recovered yet"),
            Self::Full => f.write_str("the disk has too little free space; only deletions are accepted"),
            Self::Unknown(source) => write!(f, "it is not known whether the operation took effect: {source}"),
            Self::ReadOnly(reason) => f.write_str(reason),
            Self::Busy => f.write_str("the engine accepts no more work at the moment"),
            Self::Closed => f.write_str("the engine is closed"),
        }
    }
}

impl std::error::Error for Fault {}

/// The reason why the catalog was not changed.
#[derive(Debug)]
pub enum CatalogError {
    /// A table with the same name already exists (letter case is ignored).
    AlreadyExists,
    /// A table with the same name was deleted, and the name cannot be used again yet.
    BeingDeleted,
    /// There is no table with the given name.
    NotFound,
    /// The engine failed; it is not known whether the change took effect.
    Fault(Fault),
}

/// The reason why nothing could be read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no table with the given name.
    TableNotFound,
    /// The table has no index of the property in whose order it is to be read.
    IndexNotFound,
    /// The index is still being built.
    IndexNotReady,
    /// The engine failed.
    Fault(Fault),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TableNotFound => f.write_str("the table does not exist"),
            Self::IndexNotFound => f.write_str("the table has no index of the property"),
            Self::IndexNotReady => f.write_str("the index is still being built"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

/// The reason why a transaction failed.
#[derive(Debug)]
pub enum CommitError {
    /// There is no table with the given name. Nothing changed.
    TableNotFound,
    /// The mutation at this index was refused. Nothing changed.
    Refused(usize, MutationError),
    /// The engine failed. Unless the fault is without effect, the transaction took effect entirely or not at all; it is
    /// not known which.
    Fault(Fault),
}

impl CommitError {
    /// Returns whether it is known that nothing changed.
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
    /// The ranges of keys, ascending and disjoint. Entities outside them are not examined.
    pub ranges: Vec<KeyRange>,
    /// Whether the reader must not learn anything about entities outside the ranges, nor about their number. Nothing of
    /// the page and its end then depends on entities before the first range or after the last one. Possible only in key
    /// order.
    pub is_confined: bool,
    /// The order of the entities.
    pub order: Order,
    /// The inclusive position to continue from; `None` starts at the beginning. It must be from a scan in the same
    /// order and direction: an ascending scan continues with the first entity at or after it, a descending scan with
    /// the last entity at or before it. Its entity may have been deleted or changed.
    pub from: Option<Position>,
    /// The filter on the entities in the ranges; `None` matches all.
    pub filter: Option<Filter>,
    /// The entities that the scan sees. The others are examined, but match no filter.
    pub visible: Visibility,
    /// The maximum number of entities in the page; may be zero.
    pub limit: usize,
    /// The approximate size of the keys and records in the page, in bytes, or [`usize::MAX`] if it is unknown. An
    /// engine that reads ahead initially requests no more than this. The page does not end at this size: only the sink
    /// knows how much of an entity it stores.
    pub bytes_expected: usize,
    /// The time by which the page must end. At least one entity is examined, even if the deadline has passed.
    pub deadline: Instant,
}

impl Scan {
    /// Returns a request for all entities in the order of keys, for which only the deadline ends the page.
    pub fn all(deadline: Instant) -> Self {
        Self {
            ranges: vec![KeyRange::all()],
            is_confined: false,
            order: Order::KEYS,
            from: None,
            filter: None,
            visible: Visibility::Live,
            limit: usize::MAX,
            bytes_expected: usize::MAX,
            deadline,
        }
    }
}

/// The order of the entities in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The order of keys. If the filter restricts a property with an index, an engine may read the index first. The
    /// page is the same; only the number of entities examined, and therefore the place where a deadline ends it, can
    /// differ.
    Key {
        /// Whether the order is reversed. The ranges of the scan are ascending in either direction.
        is_descending: bool,
    },
    /// The order of the values of a property that has an index, and then of keys. Contains only the entities that have
    /// the property. Positions are entries of the index (see [`model::index`]). Strings and binaries are compared up to
    /// a length ([`INDEXED_BYTES_MAX`](model::limits::INDEXED_BYTES_MAX)).
    ///
    /// Successive pages return an entity twice or not at all if its value changes in between.
    Value {
        /// The property.
        property: IndexedProperty,
        /// Whether the order is reversed, including the order of keys.
        is_descending: bool,
    },
}

impl Order {
    /// The ascending order of keys.
    pub const KEYS: Self = Self::Key { is_descending: false };

    /// Returns whether this is the order of keys, in either direction.
    pub fn is_of_keys(&self) -> bool {
        matches!(self, Self::Key { .. })
    }

    /// Returns whether the order is reversed.
    pub fn is_descending(&self) -> bool {
        match self {
            Self::Key { is_descending } | Self::Value { is_descending, .. } => *is_descending,
        }
    }
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexState {
    /// The property whose values are indexed.
    pub property: IndexedProperty,
    /// Whether the index contains all entities, so that it can be read.
    pub is_ready: bool,
}

/// The end of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanEnd {
    /// The next entity to examine. `None` means that no entity after the page matches.
    ///
    /// After a full page, the scan looks ahead to the next match, so that the last page of a result has no next entity.
    /// If the deadline passes first, this is the first entity that was not examined.
    pub next: Option<Position>,
    /// The number of entities examined, whether or not they matched.
    pub examined: u64,
    /// The number of entities in the page, that is, of entities that the sink accepted.
    pub accepted: u64,
    /// The earliest expiry of the entities that were examined but not visible to the scan.
    pub earliest_expiry: Option<DateTime>,
    /// The property whose index was read.
    pub index: Option<IndexedProperty>,
}

/// A receiver of the entities of a page, in order. The entities are borrowed from the engine.
pub trait EntitySink: Send + 'static {
    /// Offers an entity to the sink.
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision;
}

/// A sink of any type. An engine gets every sink in this form, so that it compiles its scans once and not for every
/// type of sink.
pub struct BoxedSink(Box<dyn AnySink>);

/// A sink whose type is known again after the scan.
trait AnySink: EntitySink + Any {}

impl<S: EntitySink> AnySink for S {}

impl BoxedSink {
    fn new(sink: impl EntitySink) -> Self {
        Self(Box::new(sink))
    }

    /// Returns the sink. Its type must be `S`.
    fn into_inner<S: EntitySink>(self) -> S {
        let sink: Box<dyn Any> = self.0;
        *sink.downcast().expect("an engine returns the sink that it was given")
    }
}

impl EntitySink for BoxedSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        self.0.entity(entity)
    }
}

/// The sink's decision about an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkDecision {
    /// The sink accepted the entity and accepts more entities.
    Accepted,
    /// The sink accepted the entity, and the page ends after it.
    AcceptedLast,
    /// The sink did not accept the entity: the page ends before it, and the next page begins with it. A sink that
    /// refuses the first entity that it is offered makes no progress.
    Refused,
}

/// A request for a page of the tables of an account.
#[derive(Debug, Clone)]
pub struct TableQuery<'a> {
    /// The filter on the names of the tables; `None` matches all.
    pub filter: Option<&'a Filter>,
    /// The folded name to continue from, inclusive. An empty name starts at the beginning.
    pub from: String,
    /// The maximum number of tables in the page; may be zero.
    pub limit: usize,
}

/// A page of tables, ordered by folded name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablePage {
    /// The tables, at most as many as the limit of the query.
    pub tables: Vec<TableName>,
    /// The first matching table after the page; `None` if there is none.
    pub next: Option<TableName>,
}

/// The engine contract. All methods may be called at any time from any number of tasks. If a future is dropped, its
/// operation may or may not have taken effect.
///
/// The server and the tools use engines as `dyn Engine`, so that they are compiled once and not for every engine.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Creates an empty table.
    async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError>;

    /// Removes a table and all its entities. The duration is short, regardless of the table's size.
    async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError>;

    /// Returns a table's name, spelled as at creation, or `None` if the table does not exist.
    async fn table(&self, table: &TableKey) -> Result<Option<TableName>, Fault>;

    /// Returns the accounts that have tables or have ever set service properties, ordered by name.
    async fn accounts(&self) -> Result<Vec<AccountName>, Fault>;

    /// Returns at most `limit` tables of an account, ordered by folded name, starting at `from` (folded, inclusive).
    /// Omits metrics tables, which the service maintains.
    async fn list_tables(&self, account: &AccountName, from: &str, limit: usize) -> Result<Vec<TableName>, Fault>;

    /// Returns the number of tables of an account, without metrics tables.
    async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault>;

    /// Returns one page of the tables of an account that match a filter, ordered by folded name.
    async fn table_page(
        &self,
        account: &AccountName,
        TableQuery { filter, from, limit }: TableQuery<'_>,
    ) -> Result<TablePage, Fault> {
        let mut page = TablePage::default();
        let range = plan_tables(filter);
        if range.is_empty() {
            return Ok(page);
        }
        let mut pages = TablePages::new(self, account, from.max(range.from.clone()));
        while let Some(listed) = pages.next().await? {
            for table in listed {
                if !range.contains(table.folded()) {
                    return Ok(page);
                }
                if filter.is_none_or(|filter| filter.matches_table(table.folded())) {
                    if page.tables.len() == limit {
                        page.next = Some(table);
                        return Ok(page);
                    }
                    page.tables.push(table);
                }
            }
        }
        Ok(page)
    }

    /// Returns the stored access policies of a table.
    async fn policies(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError>;

    /// Returns the stored access policies that signatures are checked against. They differ from [`Self::policies`] if
    /// changes take effect with a delay.
    async fn policies_in_effect(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        self.policies(table).await
    }

    /// Replaces all stored access policies of a table. Deleting the table deletes them too.
    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError>;

    /// Returns the settings of a table.
    async fn settings(&self, table: &TableKey) -> Result<TableSettings, ReadError>;

    /// Changes those settings of a table that the update contains. Deleting the table deletes its settings.
    async fn update_settings(&self, table: &TableKey, update: TableSettingsUpdate) -> Result<(), CatalogError>;

    /// Returns the tables with a retention whose expired entities this process has to delete. If several processes
    /// share the data, one of them has to.
    async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault>;

    /// Returns the indexes of a table, in the order of its settings. An index that was added with the settings becomes
    /// ready after some time.
    async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError>;

    /// Returns the record of an entity.
    async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError>;

    /// Passes a page of entities to the sink, and returns the same sink. If the future is dropped, the scan stops soon.
    /// Callers use [`EngineExt::scan`], which takes a sink of any type.
    async fn scan_boxed(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError>;

    /// Applies a transaction; returns the effect of each mutation, in order. The records that the transaction asks for
    /// are exactly those that it stored, whatever is written at the same time.
    async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<MutationResult>, CommitError>;

    /// Returns the service properties of an account, even if the account has never been used. They are kept in memory,
    /// because every request needs them. This method never waits for storage.
    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault>;

    /// Sets the service properties that apply to all accounts that have never set any. Until this method is called,
    /// everything is switched off in these accounts.
    fn set_default_properties(&self, defaults: ServiceProperties);

    /// Replaces those sections of an account's service properties that the update contains.
    async fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault>;

    /// Returns the engine's current figures for operators. This method never waits for a database, but may access the
    /// file system, so call it on a thread that may block.
    fn figures(&self) -> Figures;

    /// Waits until all acknowledged writes are on disk, and stops background work. Later calls return `Closed`.
    async fn close(&self) -> Result<(), Fault>;
}

impl fmt::Debug for dyn Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// The generic methods of every engine. They are not part of [`Engine`], because a trait object cannot have any.
pub trait EngineExt: Engine {
    /// Passes a page of entities to the sink, and returns the sink. If the future is dropped, the scan stops soon.
    fn scan<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> impl Future<Output = Result<(S, ScanEnd), ReadError>> + Send {
        async move {
            let (sink, end) = self.scan_boxed(table, scan, BoxedSink::new(sink)).await?;
            Ok((sink.into_inner(), end))
        }
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}

/// All tables of an account in pages, ordered by folded name, so that no engine needs to return them at once.
pub struct TablePages<'a, E: ?Sized> {
    engine: &'a E,
    account: &'a AccountName,
    /// The start of the next page; `None` after the last page.
    from: Option<String>,
}

impl<'a, E: Engine + ?Sized> TablePages<'a, E> {
    /// Creates pages that start at the given folded name, inclusive. With an empty name, they contain all tables.
    pub fn new(engine: &'a E, account: &'a AccountName, from: String) -> Self {
        Self { engine, account, from: Some(from) }
    }

    /// Returns the next page of tables, or `None` after the last page.
    pub async fn next(&mut self) -> Result<Option<Vec<TableName>>, Fault> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let listed = self.engine.list_tables(self.account, &from, PAGE_RESULTS_MAX).await?;
        if let Some(last) = listed.last().filter(|_| listed.len() == PAGE_RESULTS_MAX) {
            // The smallest string greater than the last name.
            self.from = Some(format!("{}\0", last.folded()));
        }
        Ok(Some(listed))
    }
}
