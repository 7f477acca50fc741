//! A server on a simulated disk: `disk.c` is loaded into it, records its file operations and injects faults. What a
//! power loss leaves of a folder is computed from the record.
//!
//! The rules are as strict as POSIX allows: data written to a file is certain to survive once the file has been synced,
//! and a name is certain to survive once its folder has been synced. Of everything else, a random part survives: the
//! names in a folder up to a certain change, and any selection of the writes to a file, each possibly torn at sectors.
//! A failed sync drops what it should have written: as on Linux, later syncs succeed, but that data may be lost. A real
//! file system preserves more.

use crate::PROGRAM;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::command::compile_library;
use test_support::{Random, Server};

pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EIO: u32 = 5;

pub(crate) struct SimulatedDisk {
    place: tempfile::TempDir,
    library: PathBuf,
    pub(crate) data: PathBuf,
    control: PathBuf,
    seed: u64,
    /// The record of file operations, if they are to be recorded.
    log: Option<PathBuf>,
}

impl SimulatedDisk {
    /// Creates a disk whose only purpose is to fail.
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/crash/disk.c");
        let library = compile_library(&source, place.path());
        let root = place.path().canonicalize().unwrap();
        let (data, control) = (root.join("data"), root.join("control"));
        fs::create_dir(&data).unwrap();
        Self { place, library, data, control, seed: 0, log: None }
    }

    /// Creates a disk that also records operations, and chooses the operations that fail from a seed.
    pub(super) fn recorded(seed: u64) -> Self {
        let disk = Self::new();
        Self { log: Some(disk.path("log")), seed, ..disk }
    }

    /// Returns the path of a file or folder next to the data folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.data.with_file_name(name)
    }

    pub(super) fn log(&self) -> &Path {
        self.log.as_deref().unwrap()
    }

    pub(super) fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, options: &[&str]) -> Server {
        let arguments = [&["--data", self.data.to_str().unwrap(), "--extensions"], options].concat();
        PROGRAM.start_with(&arguments, |command| self.simulate_for(command))
    }

    /// Makes a program use the disk for its files in the data folder.
    pub(super) fn simulate_for(&self, command: &mut Command) {
        let paths = [("LD_PRELOAD", &self.library), ("DISK_FOLDER", &self.data), ("DISK_CONTROL", &self.control)];
        command.envs(paths).envs(self.log.as_ref().map(|log| ("DISK_LOG", log)));
        command.env("DISK_SEED", self.seed.to_string());
    }

    pub(crate) fn fail(&self, kinds: &str, error: u32, free: Option<u64>) {
        let free = free.map_or("-1".to_owned(), |free| free.to_string());
        self.order(&format!("{kinds} {error} {free} 0 1"));
    }

    /// Gives orders to `disk.c`, one per line. They replace earlier orders.
    pub(super) fn order(&self, orders: &str) {
        // The file must appear atomically.
        let new = self.place.path().join("new-control");
        fs::write(&new, format!("{orders}\n")).unwrap();
        fs::rename(new, &self.control).unwrap();
    }

    pub(crate) fn repair(&self) {
        fs::remove_file(&self.control).unwrap();
    }
}

/// The sizes of the parts of which a disk writes each completely or not at all, in bytes.
const SECTOR_BYTES: [u64; 2] = [512, 4096];

/// Copies a folder without sockets. Blocks of zeros take no space in the copy; a prepared segment of the
/// log consists of them.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if path.is_file() {
            copy_file(&path, &target);
        }
    }
}

fn copy_file(from: &Path, to: &Path) {
    const BLOCK_BYTES: usize = 64 * 1024;
    let bytes = fs::read(from).unwrap();
    let file = fs::File::create(to).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (number * BLOCK_BYTES) as u64).unwrap();
        }
    }
}

/// Writes to `after` what is left of `watched`, which was a copy of `before` when the log began. Returns the data that
/// had been written to the log and synced.
pub(crate) fn lose_power(before: &Path, watched: &Path, log: &Path, after: &Path, random: &mut Random) -> Vec<u8> {
    let bytes = fs::read(log).unwrap();
    let mut disk = Disk::new(before, watched);
    for record in Records::new(&bytes) {
        disk.apply(&record);
    }
    let synced = disk.synced_log();
    disk.settle(random);
    disk.write(after);
    synced
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Write,
    Truncate,
    Sync,
    Rename,
    Unlink,
    MakeFolder,
    RemoveFolder,
    FailedSync,
    /// An injected fault. The data is its letter.
    Fault,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// The position in the log after this record.
    pub(crate) end: u64,
}

/// Reads records up to the first incomplete record, which was being written when the process was killed.
pub(crate) struct Records<'a> {
    log: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(crate) fn new(log: &'a [u8]) -> Self {
        Self { log, at: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        const HEAD: usize = 17;
        let rest = &self.log[self.at..];
        let head = rest.get(..HEAD)?;
        let number = |at: usize| usize::try_from(u32::from_ne_bytes(head[at..at + 4].try_into().unwrap())).unwrap();
        let (path_end, end) = (HEAD + number(1), HEAD + number(1) + number(13));
        let record = rest.get(..end)?;
        self.at += end;
        let kinds = [
            Kind::Create,
            Kind::Write,
            Kind::Truncate,
            Kind::Sync,
            Kind::Rename,
            Kind::Unlink,
            Kind::MakeFolder,
            Kind::RemoveFolder,
            Kind::FailedSync,
            Kind::Fault,
        ];
        Some(Record {
            kind: kinds[usize::from(head[0]) - 1],
            path: Path::new(OsStr::from_bytes(&record[HEAD..path_end])),
            offset: u64::from_ne_bytes(head[5..13].try_into().unwrap()),
            data: &record[path_end..],
            end: self.at as u64,
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Change<'a> {
    Write(u64, &'a [u8]),
    Truncate(u64),
}

/// The file may have any number of names.
#[derive(Debug, Clone, Default)]
struct File<'a> {
    before: Option<PathBuf>,
    changes: Vec<Change<'a>>,
    /// The number of changes before the last sync, successful or not.
    synced: usize,
    /// The changes that a failed sync dropped.
    dropped: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder,
}

/// An atomic change of the names in a folder: one may disappear, and one may appear.
#[derive(Debug, Clone)]
struct NameChange {
    gone: Option<PathBuf>,
    new: Option<(PathBuf, Node)>,
}

/// The contents of a disk and of the cache above it, at one moment of a record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk<'a> {
    root: PathBuf,
    files: Vec<File<'a>>,
    /// The names that processes see.
    seen: BTreeMap<PathBuf, Node>,
    /// The names that are certain to survive.
    certain: BTreeMap<PathBuf, Node>,
    /// The changes to names since their folder was last synced.
    pending: BTreeMap<PathBuf, Vec<NameChange>>,
}

impl<'a> Disk<'a> {
    pub(crate) fn new(before: &Path, watched: &Path) -> Self {
        let mut disk = Self { root: watched.canonicalize().unwrap(), ..Self::default() };
        disk.add(before, &disk.root.clone());
        disk.seen = disk.certain.clone();
        disk
    }

    fn add(&mut self, folder: &Path, shown: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, shown) = (entry.path(), shown.join(entry.file_name()));
            if path.is_dir() {
                self.certain.insert(shown.clone(), Node::Folder);
                self.add(&path, &shown);
            } else if path.is_file() {
                self.certain.insert(shown, Node::File(self.files.len()));
                self.files.push(File { before: Some(path), ..File::default() });
            }
        }
    }

    pub(crate) fn apply(&mut self, record: &Record<'a>) {
        let path = record.path.to_owned();
        match record.kind {
            Kind::Create => {
                let node = Node::File(self.files.len());
                self.files.push(File::default());
                self.name(None, Some((path, node)));
            }
            Kind::MakeFolder => self.name(None, Some((path, Node::Folder))),
            Kind::Unlink | Kind::RemoveFolder => self.name(Some(path), None),
            Kind::Rename => {
                // The record does not show how a socket is created. Only the name of a socket remains, as for an empty
                // file.
                let node = self.seen.get(&path).copied().unwrap_or_else(|| {
                    assert!(path.ends_with("control.sock"), "{} was never created", path.display());
                    self.files.push(File::default());
                    Node::File(self.files.len() - 1)
                });
                self.name(Some(path), Some((PathBuf::from(OsStr::from_bytes(record.data)), node)));
            }
            Kind::Write => self.change(&path, Change::Write(record.offset, record.data)),
            Kind::Truncate => self.change(&path, Change::Truncate(record.offset)),
            Kind::Sync | Kind::FailedSync => self.sync(&path, record.kind == Kind::Sync),
            Kind::Fault => {}
        }
    }

    fn name(&mut self, gone: Option<PathBuf>, new: Option<(PathBuf, Node)>) {
        if let Some(gone) = &gone {
            self.seen.remove(gone);
        }
        if let Some((path, node)) = &new {
            self.seen.insert(path.clone(), *node);
        }
        let folder = gone.as_ref().or(new.as_ref().map(|(path, _)| path)).unwrap().parent().unwrap().to_owned();
        self.pending.entry(folder).or_default().push(NameChange { gone, new });
    }

    fn change(&mut self, path: &Path, change: Change<'a>) {
        // A file without a name is irrelevant.
        if let Some(Node::File(file)) = self.seen.get(path) {
            self.files[*file].changes.push(change);
        }
    }

    /// After a failed sync of a folder, the changes of names remain pending.
    fn sync(&mut self, path: &Path, succeeds: bool) {
        if let Some(Node::File(file)) = self.seen.get(path) {
            let file = &mut self.files[*file];
            if !succeeds {
                file.dropped.push(file.synced..file.changes.len());
            }
            file.synced = file.changes.len();
        } else if succeeds {
            for naming in self.pending.remove(path).unwrap_or_default() {
                self.settle_name(naming);
            }
        }
    }

    fn settle_name(&mut self, naming: NameChange) {
        if let Some(gone) = naming.gone {
            self.certain.remove(&gone);
        }
        if let Some((path, node)) = naming.new {
            self.certain.insert(path, node);
        }
    }

    /// Returns the data that was written to the files of live segments and synced, in no particular order of segments.
    fn synced_log(&self) -> Vec<u8> {
        let segments = self.certain.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "log"));
        let files = segments.filter_map(|(_, node)| match node {
            Node::File(file) => Some(&self.files[*file]),
            Node::Folder => None,
        });
        let written = files.flat_map(|file| &file.changes[..file.synced]).filter_map(|change| match change {
            Change::Write(_, data) => Some(*data),
            Change::Truncate(_) => None,
        });
        written.collect::<Vec<_>>().concat()
    }

    /// Loses power: decides what survives of everything that is not certain.
    pub(crate) fn settle(&mut self, random: &mut Random) {
        for (_, namings) in std::mem::take(&mut self.pending) {
            let kept = usize::try_from(random.below(namings.len() as u64 + 1)).unwrap();
            for naming in namings.into_iter().take(kept) {
                self.settle_name(naming);
            }
        }
        self.seen = self.certain.clone();
        for file in &mut self.files {
            file.settle(random);
        }
    }

    /// Writes the files as processes see them.
    pub(crate) fn write(&self, after: &Path) {
        fs::create_dir_all(after).unwrap();
        for (path, node) in &self.seen {
            let target = after.join(path.strip_prefix(&self.root).unwrap());
            // A name whose folder does not exist does not exist, either.
            if !target.parent().unwrap().is_dir() {
                continue;
            }
            match node {
                Node::Folder => fs::create_dir(&target).unwrap(),
                Node::File(file) => self.files[*file].write(&target),
            }
        }
    }

    /// Compares the names and files that processes see with a folder, to prove that the record is complete.
    pub(crate) fn assert_shows(&self, folder: &Path, scratch: &Path) {
        self.write(scratch);
        let (expected, found) = (files_below(scratch), files_below(folder));
        assert_eq!(expected, found);
        for name in expected.iter().filter(|name| !name.ends_with("control.sock")) {
            let [expected, found] = [scratch, folder].map(|folder| fs::read(folder.join(name)).unwrap());
            assert!(expected == found, "the record of {} is incomplete", name.display());
        }
        fs::remove_dir_all(scratch).unwrap();
    }
}

fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), PathBuf::from(entry.file_name()))).unwrap();
        if path.is_dir() {
            found.extend(files_below(&path).iter().map(|below| name.join(below)));
        } else {
            found.insert(name);
        }
    }
    found
}

/// Returns what survives of changes that were not synced.
fn survivors<'a>(pending: &[Change<'a>], random: &mut Random) -> Vec<Change<'a>> {
    let (mode, prefix) = (random.below(4), random.index(pending.len() + 1));
    let sector = SECTOR_BYTES[random.index(SECTOR_BYTES.len())];
    let mut kept = Vec::new();
    for (index, change) in pending.iter().enumerate() {
        let is_kept = match mode {
            0 => false,
            1 => true,
            2 => index < prefix,
            _ => random.below(2) == 0,
        };
        match *change {
            Change::Write(offset, data) if is_kept && mode > 1 && random.below(8) == 0 => {
                tear(offset, data, sector, random, &mut kept);
            }
            change if is_kept => kept.push(change),
            _ => {}
        }
    }
    kept
}

/// Keeps either the first sectors of a write or any selection of them.
fn tear<'a>(offset: u64, data: &'a [u8], sector: u64, random: &mut Random, kept: &mut Vec<Change<'a>>) {
    let has_prefix = random.below(2) == 0;
    let end = random.below(data.len() as u64 + 1);
    let mut at = 0;
    while at < data.len() as u64 {
        let next = ((offset + at) / sector * sector + sector - offset).min(data.len() as u64);
        let is_kept = if has_prefix { at < end } else { random.below(2) == 0 };
        if is_kept {
            let [from, to] = [at, next].map(|at| usize::try_from(at).unwrap());
            kept.push(Change::Write(offset + at, &data[from..to]));
        }
        at = next;
    }
}

impl File<'_> {
    fn settle(&mut self, random: &mut Random) {
        let mut kept = Vec::new();
        let mut from = 0;
        let pending = self.synced..self.changes.len();
        for uncertain in std::mem::take(&mut self.dropped).into_iter().chain([pending]) {
            kept.extend(&self.changes[from..uncertain.start]);
            kept.extend(survivors(&self.changes[uncertain.clone()], random));
            from = uncertain.end;
        }
        self.synced = kept.len();
        self.changes = kept;
    }

    fn write(&self, target: &Path) {
        match &self.before {
            // The server never changes sorted files.
            Some(before) if self.changes.is_empty() && target.parent().unwrap().ends_with("tables") => {
                return fs::hard_link(before, target).unwrap();
            }
            Some(before) => copy_file(before, target),
            None => fs::write(target, b"").unwrap(),
        }
        let file = fs::OpenOptions::new().write(true).open(target).unwrap();
        for change in &self.changes {
            match change {
                Change::Write(offset, data) => file.write_all_at(data, *offset).unwrap(),
                Change::Truncate(size) => file.set_len(*size).unwrap(),
            }
        }
    }
}
