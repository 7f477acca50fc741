//! Checks the database folder of format 1 before it is migrated.
//!
//! A damaged folder must not be migrated: the tree library deletes the sorted files that a manifest does not list, and
//! the migration deletes the journals.
//!
//! Invariants:
//!
//! 1. This module changes only the last journal that was written, and only after a crash, and if everything else is
//!    valid.
//! 2. Bytes that are cut off were never acknowledged as synced.
//! 3. Before the migration begins, everything that it reads is on disk. If it is interrupted, it therefore finds the
//!    same batches again.

use crate::disk::folder::{self, sync_folders};
use crate::disk::format1::closing::{CLOSED, ClosedJournal, Closing, ClosingRecord};
use crate::disk::format1::journal::{self, Item, Journal, Tail};
use crate::disk::manifest::Manifest;
use crate::disk::open_error::OpenError;
use crate::log::options::Durability;
use platform::files::rename;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const LIBRARY_VERSION: &[u8] = b"FJL\x03";

/// The numbered folders of the keyspaces: 0 belonged to the former storage library, 1 to the engine.
pub(crate) const KEYSPACE_FOLDERS: [&str; 2] = ["0", "1"];

const COPY_EXTENSION: &str = "copy";
const READ_BYTES: usize = 64 * 1024;

/// The part of the active journal whose damage is treated as an incomplete write rather than as an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncompleteWrites {
    /// None: the database was closed cleanly, so everything was synced.
    Nothing,
    /// Only the last batch: every batch before it was synced.
    LastBatch,
    /// Everything from the first unreadable batch on: several batches may not have been synced.
    Everything,
}

impl From<Durability> for IncompleteWrites {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Sync => Self::LastBatch,
            Durability::Interval => Self::Everything,
        }
    }
}

/// The end of a journal that a crash left incomplete. It is removed at startup.
#[derive(Debug)]
pub(crate) struct IncompleteEnd {
    pub(crate) journal: PathBuf,
    pub(crate) valid_bytes: usize,
}

/// Checks the folder of a complete database without changing anything. After a clean shutdown, the journals must be
/// unchanged, so no incomplete write is accepted.
pub(crate) fn check(
    database: &Path,
    closing: Option<&Closing>,
    incomplete_writes: IncompleteWrites,
) -> Result<Journals, OpenError> {
    let incomplete_writes = if closing.is_some() { IncompleteWrites::Nothing } else { incomplete_writes };
    check_version(&database.join("version"))?;
    for name in KEYSPACE_FOLDERS {
        Manifest::read(&database.join("keyspaces").join(name))?;
    }
    let journals = read_journals(database)?;
    check_sequence(&journals)?;
    if let Some((last, sealed)) = journals.split_last() {
        for JournalFile { path, journal, .. } in sealed {
            // A journal is completely synced before the next one is created.
            check_end(path, journal, IncompleteWrites::Nothing)?;
        }
        check_end(&last.path, &last.journal, incomplete_writes)?;
    }
    if let Some(Closing::Recorded(record)) = closing {
        check_record(database, record, &journals)?;
    }
    Ok(Journals(journals))
}

/// The journals of a database, from the oldest to the active one, as far as they can be read.
pub(crate) struct Journals(Vec<JournalFile>);

impl Journals {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the incomplete end of the last journal, if any.
    pub(crate) fn incomplete_end(&self) -> Option<IncompleteEnd> {
        let JournalFile { path, journal, .. } = self.0.last()?;
        let is_cut = journal.rest != Tail::Empty;
        is_cut.then(|| IncompleteEnd { journal: path.clone(), valid_bytes: journal.valid_bytes })
    }

    /// Ensures that the batches are on disk. Must be called unless the database was closed cleanly.
    ///
    /// After a crash of the process, the operating system may show data that a power failure would remove: it was never
    /// synced, or a failed sync dropped it. A sync would not help in the second case.
    pub(crate) fn make_durable(&self) -> Result<(), OpenError> {
        self.0.iter().rfind(|file| file.is_written()).map_or(Ok(()), rewrite)
    }

    /// Passes the complete batches to `visit`, in the order in which they were written.
    pub(crate) fn read(&self, visit: &mut dyn FnMut(&[Item<'_>]) -> Result<(), OpenError>) -> Result<(), OpenError> {
        for JournalFile { path, journal, checksum, .. } in &self.0 {
            let bytes = read_journal(path)?;
            let valid = bytes.get(..journal.valid_bytes).unwrap_or_default();
            if xxh3_128(valid) != *checksum {
                return Err(OpenError::damaged(path, "it changed while it was read"));
            }
            for batch in journal::batches(valid) {
                visit(&batch.ok_or_else(|| OpenError::damaged(path, UNEXPECTED))?)?;
            }
        }
        Ok(())
    }
}

/// The reason why a complete batch cannot be applied.
const UNEXPECTED: &str = "it contains an operation that Rowhouse never wrote";

fn check_record(database: &Path, record: &ClosingRecord, journals: &[JournalFile]) -> Result<(), OpenError> {
    let found: Vec<_> = journals.iter().map(JournalFile::closed).collect();
    let Some((number, what)) = record.difference(&found) else { return Ok(()) };
    let what = format!("{what}; to accept the loss, delete `{CLOSED}` in the data folder");
    Err(OpenError::damaged(&journal_path(database, number), what))
}

/// Replaces a journal by a synced copy of its complete batches.
fn rewrite(JournalFile { path, journal, .. }: &JournalFile) -> Result<(), OpenError> {
    let bytes = read_journal(path)?;
    let copy = path.with_extension(COPY_EXTENSION);
    let replace = || -> io::Result<()> {
        let mut file = File::create(&copy)?;
        file.write_all(bytes.get(..journal.valid_bytes).unwrap_or_default())?;
        file.sync_all()?;
        rename(&copy, path)
    };
    replace().map_err(|error| OpenError::io("rewrite", path, error))
}

/// Syncs all folders of the database. After a crash, names may be visible that a power failure would remove, and the
/// tree library deletes the files that the visible manifest does not list.
pub(crate) fn sync_names(database: &Path) -> Result<(), OpenError> {
    sync_folders(database).map_err(|error| OpenError::io("sync the folders of", database, error))
}

fn check_end(path: &Path, journal: &Journal, incomplete_writes: IncompleteWrites) -> Result<(), OpenError> {
    let is_accepted = match journal.rest {
        Tail::Empty => true,
        Tail::Incomplete => incomplete_writes != IncompleteWrites::Nothing,
        Tail::BatchAt(_) | Tail::Unclear => incomplete_writes == IncompleteWrites::Everything,
    };
    if is_accepted {
        return Ok(());
    }
    let at = journal.valid_bytes;
    let why = match journal.rest {
        _ if incomplete_writes == IncompleteWrites::Nothing => "although everything was synced".to_owned(),
        Tail::BatchAt(later) => format!("although a later one at byte {later} can; {}", remedy(at)),
        _ => {
            format!(
                "and too many of the following bytes look like batches to determine whether there is a later one; {}",
                remedy(at)
            )
        }
    };
    Err(OpenError::damaged(path, format!("the batch at byte {at} cannot be read, {why}")))
}

/// Returns instructions for an operator who would rather lose part of the journal than restore a backup.
fn remedy(at: usize) -> String {
    format!("starting once with `--durability interval` drops everything from byte {at} on")
}

/// Checks that sequence numbers increase from batch to batch. They determine which value is newer, and no checksum
/// covers them.
fn check_sequence(journals: &[JournalFile]) -> Result<(), OpenError> {
    let mut last = None;
    for JournalFile { path, journal, .. } in journals {
        let Some(sequence) = &journal.sequence else { continue };
        if !sequence.grows || last.is_some_and(|last| last >= sequence.first) {
            return Err(OpenError::damaged(path, "the sequence numbers of its batches do not increase"));
        }
        last = Some(sequence.last);
    }
    Ok(())
}

fn check_version(path: &Path) -> Result<(), OpenError> {
    if read(path)? == LIBRARY_VERSION {
        Ok(())
    } else {
        Err(OpenError::damaged(path, "it is not the version file of format 3 of the storage library"))
    }
}

/// There must be at least one journal.
fn read_journals(database: &Path) -> Result<Vec<JournalFile>, OpenError> {
    let numbers = journal_numbers(database)?;
    if numbers.is_empty() {
        return Err(OpenError::damaged(database, "its journal is missing"));
    }
    let read = |number| {
        let path = journal_path(database, number);
        let bytes = read_journal(&path)?;
        let journal = journal::read(&bytes);
        let valid = bytes.get(..journal.valid_bytes).unwrap_or_default();
        if journal::batches(valid).any(|batch| batch.is_none()) {
            return Err(OpenError::damaged(&path, UNEXPECTED));
        }
        let checksum = xxh3_128(valid);
        Ok(JournalFile { number, path, journal, checksum })
    };
    numbers.into_iter().map(read).collect()
}

struct JournalFile {
    number: u64,
    path: PathBuf,
    journal: Journal,
    checksum: u128,
}

impl JournalFile {
    fn is_written(&self) -> bool {
        self.journal != Journal::UNWRITTEN
    }

    fn closed(&self) -> ClosedJournal {
        ClosedJournal { number: self.number, bytes: self.journal.valid_bytes, checksum: self.checksum }
    }
}

fn journal_path(database: &Path, number: u64) -> PathBuf {
    database.join(format!("{number}.jnl"))
}

/// Returns the numbers of the journals, from the oldest to the active one.
fn journal_numbers(database: &Path) -> Result<Vec<u64>, OpenError> {
    let names = folder::names(database).map_err(|error| OpenError::io("read the folder", database, error))?;
    let mut ids = Vec::new();
    for name in names.iter().filter_map(|name| name.strip_suffix(".jnl")) {
        let id = name.parse::<u64>();
        ids.push(id.map_err(|_| OpenError::damaged(database, format!("{name}.jnl is not the name of a journal")))?);
    }
    ids.sort_unstable();
    // The oldest journals are deleted first, so there are no gaps.
    let mut neighbours = ids.iter().zip(ids.iter().skip(1));
    if let Some((before, _)) = neighbours.find(|(a, b)| a.checked_add(1) != Some(**b)) {
        return Err(OpenError::damaged(database, format!("the journal after {before}.jnl is missing")));
    }
    Ok(ids)
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    fs::read(path).map_err(|error| read_failure(path, error))
}

/// Reads a journal without its trailing zeros; a nearly new journal contains 64 MiB of them.
fn read_journal(path: &Path) -> Result<Vec<u8>, OpenError> {
    let read = || {
        let mut file = File::open(path)?;
        let (mut bytes, mut zeros, mut block) = (Vec::new(), 0, vec![0; READ_BYTES]);
        loop {
            let length = file.read(&mut block)?;
            let read = block.get(..length).unwrap_or_default();
            if read.is_empty() {
                return Ok(bytes);
            } else if read.iter().all(|byte| *byte == 0) {
                zeros += length;
            } else {
                bytes.resize(bytes.len() + std::mem::take(&mut zeros), 0);
                bytes.extend_from_slice(read);
            }
        }
    };
    read().map_err(|error| read_failure(path, error))
}

fn read_failure(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenError::damaged(path, "the file is missing"),
        _ => OpenError::io("read", path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_without_the_zeros_at_its_end_and_with_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.jnl");
        let mut content = vec![0; 5 * READ_BYTES];
        content[0] = 1;
        content[3 * READ_BYTES + 7] = 2;
        fs::write(&path, &content).unwrap();
        assert_eq!(read_journal(&path).unwrap(), &content[..4 * READ_BYTES]);
        fs::write(&path, vec![0; 3 * READ_BYTES]).unwrap();
        assert_eq!(read_journal(&path).unwrap(), b"");
        assert!(matches!(read_journal(&folder.path().join("1.jnl")), Err(OpenError::Damaged { .. })));
    }

    #[test]
    fn a_refusal_for_a_later_batch_names_the_way_out() {
        let end = |rest, incomplete_writes| {
            let journal = Journal { valid_bytes: 12, rest, sequence: None };
            check_end(Path::new("0.jnl"), &journal, incomplete_writes).map_err(|error| error.to_string())
        };
        for (rest, expected) in
            [(Tail::BatchAt(34), "a later one at byte 34 can"), (Tail::Unclear, "look like batches")]
        {
            let error = end(rest, IncompleteWrites::LastBatch).unwrap_err();
            let remedy = "starting once with `--durability interval` drops everything from byte 12 on";
            assert!(error.contains(expected) && error.contains(remedy), "{error}");
            assert!(end(rest, IncompleteWrites::Nothing).unwrap_err().contains("although everything was synced"));
            assert_eq!(end(rest, IncompleteWrites::Everything), Ok(()));
        }
        assert_eq!(end(Tail::Incomplete, IncompleteWrites::LastBatch), Ok(()));
        assert!(end(Tail::Incomplete, IncompleteWrites::Nothing).is_err());
    }
}
