//! The state that the engine's requests and background tasks share.

use super::layout::DatabaseTableId;
use super::slot::Slot;
use crate::connections::attempt::{AttemptError, Attempts};
use crate::connections::pool::Pool;
use crate::schema::names::Names;
use engine::parts::cancellation::Cancellation;
use engine::parts::catalog::Catalog;
use engine::parts::properties::AccountProperties;
use engine::{Fault, TableKey};
use model::limits::STORE_TABLES_CACHED_MAX;
use model::{DateTime, IndexedProperty, Retention};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The connections, and the state that is available without querying the database.
pub struct PostgresState {
    /// The connections.
    pub pool: Pool,
    pub(crate) names: Names,
    /// The random number that identifies this server as the holder of its leases.
    pub holder: i64,
    slot: Mutex<Slot>,
    pub(crate) reserving: tokio::sync::Mutex<()>,
    known: RwLock<CachedTables>,
    properties: RwLock<AccountProperties>,
    /// Held while the properties are being reloaded, so that an older result never replaces a newer one.
    pub(crate) refreshing: tokio::sync::Mutex<()>,
    pub(crate) purges: Notify,
    pub(crate) indexing: Notify,
    /// Whether a change log is kept.
    pub(crate) is_logged: bool,
    /// Set when the engine accepts no more operations. Long-running work then stops soon.
    pub(crate) closing: Cancellation,
}

/// A table as this server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownTable {
    pub(crate) id: DatabaseTableId,
    /// The number of times that the settings have changed.
    pub(crate) generation: i64,
    pub(crate) retention: Option<Retention>,
    /// Whether an index is ready may have changed.
    pub(crate) indexes: Arc<[TableIndex]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableIndex {
    pub(crate) id: i64,
    pub(crate) property: IndexedProperty,
    pub(crate) is_ready: bool,
}

/// The cached state of tables. On each use, the database checks whether the table still exists and has the same
/// generation, so outdated state does no harm.
#[derive(Default)]
struct CachedTables {
    tables: Catalog<CachedTable>,
    count: usize,
}

struct CachedTable {
    known: KnownTable,
    /// The average row size in the last page, in bytes; zero if there was no page.
    row_bytes: AtomicUsize,
}

impl PostgresState {
    pub(crate) fn new(pool: Pool, names: Names, slot: Slot, is_logged: bool) -> Self {
        Self {
            pool,
            names,
            holder: unique_number().cast_signed(),
            slot: Mutex::new(slot),
            reserving: tokio::sync::Mutex::default(),
            known: RwLock::default(),
            properties: RwLock::default(),
            refreshing: tokio::sync::Mutex::default(),
            purges: Notify::new(),
            indexing: Notify::new(),
            is_logged,
            closing: Cancellation::default(),
        }
    }

    pub(crate) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock()
    }

    /// Returns the number of this server's slot, if it holds one.
    pub fn slot_number(&self) -> Option<i16> {
        self.slot().number
    }

    /// Returns the time that decides which entities have expired. An operation reads it before the entities: an entity
    /// that expires in between is shown, and one that is renewed in time is never missing.
    pub(crate) fn now(&self) -> DateTime {
        self.slot().now()
    }

    pub(crate) fn properties(&self) -> RwLockReadGuard<'_, AccountProperties> {
        self.properties.read()
    }

    pub(crate) fn properties_mut(&self) -> RwLockWriteGuard<'_, AccountProperties> {
        self.properties.write()
    }

    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        if self.closing.is_cancelled() { Err(Fault::Closed) } else { Ok(()) }
    }

    fn known(&self) -> RwLockReadGuard<'_, CachedTables> {
        self.known.read()
    }

    pub(crate) fn cached(&self, table: &TableKey) -> Option<KnownTable> {
        Some(self.known().tables.get(table)?.table.known.clone())
    }

    /// Returns `None` if this server has not read a page of the table.
    pub(crate) fn cached_row_bytes(&self, table: &TableKey) -> Option<usize> {
        Some(self.known().tables.get(table)?.table.row_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    pub(crate) fn cache_row_bytes(&self, table: &TableKey, bytes: usize) {
        if let Some(listed) = self.known().tables.get(table) {
            listed.table.row_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn cache(&self, table: &TableKey, known_table: KnownTable) {
        if self.known().tables.get(table).is_some_and(|cached| cached.table.known == known_table) {
            return;
        }
        let mut known = self.known.write();
        if known.count >= STORE_TABLES_CACHED_MAX {
            *known = CachedTables::default();
        }
        if known.tables.remove(table).is_none() {
            known.count += 1;
        }
        known.tables.insert(table, CachedTable { known: known_table, row_bytes: AtomicUsize::new(0) });
    }

    pub(crate) fn uncache(&self, table: &TableKey) {
        let mut known = self.known.write();
        if known.tables.remove(table).is_some() {
            known.count -= 1;
        }
    }

    pub(crate) async fn persist<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, AttemptError>>,
    {
        let mut attempts = Attempts::new(&self.pool.counts);
        loop {
            self.check_open()?;
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(trouble) => attempts.next(trouble).await?,
            }
        }
    }
}

impl std::fmt::Debug for PostgresState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresState").finish_non_exhaustive()
    }
}

/// Returns a number that no other server has. It comes from the operating system, unlike those of `fastrand`.
pub(crate) fn unique_number() -> u64 {
    RandomState::new().hash_one(())
}
