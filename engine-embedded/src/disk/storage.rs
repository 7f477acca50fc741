//! The database of the embedded engine: how it is opened and tuned, and what is read from it at startup.
//!
//! This module must not depend on requests or threads.

use crate::disk::closing::ClosingRecord;
use crate::disk::folder::Folder;
use crate::disk::guard::{Panicked, guarded};
use crate::disk::layout::{self, EngineEntry, EngineEntryError, TableId};
use crate::disk::open_error::OpenError;
use crate::disk::preflight::{self, Acknowledged, IncompleteWrites};
use crate::disk::visibility::Visibility;
use engine::Fault;
use engine::parts::cancellation::Cancellation;
use engine::parts::catalog::Catalog;
use engine::parts::properties::AccountProperties;
use fjall::compaction::Leveled;
use fjall::config::BlockSizePolicy;
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use model::DateTime;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

// The tests in `schedules/` replace this module and these two types of the library by a model.
pub(crate) use fjall::{OwnedWriteBatch, Snapshot};

/// The size of a block of entities on disk and in the cache, in bytes. A block ends with the entity that reaches this
/// size. The allocator rounds up to the next of 28, 32 and 40 KiB.
const ENTITY_BLOCK_BYTES: u32 = 30 * 1024;
/// The size at which a memtable is flushed to a sorted file, in bytes. While one memtable is being flushed, writers
/// fill the next one, and the library keeps the previous one.
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// The memtable size that is passed to the library. It is never reached, because the engine flushes memtables itself
/// ([`Storage::wait_for_room`]).
const LIBRARY_MEMTABLE_BYTES: u64 = 64 * 1024 * 1024;
/// The number of files in the uppermost level at which the library merges them. Usually the engine does so earlier
/// (`compaction`).
const UPPERMOST_FILES: u8 = 12;
/// The size of full journals at which entries that exist only in them are flushed so that they can be deleted, in
/// bytes. It is the minimum that the library accepts, because all journals are read at startup.
const JOURNALS_BYTES: u64 = 64 * 1024 * 1024;

/// The cache size for a database that is read once, in bytes.
const CHECK_CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// When this many sealed memtables are waiting to be flushed, writers wait. The library allows one more.
const SEALED_MEMTABLES_MAX: usize = 3;
/// When the uppermost level has this many runs, writers wait. The library allows more.
const UPPERMOST_RUNS_MAX: usize = 28;
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The number of library threads that flush memtables and compact. With one thread (the library's default on one core),
/// the library can stall. With two (its default on two cores), one thread spins while the other compacts. In
/// measurements with batches of 100, four threads took a fifth less CPU time.
const LIBRARY_THREADS: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenSettings {
    pub(crate) cache_bytes: u64,
    pub(crate) incomplete_writes: IncompleteWrites,
}

pub(crate) struct Storage {
    pub(crate) db: Database,
    pub(crate) data: Keyspace,
    visibility: Visibility,
    /// Triggered when the database is about to be closed and reopened. Long-running reads then stop soon.
    pub(crate) retired: Cancellation,
    // Dropped last, after the library's threads have stopped.
    closing: OnceLock<RecordOnDrop>,
}

/// When dropped, records in the folder that the database was closed cleanly.
struct RecordOnDrop(Arc<Folder>);

impl Drop for RecordOnDrop {
    fn drop(&mut self) {
        if let Err(error) = record_closing(&self.0) {
            tracing::warn!(%error, "the data folder was closed cleanly, but the record of the shutdown could not be written");
        }
    }
}

/// The contents of all journals are synced.
fn record_closing(folder: &Folder) -> Result<(), OpenError> {
    folder.record_closing(&preflight::closing_record(&folder.database())?)
}

pub(crate) struct Recovered {
    pub(crate) catalog: Catalog<TableId>,
    pub(crate) properties: AccountProperties,
    pub(crate) next_table_id: TableId,
    pub(crate) last_stamp: DateTime,
}

impl Storage {
    pub(crate) fn open(folder: &mut Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        if folder.is_new() {
            let storage = Self::open_database(folder, settings)?;
            folder.complete()?;
            return Ok(storage);
        }
        let closing = folder.closing()?;
        preflight::check(&folder.database(), closing.as_ref(), settings.incomplete_writes)?;
        folder.remove_closing_record()?;
        let opened = Self::open_database(folder, settings);
        if opened.is_err() && closing.is_some() {
            // Nothing was written, so restore the record: the next attempt must be as strict as this one.
            record_closing(folder)?;
        }
        opened
    }

    /// Creates the database in a folder that a restore will fill and complete.
    pub(crate) fn create(folder: &Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        Self::open_database(folder, settings)
    }

    /// Reopens the database after a failed write. The old instance must already be closed.
    pub(crate) fn reopen(
        folder: &Folder,
        settings: OpenSettings,
        acknowledged: Acknowledged,
    ) -> Result<Self, OpenError> {
        preflight::rescue(&folder.database(), settings.incomplete_writes, acknowledged)?;
        Self::open_database(folder, settings)
    }

    /// Opens a copy of a database for reading only, without background work.
    pub(crate) fn open_read_only(database: &Path) -> Result<Self, OpenError> {
        let db = opened(database, || {
            Database::builder(database)
                .cache_size(CHECK_CACHE_BYTES)
                .journal_compression(CompressionType::None)
                .max_journaling_size(JOURNALS_BYTES)
                // The threads would flush and compact the data that is about to be read.
                .worker_threads_unchecked(0)
                .open()
        })?;
        Self::with_keyspace(db, database)
    }

    /// Closes the database in a folder that a restore has filled, and returns the contents of its journals.
    pub(crate) fn close(self, folder: &Folder) -> Result<ClosingRecord, OpenError> {
        drop(self);
        preflight::closing_record(&folder.database())
    }

    /// When the last reader finishes, records that everything is synced and that nothing more will be written.
    pub(crate) fn record_closing_when_dropped(&self, folder: &Arc<Folder>) {
        self.closing.get_or_init(|| RecordOnDrop(Arc::clone(folder)));
    }

    pub(crate) fn sorted_files(&self) -> HashSet<OsString> {
        let version = self.data.tree.current_version();
        version.iter_tables().filter_map(|table| Some(table.path.file_name()?.to_owned())).collect()
    }

    fn with_keyspace(db: Database, path: &Path) -> Result<Self, OpenError> {
        if !db.keyspace_exists(layout::KEYSPACE) {
            return Err(OpenError::damaged(path, "its keyspace is missing"));
        }
        let data = opened(path, || db.keyspace(layout::KEYSPACE, keyspace_options))?;
        Ok(Self { db, data, visibility: Visibility::new(), retired: Cancellation::default(), closing: OnceLock::new() })
    }

    fn open_database(folder: &Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        let path = folder.database();
        let db = opened(&path, || {
            // Values are compressed in the sorted files, but not in the journal. There, compression would slow down
            // every commit. Moreover, the checksum of a journal covers compressed bytes, which a different version of
            // the compressor might not reproduce.
            Database::builder(&path)
                .cache_size(settings.cache_bytes)
                .journal_compression(CompressionType::None)
                .max_journaling_size(JOURNALS_BYTES)
                .worker_threads(LIBRARY_THREADS)
                .open()
        })?;
        if folder.is_new() {
            opened(&path, || db.keyspace(layout::KEYSPACE, keyspace_options))?;
        }
        Self::with_keyspace(db, &path)
    }

    pub(crate) fn refuses_writes(&self) -> bool {
        self.db.persist(PersistMode::Buffer).is_err()
    }

    /// Returns the acknowledged batches that are only in the journals. The library adds a batch to a memtable once the
    /// batch is written and, with the durability `Sync`, synced. It never adds a failed batch. No writer may be active.
    pub(crate) fn acknowledged(&self, incomplete_writes: IncompleteWrites) -> Acknowledged {
        match incomplete_writes {
            IncompleteWrites::Everything => Acknowledged::Unknown,
            IncompleteWrites::Nothing | IncompleteWrites::LastBatch => {
                Acknowledged::UpTo(self.data.tree.get_highest_memtable_seqno())
            }
        }
    }

    pub(crate) fn write(&self, batch: OwnedWriteBatch) -> fjall::Result<()> {
        self.visibility.write(|| self.db.seqno(), || batch.commit())
    }

    /// Returns a snapshot that shows either all of each batch or none of it, or `None` if that is impossible until the
    /// current batch is written.
    pub(crate) fn try_snapshot(&self) -> Option<fjall::Snapshot> {
        self.visibility.snapshot(|| self.db.snapshot(), || self.db.visible_seqno())
    }

    /// Returns a snapshot that shows either all of each batch or none of it. It may wait for a batch that is being
    /// written.
    pub(crate) fn snapshot(&self) -> fjall::Snapshot {
        loop {
            if let Some(snapshot) = self.try_snapshot() {
                return snapshot;
            }
            self.visibility.wait();
        }
    }

    /// Makes room in memory for the next group: seals a full memtable, unless the previous one is still being flushed.
    /// Waits while there is no room, and while the library would block the writer. If a flush has failed, the library
    /// would wait forever, whereas this method returns.
    pub(crate) fn wait_for_room(&self) {
        let tree = &self.data.tree;
        let is_full = || tree.active_memtable().size() >= MEMTABLE_BYTES;
        let must_wait = || match tree.sealed_memtable_count() {
            0 => false,
            // A folder created by an earlier version may have memtables that the library flushes before they are full.
            sealed => is_full() || sealed >= SEALED_MEMTABLES_MAX,
        };
        while must_wait() || tree.l0_run_count() >= UPPERMOST_RUNS_MAX {
            if self.refuses_writes() {
                return;
            }
            std::thread::sleep(ROOM_POLL_INTERVAL);
        }
        if is_full() {
            // If this fails, the next write also fails.
            let _rotated = self.data.rotate_memtable();
        }
    }

    /// Returns the number of blocks that reads have loaded from disk, or from the operating system's cache, since the
    /// database was opened.
    pub(crate) fn blocks_loaded(&self) -> u64 {
        self.data.metrics().block_load_io_count() as u64
    }

    pub(crate) fn own_entries(&self, snapshot: &fjall::Snapshot) -> impl Iterator<Item = fjall::Guard> {
        snapshot.range(&self.data, ..TableId::FIRST.to_bytes())
    }

    pub(crate) fn recover(&self) -> Result<Recovered, OpenError> {
        let path = self.data.path();
        let mut recovered = Recovered {
            catalog: Catalog::default(),
            properties: AccountProperties::default(),
            next_table_id: TableId::FIRST,
            last_stamp: DateTime::MIN,
        };
        let mut highest_id = None;
        for entry in self.own_entries(&self.db.snapshot()) {
            let entry = entry.into_inner();
            let (key, value) = entry.map_err(|source| OpenError::Storage { path: path.to_owned(), source })?;
            match layout::decode_engine_entry(&key, &value) {
                Ok(EngineEntry::NextTableId(id)) => recovered.next_table_id = id,
                Ok(EngineEntry::LastStamp(stamp)) => recovered.last_stamp = stamp,
                Ok(EngineEntry::Table(entry)) => {
                    recovered.catalog.insert(&entry.table, entry.id);
                    recovered.catalog.set_policies(&entry.table, entry.policies);
                    highest_id = highest_id.max(Some(entry.id));
                }
                Ok(EngineEntry::Purge(id)) => highest_id = highest_id.max(Some(id)),
                Ok(EngineEntry::ServiceProperties(account, set)) => recovered.properties.insert(&account, *set),
                // A newer version may have added this kind.
                Err(EngineEntryError::UnknownKind) => {}
                Err(EngineEntryError::Damaged(what)) => {
                    return Err(OpenError::damaged(path, format!("the key {}: {what}", key.escape_ascii())));
                }
            }
        }
        if highest_id.is_some_and(|highest| highest >= recovered.next_table_id) {
            return Err(OpenError::damaged(path, "the ID of the next table is missing or was already issued"));
        }
        Ok(recovered)
    }
}

/// Returns the options of the keyspace. The library fixes a keyspace's block size, and every other option that is not
/// set here, when the keyspace is created. Measured with 1 KiB entities: scans with 16 KiB blocks are about as fast as
/// with larger ones, and a get that misses the cache reads a quarter as much as with 64 KiB. Compression is the
/// library's default: none in the two levels that are written most, and LZ4 below them. Filters stay enabled in the
/// last level (`expect_point_read_hits` is off), because an insert looks up a missing key and would otherwise have to
/// read a block from disk.
fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(ENTITY_BLOCK_BYTES))
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(UPPERMOST_FILES)))
        .max_memtable_size(LIBRARY_MEMTABLE_BYTES)
}

fn opened<T>(path: &Path, open: impl FnOnce() -> fjall::Result<T>) -> Result<T, OpenError> {
    match guarded(open) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked { folder: path.to_owned() }),
        Ok(Err(source)) => Err(OpenError::Storage { path: path.to_owned(), source }),
        Err(Panicked) => Err(OpenError::damaged(
            path,
            "the storage library stopped at an inconsistency; see the log for its location",
        )),
    }
}

pub(crate) fn storage_fault(error: fjall::Error) -> Fault {
    Fault::Storage(Box::new(error))
}
