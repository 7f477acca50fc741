//! Data folders of format 1, and their migration.
//!
//! In format 1, the folder `database` belonged to a storage library, which kept its own journals. Its sorted files have
//! the format of the tree, which therefore opens them in place. The migration applies the batches of the journals to
//! the tree, moves the tree, and begins a log. It does not need the former library. `docs/data-folder-format-1.md`
//! describes the files.
//!
//! Each step leaves a state that the next start recognizes by what exists:
//!
//! | marker | `database/keyspaces/1` | `tree` | what the next start does |
//! |---|---|---|---|
//! | format 1 | exists | | checks everything, then replaces the marker |
//! | migrating | exists | | checks everything, then applies the journals and moves the tree |
//! | migrating | | exists | begins a log unless it exists, then completes the marker |
//! | format 2 | | exists | removes what is left of `database` |
//!
//! Invariants:
//!
//! 1. A folder that is damaged is refused, and not changed before its marker is replaced. Earlier versions refuse a
//!    folder with a later marker. So no version ever opens a half-migrated folder in another way than this module does.
//! 2. Before the marker is replaced, all batches are on disk. An interrupted migration applies them all again, in the
//!    same order. This does no harm, because the journals hold the last part of the history: after the last batch, each
//!    key has the same value as after the first attempt.
//! 3. The journals are deleted only after everything in them is in sorted files, and the marker says so.

pub(crate) mod closing;
pub(crate) mod preflight;

mod journal;
#[cfg(test)]
mod tests;

use crate::disk::folder::{Folder, Kind};
use crate::disk::layout::{self, TableId};
use crate::disk::manifest::Manifest;
use crate::disk::open_error::OpenError;
use crate::disk::storage::{guarded_tree, log_error, recover};
use crate::disk::storage_error::StorageError;
use crate::log::options::{Durability, Options};
use crate::log::real_disk::RealDisk;
use crate::log::recovery::{Known, open};
use crate::tree::{Tree, TreeSettings};
use closing::Closing;
use engine::parts::monotonic;
use journal::Item;
use preflight::{IncompleteEnd, Journals};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cache size while the folder is migrated, in bytes. Hardly anything is read.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

/// The steps of a migration. Each is durable when it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Everything was checked, and all batches are on disk.
    Checked,
    /// The marker says that the folder is being migrated.
    Marked,
    /// A part of the batches is in sorted files.
    PartFlushed,
    /// All batches are in sorted files.
    Flushed,
    /// The tree is at its new place.
    Moved,
    /// The log exists.
    LogBegun,
    /// The marker says that the folder has format 2.
    Completed,
}

/// Called after each step. An error ends the migration there.
pub(crate) type Reached<'a> = &'a mut dyn FnMut(Step) -> Result<(), OpenError>;

/// The number of batches and operations that were applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Applied {
    batches: u64,
    operations: u64,
}

/// Migrates a folder of format 1, or continues an interrupted migration. The files of format 1 remain until
/// [`Folder::remove_remains`] is called.
pub(crate) fn migrate(folder: &mut Folder, durability: Durability, reached: Reached<'_>) -> Result<(), OpenError> {
    let began = monotonic::now();
    let (mut journal_count, mut applied) = (0, Applied::default());
    if !is_moved(folder) {
        let journals = judge(folder, durability)?;
        reached(Step::Checked)?;
        if folder.kind() == Kind::Format1 {
            folder.begin_migration()?;
        }
        reached(Step::Marked)?;
        journal_count = journals.count();
        applied = flush_batches(&folder.database_tree(), &journals, reached)?;
        reached(Step::Flushed)?;
        folder.move_tree()?;
    }
    reached(Step::Moved)?;
    begin_log(folder, durability)?;
    reached(Step::LogBegun)?;
    folder.complete_migration()?;
    reached(Step::Completed)?;
    let Applied { batches, operations } = applied;
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(
        journals = journal_count,
        batches,
        operations,
        seconds,
        "the data folder was migrated from format 1 to format 2; earlier versions do not open it any more"
    );
    Ok(())
}

/// Returns whether an interrupted migration has moved the tree, and with it all batches.
fn is_moved(folder: &Folder) -> bool {
    folder.kind() == Kind::Migrating && !exists(&folder.database_tree())
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Checks the folder, and ensures that everything that the migration reads is on disk. Does not change the folder
/// before it is found to be good, except that the tree library removes files that a crash left.
fn judge(folder: &Folder, durability: Durability) -> Result<Journals, OpenError> {
    let closing = Closing::read(folder.path())?;
    let journals = preflight::check(&folder.database(), closing.as_ref(), durability.into())?;
    for path in [folder.tree(), folder.log()] {
        if exists(&path) {
            return Err(OpenError::damaged(
                &path,
                "it must not exist in a folder of format 1; an interrupted restore may have left it, and then it can be \
                 deleted",
            ));
        }
    }
    preflight::sync_names(&folder.database())?;
    check_own_entries(&folder.database_tree(), &journals)?;
    folder.probe_rename()?;
    if let Some(IncompleteEnd { journal, .. }) = journals.incomplete_end() {
        tracing::warn!(
            journal = %journal.display(),
            "the end of the journal is incomplete and is removed; nothing in it was acknowledged as synced"
        );
    }
    if closing.is_none() {
        journals.make_durable()?;
        preflight::sync_names(&folder.database())?;
    }
    Ok(journals)
}

/// Checks that the tree can be opened, and that the engine can be started with it.
fn check_own_entries(path: &Path, journals: &Journals) -> Result<(), OpenError> {
    let tree = open_tree(path)?;
    apply(&tree, journals, |item| item.key < &TableId::FIRST.to_bytes()[..], &mut || Ok(()))?;
    recover(&tree).map(drop).map_err(|error| OpenError::storage(path, error))
}

fn open_tree(path: &Path) -> Result<Tree, OpenError> {
    guarded_tree(path, || Tree::open(path, TreeSettings { cache_bytes: CACHE_BYTES }))
}

/// Applies the batches of the journals to the tree, and writes them to sorted files.
fn flush_batches(path: &Path, journals: &Journals, reached: Reached<'_>) -> Result<Applied, OpenError> {
    let tree = open_tree(path)?;
    let flush = |tree: &Tree| {
        tree.rotate();
        let flushed = tree.flush().map(drop);
        flushed.map_err(|error| OpenError::Storage { path: path.to_owned(), source: error.into() })
    };
    let applied = apply(&tree, journals, |_| true, &mut || {
        if tree.wait_until_full(Duration::ZERO) {
            flush(&tree)?;
            reached(Step::PartFlushed)?;
        }
        Ok(())
    })?;
    mark(&tree).map_err(|error| OpenError::storage(path, error))?;
    flush(&tree)?;
    Ok(applied)
}

/// Writes an entry again. Then the last flush is never empty, and records the last sequence in the files. Otherwise,
/// the files of format 1 alone would determine it, and a merge that drops their last entries would seem to lose
/// transactions.
fn mark(tree: &Tree) -> Result<(), StorageError> {
    let stamp = tree.snapshot().get(layout::LAST_STAMP)?;
    let sequence = tree.published().next();
    tree.apply(sequence, [(layout::LAST_STAMP.into(), stamp)]);
    tree.publish(sequence);
    Ok(())
}

/// Applies and publishes the chosen operations, each batch with the next sequence. `applied` is called after each
/// batch.
fn apply(
    tree: &Tree,
    journals: &Journals,
    is_chosen: impl Fn(&Item<'_>) -> bool,
    applied: &mut dyn FnMut() -> Result<(), OpenError>,
) -> Result<Applied, OpenError> {
    let mut counts = Applied::default();
    journals.read(&mut |items| {
        // If a batch changes a key twice, the last change counts.
        let changes: BTreeMap<_, _> =
            items.iter().filter(|item| is_chosen(item)).map(|item| (item.key, item.value)).collect();
        if changes.is_empty() {
            return Ok(());
        }
        counts.batches += 1;
        counts.operations += changes.len() as u64;
        let sequence = tree.published().next();
        tree.apply(sequence, changes.into_iter().map(|(key, value)| (key.into(), value.map(Into::into))));
        tree.publish(sequence);
        applied()
    })?;
    Ok(counts)
}

/// Begins the log after everything in the moved tree, unless an interrupted migration did so.
fn begin_log(folder: &Folder, durability: Durability) -> Result<(), OpenError> {
    Manifest::read(&folder.tree())?;
    let persisted = open_tree(&folder.tree())?.persisted();
    folder.create_log()?;
    let (path, known) = (folder.log(), Known { persisted, may_be_missing: true });
    let (_, recovered) = open(RealDisk::new(&path), Options::new(durability), known, &mut |_| Ok(()))
        .map_err(|error| log_error(&path, error))?;
    if recovered.last != persisted {
        return Err(OpenError::damaged(&path, "it contains transactions although the folder is not migrated yet"));
    }
    folder.sync_names()
}

/// A folder that is not migrated, for reading.
pub(crate) struct OldFolder {
    /// The folder of the sorted files.
    pub(crate) tree: PathBuf,
    /// `None` if everything in the journals is in the sorted files.
    journals: Option<Journals>,
}

impl OldFolder {
    /// Checks the journals without changing anything.
    pub(crate) fn read(folder: &Folder) -> Result<Self, OpenError> {
        if is_moved(folder) {
            return Ok(Self { tree: folder.tree(), journals: None });
        }
        let closing = Closing::read(folder.path())?;
        let journals = preflight::check(&folder.database(), closing.as_ref(), Durability::Sync.into())?;
        Ok(Self { tree: folder.database_tree(), journals: Some(journals) })
    }

    pub(crate) fn incomplete_end(&self) -> Option<IncompleteEnd> {
        self.journals.as_ref()?.incomplete_end()
    }

    /// Opens a copy of the tree, with the batches of the journals.
    pub(crate) fn open_copy(&self, copy: &Path) -> Result<Tree, OpenError> {
        let tree = open_tree(copy)?;
        if let Some(journals) = &self.journals {
            apply(&tree, journals, |_| true, &mut || Ok(()))?;
        }
        Ok(tree)
    }
}
