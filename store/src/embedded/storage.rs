//! The database of the embedded engine: how it is opened and tuned, and what the start reads from it.
//!
//! This module must not know requests or threads.

use super::closing::ClosingRecord;
use super::folder::Folder;
use super::guard::{Panicked, guarded};
use super::layout::{self, OwnEntry, OwnEntryError, TableId};
use super::open_error::OpenError;
use super::preflight::{self, Acknowledged, CutOff};
use super::visibility::Visibility;
use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::engine::Fault;
use crate::properties::PropertiesOfAccounts;
use fjall::compaction::Leveled;
use fjall::config::BlockSizePolicy;
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable,
};
use model::DateTime;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Size of a block of entities on disk and in the cache, in bytes. A block ends with the entity that reaches it, and the
/// allocator rounds up to the next of 28, 32, 40 KiB.
const ENTITY_BLOCK_BYTES: u32 = 30 * 1024;
/// Entities in memory before they are written to a sorted file, in bytes. While one memtable is being written out, writers fill
/// the next one, and the library keeps the one before.
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// The same as the library sees it. It is never reached: the engine writes out memtables itself ([`Storage::wait_for_room`]).
const LIBRARY_MEMTABLE_BYTES: u64 = 64 * 1024 * 1024;
/// Files of the uppermost level before the library merges them by itself. Mostly the engine does so before (`compaction`).
const UPPERMOST_FILES: u8 = 12;
/// Once the full journals have this many bytes, entries that are only in them are written out so that they can be deleted.
/// It is the smallest size that the library accepts: a start reads all journals.
const JOURNALS_BYTES: u64 = 64 * 1024 * 1024;

/// Memory for blocks of a database that is read once, in bytes.
const CHECK_CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Sealed memtables that wait to be written out before writers wait: one less than the library allows.
const SEALED_MEMTABLES_MAX: usize = 3;
/// Runs of the uppermost level before writers wait: fewer than the library allows.
const UPPERMOST_RUNS_MAX: usize = 28;
/// How often a waiting writer checks again.
const ROOM_POLL: Duration = Duration::from_millis(2);

/// Threads of the library that write out memtables and compact. With one (its default on one core) it can come to a
/// standstill, and with two (its default on two) one of them spins while the other compacts: measured, four take a
/// fifth less CPU for batches of 100.
const LIBRARY_THREADS: usize = 4;

/// How a database is opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenSettings {
    pub(super) cache_bytes: u64,
    pub(super) cut_off: CutOff,
}

/// The open database.
pub(super) struct Storage {
    pub(super) db: Database,
    pub(super) data: Keyspace,
    visibility: Visibility,
    /// The database is about to be closed and reopened; long reads stop soon.
    pub(super) retired: Cancellation,
    // Dropped last, after the library's threads have ended.
    closing: OnceLock<RecordOnDrop>,
}

/// Records in its folder that the database was closed in order, when it is dropped.
struct RecordOnDrop(Arc<Folder>);

impl Drop for RecordOnDrop {
    fn drop(&mut self) {
        if let Err(error) = record_closing(&self.0) {
            tracing::warn!(%error, "the data folder was closed in order, but the record of that could not be written");
        }
    }
}

/// Records what the journals of a closed database hold. Everything in them is synced.
fn record_closing(folder: &Folder) -> Result<(), OpenError> {
    folder.record_closing(&preflight::closing_record(&folder.database())?)
}

/// What the engine keeps in memory of the database.
pub(super) struct Recovered {
    pub(super) catalog: Catalog<TableId>,
    pub(super) properties: PropertiesOfAccounts,
    pub(super) next_table_id: TableId,
    pub(super) last_stamp: DateTime,
}

impl Storage {
    /// Opens the database of a data folder, and creates it if the folder is new.
    pub(super) fn open(folder: &mut Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        if folder.is_new() {
            let storage = Self::open_database(folder, settings)?;
            folder.complete()?;
            return Ok(storage);
        }
        let closing = folder.closing()?;
        preflight::check(&folder.database(), closing.as_ref(), settings.cut_off)?;
        folder.forget_closing()?;
        let opened = Self::open_database(folder, settings);
        if opened.is_err() && closing.is_some() {
            // Nothing was written, so the next attempt must be as strict as this one.
            record_closing(folder)?;
        }
        opened
    }

    /// Creates the database of a folder that a restore fills and completes.
    pub(super) fn create(folder: &Folder, settings: OpenSettings) -> Result<Self, OpenError> {
        Self::open_database(folder, settings)
    }

    /// Reopens the database after a write failed, once the old one is closed.
    pub(super) fn open_again(
        folder: &Folder,
        settings: OpenSettings,
        acknowledged: Acknowledged,
    ) -> Result<Self, OpenError> {
        preflight::rescue(&folder.database(), settings.cut_off, acknowledged)?;
        Self::open_database(folder, settings)
    }

    /// Opens a copy of a database that is only read: no background work.
    pub(super) fn open_to_read(database: &Path) -> Result<Self, OpenError> {
        let db = opened(database, || {
            Database::builder(database)
                .cache_size(CHECK_CACHE_BYTES)
                .journal_compression(CompressionType::None)
                .max_journaling_size(JOURNALS_BYTES)
                // They would write out and compact what is to be read.
                .worker_threads_unchecked(0)
                .open()
        })?;
        Self::with_keyspace(db, database)
    }

    /// Closes the database of a folder that a restore has filled, and returns what its journals hold.
    pub(super) fn close(self, folder: &Folder) -> Result<ClosingRecord, OpenError> {
        drop(self);
        preflight::closing_record(&folder.database())
    }

    /// Has it recorded that everything was synced and that nothing more will be written, when the last reader is done.
    pub(super) fn record_closing_when_dropped(&self, folder: &Arc<Folder>) {
        self.closing.get_or_init(|| RecordOnDrop(Arc::clone(folder)));
    }

    /// The names of all sorted files that belong to the database.
    pub(super) fn sorted_files(&self) -> HashSet<OsString> {
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
            // Values are compressed in the sorted files. In the journal it would cost every commit, and the checksum
            // of a journal covers compressed bytes, which another version of the compressor might not reproduce.
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

    /// Whether the library refuses all writes, because one has failed.
    pub(super) fn refuses_writes(&self) -> bool {
        self.db.persist(PersistMode::Buffer).is_err()
    }

    /// What was acknowledged and is only in the journals. The library enters a batch into a memtable once it is written and,
    /// with the durability `Sync`, synced; and a batch that failed, never. Nobody may be writing.
    pub(super) fn acknowledged(&self, cut_off: CutOff) -> Acknowledged {
        match cut_off {
            CutOff::Everything => Acknowledged::Unknown,
            CutOff::Nothing | CutOff::LastBatch => Acknowledged::UpTo(self.data.tree.get_highest_memtable_seqno()),
        }
    }

    /// Writes a batch of the committer.
    pub(super) fn write(&self, batch: OwnedWriteBatch) -> fjall::Result<()> {
        self.visibility.write(|| self.db.seqno(), || batch.commit())
    }

    /// A snapshot that shows every batch whole or not at all; `None` if it cannot be had before a batch is written.
    pub(super) fn snapshot_now(&self) -> Option<fjall::Snapshot> {
        self.visibility.snapshot(|| self.db.snapshot(), || self.db.visible_seqno())
    }

    /// A snapshot that shows every batch whole or not at all. It may wait for a batch that is being written.
    pub(super) fn snapshot(&self) -> fjall::Snapshot {
        loop {
            if let Some(snapshot) = self.snapshot_now() {
                return snapshot;
            }
            self.visibility.wait();
        }
    }

    /// Makes room in memory for the next group: seals a memtable that is full, unless the one before is still being written
    /// out. Waits while there is no room, and while the library would make the writer wait.
    ///
    /// The library's own wait never ends if writing out has failed. This one ends with a failure.
    pub(super) fn wait_for_room(&self) {
        let tree = &self.data.tree;
        let is_full = || tree.active_memtable().size() >= MEMTABLE_BYTES;
        let must_wait = || match tree.sealed_memtable_count() {
            0 => false,
            // A folder of an earlier version may have memtables that the library writes out before they are full.
            sealed => is_full() || sealed >= SEALED_MEMTABLES_MAX,
        };
        while must_wait() || tree.l0_run_count() >= UPPERMOST_RUNS_MAX {
            if self.refuses_writes() {
                return;
            }
            std::thread::sleep(ROOM_POLL);
        }
        if is_full() {
            // If it fails, so does the write that follows.
            let _rotated = self.data.rotate_memtable();
        }
    }

    /// How many blocks all reads have loaded from disk, or from the cache of the operating system, since the database was
    /// opened.
    pub(super) fn blocks_loaded(&self) -> u64 {
        self.data.metrics().block_load_io_count() as u64
    }

    /// The engine's own entries of a snapshot.
    pub(super) fn own_entries(&self, snapshot: &fjall::Snapshot) -> impl Iterator<Item = fjall::Guard> {
        snapshot.range(&self.data, ..TableId::FIRST.to_bytes())
    }

    /// Reads what the engine keeps in memory.
    pub(super) fn recover(&self) -> Result<Recovered, OpenError> {
        let path = self.data.path();
        let mut recovered = Recovered {
            catalog: Catalog::default(),
            properties: PropertiesOfAccounts::default(),
            next_table_id: TableId::FIRST,
            last_stamp: DateTime::MIN,
        };
        let mut highest_id = None;
        for entry in self.own_entries(&self.db.snapshot()) {
            let entry = entry.into_inner();
            let (key, value) = entry.map_err(|source| OpenError::Storage { path: path.to_owned(), source })?;
            match layout::decode_own_entry(&key, &value) {
                Ok(OwnEntry::NextTableId(id)) => recovered.next_table_id = id,
                Ok(OwnEntry::LastStamp(stamp)) => recovered.last_stamp = stamp,
                Ok(OwnEntry::Table(entry)) => {
                    recovered.catalog.insert(&entry.table, entry.id);
                    recovered.catalog.set_policies(&entry.table, entry.policies);
                    highest_id = highest_id.max(Some(entry.id));
                }
                Ok(OwnEntry::Purge(id)) => highest_id = highest_id.max(Some(id)),
                Ok(OwnEntry::ServiceProperties(account, set)) => recovered.properties.insert(&account, *set),
                // A later version may have added this kind.
                Err(OwnEntryError::UnknownKind) => {}
                Err(OwnEntryError::Damaged(what)) => {
                    return Err(OpenError::damaged(path, format!("the key {}: {what}", key.escape_ascii())));
                }
            }
        }
        if highest_id.is_some_and(|highest| highest >= recovered.next_table_id) {
            return Err(OpenError::damaged(path, "the id of the next table is missing or was already given out"));
        }
        Ok(recovered)
    }
}

/// The library keeps the block size of a keyspace for ever, and with it every other figure that is not set here.
///
/// Measured with entities of 1 KiB: blocks of 16 KiB scan about as fast as larger ones, and a get that misses the
/// cache reads four times less than with 64 KiB. Compression is the library's default: none in the two levels that
/// are written most, LZ4 below. Filters stay on in the last level (`expect_point_read_hits` is off), because an
/// insert asks for a key that is not there, and would have to read a block from disk to know.
fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(ENTITY_BLOCK_BYTES))
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(UPPERMOST_FILES)))
        .max_memtable_size(LIBRARY_MEMTABLE_BYTES)
}

/// Runs a part of the opening of the database at a path.
fn opened<T>(path: &Path, open: impl FnOnce() -> fjall::Result<T>) -> Result<T, OpenError> {
    match guarded(open) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked { folder: path.to_owned() }),
        Ok(Err(source)) => Err(OpenError::Storage { path: path.to_owned(), source }),
        Err(Panicked) => {
            Err(OpenError::damaged(path, "the storage library stopped at an inconsistency; the log says where"))
        }
    }
}

/// A failure of the storage library as a caller gets it.
pub(super) fn storage_fault(error: fjall::Error) -> Fault {
    Fault::Storage(Box::new(error))
}
