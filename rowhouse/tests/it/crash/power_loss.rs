//! Computes what a power loss leaves of a folder, from the record of a process's operations on it.
//!
//! The rules are as strict as POSIX allows: data written to a file is certain to survive once the file has been synced,
//! and a name is certain to survive once its folder has been synced. Of everything else, a random part survives: the
//! names in a folder up to a certain change, and any selection of the writes to a file, each possibly torn. A real file
//! system preserves more.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use test_support::Random;

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Writes to `after` what is left of `watched`, which was a copy of `before` when the log began. Returns the data that
/// had been written to the journals and synced.
pub(crate) fn lose_power(before: &Path, watched: &Path, log: &Path, after: &Path, random: &mut Random) -> Vec<u8> {
    let mut disk = Disk::new(before, watched);
    let bytes = fs::read(log).unwrap();
    let mut records = Records(&bytes);
    while let Some(record) = records.next() {
        disk.apply(&record);
    }
    let synced = disk.synced_journals();
    disk.settle(random);
    disk.write(watched, after);
    synced
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    Write,
    Truncate,
    Sync,
    Rename,
    Unlink,
    MakeFolder,
    RemoveFolder,
}

struct Record<'a> {
    kind: Kind,
    path: &'a Path,
    offset: u64,
    data: &'a [u8],
}

/// Reads records up to the first incomplete record, which was being written when the process was killed.
struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    fn next(&mut self) -> Option<Record<'a>> {
        const HEAD: usize = 17;
        let head = self.0.get(..HEAD)?;
        let number = |at: usize| usize::try_from(u32::from_ne_bytes(head[at..at + 4].try_into().unwrap())).unwrap();
        let (path_end, end) = (HEAD + number(1), HEAD + number(1) + number(13));
        let record = self.0.get(..end)?;
        self.0 = &self.0[end..];
        let kinds = [
            Kind::Create,
            Kind::Write,
            Kind::Truncate,
            Kind::Sync,
            Kind::Rename,
            Kind::Unlink,
            Kind::MakeFolder,
            Kind::RemoveFolder,
        ];
        Some(Record {
            kind: kinds[usize::from(head[0]) - 1],
            path: Path::new(OsStr::from_bytes(&record[HEAD..path_end])),
            offset: u64::from_ne_bytes(head[5..13].try_into().unwrap()),
            data: &record[path_end..],
        })
    }
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

/// The file may have any number of names.
#[derive(Debug, Default)]
struct File {
    before: Option<PathBuf>,
    certain: Vec<Change>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder,
}

/// An atomic change of the names in a folder: one may disappear, and one may appear.
#[derive(Debug)]
struct NameChange {
    gone: Option<PathBuf>,
    new: Option<(PathBuf, Node)>,
}

#[derive(Debug, Default)]
struct Disk {
    root: PathBuf,
    files: Vec<File>,
    seen: HashMap<PathBuf, Node>,
    /// The names that are certain to survive.
    certain: BTreeMap<PathBuf, Node>,
    /// The changes to names since their folder was last synced.
    pending: BTreeMap<PathBuf, Vec<NameChange>>,
}

impl Disk {
    fn new(before: &Path, watched: &Path) -> Self {
        let mut disk = Self { root: watched.canonicalize().unwrap(), ..Self::default() };
        disk.add(before, &disk.root.clone());
        disk.seen = disk.certain.iter().map(|(path, node)| (path.clone(), *node)).collect();
        disk
    }

    fn add(&mut self, folder: &Path, shown: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, shown) = (entry.path(), shown.join(entry.file_name()));
            if path.is_dir() {
                self.certain.insert(shown.clone(), Node::Folder);
                self.add(&path, &shown);
            } else {
                self.certain.insert(shown, Node::File(self.files.len()));
                self.files.push(File { before: Some(path), ..File::default() });
            }
        }
    }

    fn apply(&mut self, record: &Record<'_>) {
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
                // The watcher does not see how a socket is created. Only the name of a socket remains, as for an empty
                // file.
                let node = self.seen.get(&path).copied().unwrap_or_else(|| {
                    assert!(path.ends_with("control.sock"), "{} was never created", path.display());
                    self.files.push(File::default());
                    Node::File(self.files.len() - 1)
                });
                self.name(Some(path), Some((PathBuf::from(OsStr::from_bytes(record.data)), node)));
            }
            Kind::Write => self.change(&path, Change::Write(record.offset, record.data.to_vec())),
            Kind::Truncate => self.change(&path, Change::Truncate(record.offset)),
            Kind::Sync => self.sync(&path),
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

    fn change(&mut self, path: &Path, change: Change) {
        // A file without a name is irrelevant.
        if let Some(Node::File(file)) = self.seen.get(path) {
            self.files[*file].pending.push(change);
        }
    }

    fn sync(&mut self, path: &Path) {
        if let Some(Node::File(file)) = self.seen.get(path) {
            let file = &mut self.files[*file];
            file.certain.append(&mut file.pending);
            return;
        }
        for naming in self.pending.remove(path).unwrap_or_default() {
            self.settle_name(naming);
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

    /// Returns the data that was written to the existing journals and synced, in no particular order of journals.
    fn synced_journals(&self) -> Vec<u8> {
        let journals = self.certain.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "jnl"));
        let files = journals.filter_map(|(_, node)| match node {
            Node::File(file) => Some(&self.files[*file]),
            Node::Folder => None,
        });
        let written = files.flat_map(|file| &file.certain).filter_map(|change| match change {
            Change::Write(_, data) => Some(data.as_slice()),
            Change::Truncate(_) => None,
        });
        written.collect::<Vec<_>>().concat()
    }

    fn settle(&mut self, random: &mut Random) {
        for (_, namings) in std::mem::take(&mut self.pending) {
            let kept = usize::try_from(random.below(namings.len() as u64 + 1)).unwrap();
            for naming in namings.into_iter().take(kept) {
                self.settle_name(naming);
            }
        }
        for file in &mut self.files {
            let pending = std::mem::take(&mut file.pending);
            file.certain.extend(survivors(pending, random));
        }
    }

    fn write(&self, watched: &Path, after: &Path) {
        assert!(self.root.ends_with(watched.file_name().unwrap()));
        fs::create_dir_all(after).unwrap();
        for (path, node) in &self.certain {
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
}

fn survivors(pending: Vec<Change>, random: &mut Random) -> Vec<Change> {
    let count = pending.len() as u64;
    let (mode, prefix) = (random.below(4), random.below(count + 1));
    let mut kept = Vec::new();
    for (index, change) in pending.into_iter().enumerate() {
        let is_kept = match mode {
            0 => false,
            1 => true,
            2 => (index as u64) < prefix,
            _ => random.below(2) == 0,
        };
        match change {
            Change::Write(offset, mut data) if is_kept => {
                if mode > 1 && random.below(8) == 0 {
                    data.truncate(usize::try_from(random.below(data.len() as u64 + 1)).unwrap());
                }
                kept.push(Change::Write(offset, data));
            }
            Change::Truncate(size) if is_kept => kept.push(Change::Truncate(size)),
            _ => {}
        }
    }
    kept
}

impl File {
    fn write(&self, target: &Path) {
        match &self.before {
            Some(before) => drop(fs::copy(before, target).unwrap()),
            None => fs::write(target, b"").unwrap(),
        }
        let file = fs::OpenOptions::new().write(true).open(target).unwrap();
        for change in &self.certain {
            match change {
                Change::Write(offset, data) => file.write_all_at(data, *offset).unwrap(),
                Change::Truncate(size) => file.set_len(*size).unwrap(),
            }
        }
    }
}
