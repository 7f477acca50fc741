//! Checks the database folder before the storage library opens it.
//!
//! The library repairs anything that looks like the result of a crash: it creates missing files, deletes unknown ones
//! and truncates journals. On a damaged folder, this would destroy data, so damage is detected first.
//!
//! Invariants:
//!
//! 1. This module changes only the last journal that was written, and only after a crash or a failed write, and if
//!    everything else is valid.
//! 2. Bytes that are cut off were never acknowledged as synced.
//! 3. Before the library opens the database, everything that it will read is on disk. What was read once is therefore
//!    never lost in a power failure.

use crate::disk::closing::{ClosedJournal, ClosingRecord};
use crate::disk::folder::{CLOSED, Closing, sync_folders};
use crate::disk::journal::{self, Journal, Tail};
use crate::disk::open_error::OpenError;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

const LIBRARY_VERSION: &[u8] = b"FJL\x03";

/// The numbered folders of the keyspaces: 0 belongs to the library itself, 1 to the engine.
pub(crate) const KEYSPACE_FOLDERS: [&str; 2] = ["0", "1"];

/// The only kind of checksum in use: 128-bit XXH3.
const KIND_XXH3: &[u8] = &[0];

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

/// The end of a journal that a crash left incomplete. It is removed at startup.
#[derive(Debug)]
pub(crate) struct IncompleteEnd {
    pub(crate) journal: PathBuf,
    pub(crate) valid_bytes: usize,
}

/// Checks the folder before it is opened, and ensures that everything that the library will read is on disk.
///
/// After a crash of the process, the operating system may show data and names that a power failure would remove: they
/// were never synced, or a failed sync dropped them. The library would append to such a journal, and delete the files
/// that the visible manifest does not list.
pub(crate) fn check(
    database: &Path,
    closing: Option<&Closing>,
    incomplete_writes: IncompleteWrites,
) -> Result<(), OpenError> {
    let journals = checked_journals(database, closing, incomplete_writes)?;
    if let Some(IncompleteEnd { journal, .. }) = incomplete_end(&journals) {
        tracing::warn!(
            journal = %journal.display(),
            "the end of the journal is incomplete and is removed; nothing in it was acknowledged as synced"
        );
    }
    if closing.is_none()
        && let Some(last) = journals.iter().rfind(|file| file.is_written())
    {
        rewrite(last)?;
    }
    sync_names(database)
}

/// Checks the folder of a complete database without changing anything. Returns the incomplete end of the last journal,
/// if any. After a clean shutdown, the journals must be unchanged, so no incomplete write is accepted.
pub(crate) fn inspect(
    database: &Path,
    closing: Option<&Closing>,
    incomplete_writes: IncompleteWrites,
) -> Result<Option<IncompleteEnd>, OpenError> {
    Ok(incomplete_end(&checked_journals(database, closing, incomplete_writes)?))
}

fn incomplete_end(journals: &[JournalFile]) -> Option<IncompleteEnd> {
    let JournalFile { path, journal, .. } = journals.last()?;
    let is_cut = journal.rest != Tail::Empty;
    is_cut.then(|| IncompleteEnd { journal: path.clone(), valid_bytes: journal.valid_bytes })
}

fn checked_journals(
    database: &Path,
    closing: Option<&Closing>,
    incomplete_writes: IncompleteWrites,
) -> Result<Vec<JournalFile>, OpenError> {
    let incomplete_writes = if closing.is_some() { IncompleteWrites::Nothing } else { incomplete_writes };
    check_version(&database.join("version"))?;
    for name in KEYSPACE_FOLDERS {
        manifest(&database.join("keyspaces").join(name))?;
    }
    let journals = read_journals(database)?;
    let Some((last, sealed)) = journals.split_last() else { return Ok(journals) };
    check_sequence(&journals)?;
    for JournalFile { path, journal, .. } in sealed {
        // A journal is completely synced before the next one is created.
        check_end(path, journal, IncompleteWrites::Nothing)?;
    }
    let JournalFile { path, journal, .. } = last;
    check_end(path, journal, incomplete_writes)?;
    if let Some(Closing::Recorded(record)) = closing {
        check_record(database, record, &journals)?;
    }
    Ok(journals)
}

pub(crate) fn closing_record(database: &Path) -> Result<ClosingRecord, OpenError> {
    Ok(ClosingRecord(read_journals(database)?.iter().map(JournalFile::closed).collect()))
}

fn check_record(database: &Path, record: &ClosingRecord, journals: &[JournalFile]) -> Result<(), OpenError> {
    let found: Vec<_> = journals.iter().map(JournalFile::closed).collect();
    let Some((number, what)) = record.difference(&found) else { return Ok(()) };
    let what = format!("{what}; to accept the loss, delete `{CLOSED}` in the data folder");
    Err(OpenError::damaged(&journal_path(database, number), what))
}

pub(crate) fn valid_part(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = read_journal(path).map_err(io::Error::other)?;
    bytes.truncate(journal::read(&bytes).valid_bytes);
    Ok(bytes)
}

pub(crate) fn checksum(path: &Path) -> io::Result<(u128, u64)> {
    let (mut file, mut hash, mut length) = (File::open(path)?, Xxh3Default::new(), 0);
    let mut block = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok((hash.digest128(), length));
        }
        hash.update(block.get(..read).unwrap_or_default());
        length += read as u64;
    }
}

pub(crate) struct Manifest(Vec<u8>);

impl Manifest {
    /// Returns whether the manifest lists the sorted file `id` with the given checksum. For each file, the manifest
    /// contains the file's number (8 bytes, little-endian), `00`, and its checksum (16 bytes, little-endian). The rest
    /// of the manifest is not decoded here.
    pub(crate) fn names(&self, id: u64, checksum: u128) -> bool {
        let entry = [&id.to_le_bytes()[..], KIND_XXH3, &checksum.to_le_bytes()].concat();
        self.0.windows(entry.len()).any(|bytes| bytes == entry)
    }
}

/// Reads the manifest of a keyspace and verifies its checksum. The library does not verify the checksum, and would
/// delete the sorted files that a damaged manifest does not list.
pub(crate) fn manifest(keyspace: &Path) -> Result<Manifest, OpenError> {
    // The library would treat a keyspace without this file as incomplete and delete it.
    let current = keyspace.join("current");
    let (number, checksum) = decode_current(&read(&current)?)
        .ok_or_else(|| OpenError::damaged(&current, "it does not name a manifest and its checksum"))?;
    let path = keyspace.join(format!("v{number}"));
    let bytes = read(&path)?;
    if xxh3_128(&bytes) == checksum {
        Ok(Manifest(bytes))
    } else {
        Err(OpenError::damaged(&path, "its checksum is wrong"))
    }
}

/// The batches that this process has acknowledged and that exist only in the journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// Every batch up to this sequence number; `None` if all of them are in sorted files.
    UpTo(Option<u64>),
    /// It is not known which batches were synced before they were acknowledged.
    Unknown,
}

/// Ensures that the contents of the journals are on disk, after a write or a sync has failed in this process. The
/// operating system may show data that it failed to write, and report no error at the next sync. Only the last journal
/// that was written to can contain unsynced data. That journal is replaced by a copy of its complete batches. If the
/// acknowledged batches are known, all of them must be in the copy, and everything after them is truncated: a partial
/// failed write, or its repetition by the library.
pub(crate) fn rescue(
    database: &Path,
    incomplete_writes: IncompleteWrites,
    acknowledged: Acknowledged,
) -> Result<(), OpenError> {
    let journals = read_journals(database)?;
    check_sequence(&journals)?;
    // The library may have begun a new journal after the failed write.
    let Some(last) = journals.iter().rposition(JournalFile::is_written) else { return sync_names(database) };
    let (sealed, rest) = journals.split_at(last);
    for JournalFile { path, journal, .. } in sealed {
        check_end(path, journal, IncompleteWrites::Nothing)?;
    }
    let Some(file @ JournalFile { path, journal, .. }) = rest.first() else { return sync_names(database) };
    match acknowledged {
        Acknowledged::Unknown => check_end(path, journal, incomplete_writes)?,
        Acknowledged::UpTo(number) => {
            let found = journals.iter().filter_map(|file| file.journal.sequence).map(|sequence| sequence.last).max();
            if number > found {
                return Err(OpenError::damaged(path, "it lacks batches that were synced and acknowledged"));
            }
        }
    }
    rewrite(file)?;
    sync_names(database)
}

/// Replaces a journal by a synced copy of its complete batches.
fn rewrite(JournalFile { path, journal, .. }: &JournalFile) -> Result<(), OpenError> {
    let bytes = read_journal(path)?;
    let copy = path.with_extension(COPY_EXTENSION);
    let replace = || -> io::Result<()> {
        let mut file = File::create(&copy)?;
        file.write_all(bytes.get(..journal.valid_bytes).unwrap_or_default())?;
        file.sync_all()?;
        fs::rename(&copy, path)
    };
    replace().map_err(|error| OpenError::io("rewrite", path, error))
}

/// Syncs all folders of the database. The library may have created or renamed a file without syncing its folder.
fn sync_names(database: &Path) -> Result<(), OpenError> {
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
    // Without this file, the library would create a new database over the existing one.
    if read(path)? == LIBRARY_VERSION {
        Ok(())
    } else {
        Err(OpenError::damaged(path, "it is not the version file of format 3 of the storage library"))
    }
}

fn decode_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let (manifest, rest) = bytes.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    (kind == KIND_XXH3).then(|| (u64::from_le_bytes(*manifest), u128::from_le_bytes(*checksum)))
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
        let checksum = xxh3_128(bytes.get(..journal.valid_bytes).unwrap_or_default());
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
    let list = || -> io::Result<Vec<String>> {
        fs::read_dir(database)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let names = list().map_err(|error| OpenError::io("read the folder", database, error))?;
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

    fn open(folder: &Path) -> (fjall::Database, fjall::Keyspace) {
        let db = fjall::Database::builder(folder).journal_compression(fjall::CompressionType::None).open().unwrap();
        let data = db.keyspace("data", fjall::KeyspaceCreateOptions::default).unwrap();
        (db, data)
    }

    #[test]
    fn a_rescue_cuts_what_follows_the_acknowledged_batches_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        {
            let (db, data) = open(folder.path());
            for number in 0..4_u8 {
                let mut batch = db.batch().durability(Some(fjall::PersistMode::SyncData));
                batch.insert(&data, [number], [number; 100]);
                batch.commit().unwrap();
            }
        }
        let path = folder.path().join("0.jnl");
        let good = valid_part(&path).unwrap();
        let last = journal::read(&good).sequence.unwrap().last;
        let length = good.len() / 4;
        let (before, later) = good.split_at(2 * length);
        // The third batch is unreadable, but the fourth one is readable.
        let unreadable = [before, &[0xFF; 7], &later[length..]].concat();
        let rescue = |bytes: &[u8], acknowledged| {
            fs::write(&path, bytes).unwrap();
            let result = super::rescue(folder.path(), IncompleteWrites::LastBatch, acknowledged);
            result.map(|()| fs::read(&path).unwrap()).map_err(|error| error.to_string())
        };
        for acknowledged in [None, Some(0), Some(last - 2)] {
            assert!(rescue(&unreadable, Acknowledged::UpTo(acknowledged)).unwrap() == before, "{acknowledged:?}");
        }
        for acknowledged in [last - 1, last] {
            let error = rescue(&unreadable, Acknowledged::UpTo(Some(acknowledged))).unwrap_err();
            assert!(error.contains("lacks batches"), "{error}");
            assert!(fs::read(&path).unwrap() == unreadable, "a refused journal is not changed");
        }
        assert!(rescue(&unreadable, Acknowledged::Unknown).unwrap_err().contains("a later one"));
        // A complete batch is preserved, even if it was not acknowledged.
        for acknowledged in [last - 1, last] {
            assert!(rescue(&good, Acknowledged::UpTo(Some(acknowledged))).unwrap() == good);
        }
    }

    #[test]
    fn the_last_journal_is_rewritten_after_a_crash_and_not_after_a_clean_shutdown() {
        let folder = tempfile::tempdir().unwrap();
        {
            let (_db, data) = open(folder.path());
            data.insert("key", "value").unwrap();
        }
        let path = folder.path().join("0.jnl");
        let (good, written) = (valid_part(&path).unwrap(), fs::read(&path).unwrap());
        assert!(good.len() < written.len(), "the library creates journals with zeros at the end");
        check(folder.path(), Some(&Closing::Unrecorded), IncompleteWrites::LastBatch).unwrap();
        assert!(fs::read(&path).unwrap() == written);
        // The beginning of a batch was cut off in a crash.
        fs::write(&path, [&good[..], &good[..20]].concat()).unwrap();
        check(folder.path(), None, IncompleteWrites::LastBatch).unwrap();
        assert!(fs::read(&path).unwrap() == good);
        fs::write(&path, &written).unwrap();
        check(folder.path(), None, IncompleteWrites::LastBatch).unwrap();
        assert!(fs::read(&path).unwrap() == good, "a journal that looks complete may not be on disk");
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
