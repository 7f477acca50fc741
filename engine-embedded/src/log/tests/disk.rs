//! A disk in memory with a page cache. It keeps only the promises that the trait states.
//!
//! - Until a file is synced, a power failure may keep or lose each of its sectors, in any version written since the
//!   last sync, and may tear a sector between two versions.
//! - Until the folder is synced, a power failure may undo each change of a name, in any order.
//! - A failed sync of a file drops what was not synced: it can be read until the power failure, and is lost then, even
//!   if a later sync succeeds.
//! - An operation that fails may have been performed, or half of it.

use crate::log::disk::{Disk, DiskFile, ReadAt};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use test_support::Random;

pub(super) const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

#[derive(Debug, Clone, Default)]
struct Inode {
    /// What reads return.
    cached: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    /// The contents that each sector had since the last sync.
    dirty: BTreeMap<usize, Vec<Sector>>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Create(String, usize),
    Rename { from: String, to: String, inode: usize },
    Remove(String),
}

/// How a disk breaks its promises, to prove that the simulation would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    FoldersAreNotSynced,
    FilesAreNotSynced,
    SaltsAreKnown,
}

/// The state of a disk. A clone is what another crash could leave.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    changes: Vec<NameChange>,
    /// The total length of all files cannot exceed this.
    pub(super) capacity_bytes: usize,
    /// The number of the operation from now on that fails, once.
    pub(super) fails_in: Option<u64>,
    pub(super) lie: Option<Lie>,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process ends. The page cache stays.
    Kill,
    PowerLoss,
}

/// How much of the unsynced state a power failure keeps.
#[derive(Debug, Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    Some { of: u64 },
}

impl Survival {
    fn choose(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 => Self::Some { of: 8 },
            _ => Self::Some { of: 2 },
        }
    }

    fn keeps(self, random: &mut Random) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some { of } => random.below(of) != 0,
        }
    }
}

impl Contents {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            capacity_bytes: usize::MAX,
            fails_in: None,
            lie: None,
            seed,
        }
    }

    /// Turns the disk into one after a crash, which works again.
    pub(super) fn crash(&mut self, crash: Crash, random: &mut Random) {
        self.fails_in = None;
        self.capacity_bytes = usize::MAX;
        self.seed = random.number();
        if crash == Crash::Kill {
            return;
        }
        self.crash_names(random);
        let survival = Survival::choose(random);
        for inode in &mut self.inodes {
            inode.lose_power(survival, random);
        }
        let used: BTreeSet<_> = self.names.values().copied().collect();
        for (index, inode) in self.inodes.iter_mut().enumerate() {
            if !used.contains(&index) {
                *inode = Inode::default();
            }
        }
    }

    fn crash_names(&mut self, random: &mut Random) {
        let survival = Survival::choose(random);
        let in_order = random.below(2) == 0;
        let mut changes = std::mem::take(&mut self.changes);
        if in_order {
            let kept = match survival {
                Survival::Nothing => 0,
                Survival::Everything => changes.len(),
                Survival::Some { .. } => random.index(changes.len() + 1),
            };
            changes.truncate(kept);
        } else {
            changes.retain(|_| survival.keeps(random));
        }
        let mut names = self.durable_names.clone();
        for change in changes {
            apply(change, &mut names);
        }
        self.names.clone_from(&names);
        self.durable_names = names;
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    pub(super) fn length(&self, name: &str) -> usize {
        self.inodes[self.names[name]].cached.len()
    }

    /// Changes the contents of a file as a fault of the hardware would.
    pub(super) fn damage(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let inode = &mut self.inodes[self.names[name]];
        change(Arc::make_mut(&mut inode.cached));
        inode.durable = Arc::clone(&inode.cached);
    }

    pub(super) fn lose(&mut self, name: &str) {
        self.names.remove(name);
        self.durable_names.remove(name);
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let inode = self.names[from];
        self.lose(from);
        self.names.insert(to.to_owned(), inode);
        self.durable_names.insert(to.to_owned(), inode);
    }

    /// Whether reads return the same files with the same contents.
    pub(super) fn reads_like(&self, other: &Self) -> bool {
        let files = |contents: &Self| -> Vec<_> {
            contents
                .names
                .iter()
                .map(|(name, inode)| (name.clone(), Arc::clone(&contents.inodes[*inode].cached)))
                .collect()
        };
        files(self) == files(other)
    }

    fn random(&mut self) -> Random {
        let mut random = Random::new(self.seed);
        self.seed = random.number();
        random
    }

    fn used_bytes(&self) -> usize {
        self.names.values().map(|inode| self.inodes[*inode].cached.len()).sum()
    }

    fn change_name(&mut self, change: NameChange) {
        apply(change.clone(), &mut self.names);
        self.changes.push(change);
    }

    /// Whether this operation fails, and if so, whether it is performed nevertheless.
    fn fails(&mut self) -> Option<bool> {
        let left = self.fails_in.as_mut()?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        self.fails_in = None;
        Some(self.random().below(2) == 0)
    }
}

fn apply(change: NameChange, names: &mut BTreeMap<String, usize>) {
    match change {
        NameChange::Create(name, inode) => {
            names.insert(name, inode);
        }
        NameChange::Rename { from, to, inode } => {
            if names.get(&from) == Some(&inode) {
                names.remove(&from);
            }
            names.insert(to, inode);
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

fn sector(bytes: &[u8], index: usize) -> Sector {
    let mut sector = [0; SECTOR_BYTES];
    let from = (index * SECTOR_BYTES).min(bytes.len());
    let to = (from + SECTOR_BYTES).min(bytes.len());
    sector[..to - from].copy_from_slice(&bytes[from..to]);
    sector
}

fn put_sector(bytes: &mut Vec<u8>, index: usize, contents: &Sector) {
    let from = index * SECTOR_BYTES;
    if bytes.len() < from + SECTOR_BYTES {
        bytes.resize(from + SECTOR_BYTES, 0);
    }
    bytes[from..from + SECTOR_BYTES].copy_from_slice(contents);
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let cached = Arc::make_mut(&mut self.cached);
        let end = offset + bytes.len();
        if cached.len() < end {
            cached.resize(end, 0);
        }
        cached[offset..end].copy_from_slice(bytes);
        for index in offset / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES {
            self.dirty.entry(index).or_default().push(sector(&self.cached, index));
        }
    }

    fn sync(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        for (index, versions) in std::mem::take(&mut self.dirty) {
            if let Some(last) = versions.last() {
                put_sector(durable, index, last);
            }
        }
        durable.resize(self.cached.len(), 0);
    }

    /// The operating system forgets that sectors are not on disk, and has written some of them.
    fn fail_to_sync(&mut self, random: &mut Random) {
        let survival = Survival::choose(random);
        self.keep_some(survival, random);
        self.dirty.clear();
    }

    fn lose_power(&mut self, survival: Survival, random: &mut Random) {
        if !self.dirty.is_empty() {
            self.keep_some(survival, random);
            self.dirty.clear();
        }
        self.cached = Arc::clone(&self.durable);
    }

    fn keep_some(&mut self, survival: Survival, random: &mut Random) {
        let (before, after) = (self.durable.len(), self.cached.len());
        let length = match survival {
            Survival::Nothing => before,
            Survival::Everything => after,
            Survival::Some { .. } => before + random.index(after.max(before) - before + 1),
        };
        let durable = Arc::make_mut(&mut self.durable);
        for (index, versions) in &self.dirty {
            if !survival.keeps(random) {
                continue;
            }
            let newest = versions.len() - 1;
            let version = if random.below(4) == 0 { random.index(versions.len()) } else { newest };
            let mut contents = versions[version];
            if !matches!(survival, Survival::Everything) && random.below(6) == 0 {
                let (old, at) = (sector(durable, *index), random.index(SECTOR_BYTES));
                if random.below(2) == 0 {
                    contents[at..].copy_from_slice(&old[at..]);
                } else {
                    contents[..at].copy_from_slice(&old[..at]);
                }
            } else if matches!(survival, Survival::Everything) {
                contents = versions[newest];
            }
            put_sector(durable, *index, &contents);
        }
        durable.resize(length, 0);
    }
}

/// Called before and after each operation that changes something, with the state at that moment.
pub(super) type Observer = Arc<dyn Fn(&Contents) + Send + Sync>;

/// What another thread does while a file is written.
pub(super) type Interruption = Box<dyn FnOnce() + Send>;

/// A handle to a disk.
#[derive(Clone)]
pub(super) struct SimulatedDisk {
    contents: Arc<Mutex<Contents>>,
    observer: Option<Observer>,
    interruption: Arc<Mutex<Option<Interruption>>>,
    /// Begins the names of the folder's files on the disk.
    prefix: &'static str,
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

impl SimulatedDisk {
    pub(super) fn new(contents: Contents, observer: Option<Observer>) -> Self {
        Self { contents: Arc::new(Mutex::new(contents)), observer, interruption: Arc::default(), prefix: "" }
    }

    /// Returns the folder of the archive, on the same disk.
    pub(super) fn archive(&self) -> Self {
        Self { prefix: "archive/", ..self.clone() }
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    /// Sets what happens during the next write.
    pub(super) fn interrupt_write(&self, interruption: Option<Interruption>) {
        *self.interruption.lock().unwrap() = interruption;
    }

    fn observe(&self) {
        if let Some(observer) = &self.observer {
            // The observer may take long, and must not see a lock.
            let contents = self.contents().clone();
            observer(&contents);
        }
    }

    /// Performs an operation that may fail.
    fn perform(&self, operation: impl Fn(&mut Contents)) -> io::Result<()> {
        self.observe();
        let mut contents = self.contents();
        let fails = contents.fails();
        if fails != Some(false) {
            operation(&mut contents);
        }
        if fails.is_some() { Err(broken()) } else { Ok(()) }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.contents().names.get(&self.path(name)).copied().ok_or(io::ErrorKind::NotFound.into())
    }

    fn file(&self, inode: usize) -> SimulatedFile {
        SimulatedFile { disk: self.clone(), inode }
    }
}

fn broken() -> io::Error {
    io::Error::other("the simulated disk failed")
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn names(&self) -> io::Result<Vec<String>> {
        let contents = self.contents();
        let names = contents.names.keys().filter_map(|path| path.strip_prefix(self.prefix));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        self.perform(|contents| {
            // Emptying a file is like replacing it.
            contents.inodes.push(Inode::default());
            let inode = contents.inodes.len() - 1;
            contents.change_name(NameChange::Create(self.path(name), inode));
        })?;
        Ok(self.file(self.inode(name)?))
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        if self.contents().fails().is_some() {
            return Err(broken());
        }
        Ok(self.file(self.inode(name)?))
    }

    fn open_to_read(&self, name: &str) -> io::Result<SimulatedFile> {
        Ok(self.file(self.inode(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.inode(from)?;
        let change = || NameChange::Rename { from: self.path(from), to: self.path(to), inode };
        self.perform(|contents| contents.change_name(change()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inode(name)?;
        self.perform(|contents| contents.change_name(NameChange::Remove(self.path(name))))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.observe();
        let mut contents = self.contents();
        if contents.fails().is_some() {
            return Err(broken());
        }
        if contents.lie != Some(Lie::FoldersAreNotSynced) {
            contents.durable_names = contents.names.clone();
            contents.changes.clear();
        }
        Ok(())
    }

    fn new_salt(&self) -> u64 {
        let mut contents = self.contents();
        if contents.lie == Some(Lie::SaltsAreKnown) { 0 } else { contents.random().number() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
}

impl ReadAt for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let cached = Arc::clone(&self.disk.contents().inodes[self.inode].cached);
        let rest = cached.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = rest.len().min(bytes.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.contents().inodes[self.inode].cached.len() as u64)
    }
}

impl DiskFile for SimulatedFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.disk.observe();
        let interruption = self.disk.interruption.lock().unwrap().take();
        if let Some(interruption) = interruption {
            interruption();
        }
        let written = {
            let mut contents = self.disk.contents();
            let length = contents.inodes[self.inode].cached.len();
            let growth = (offset + bytes.len()).saturating_sub(length);
            let free = contents.capacity_bytes.saturating_sub(contents.used_bytes());
            let is_full = growth > free;
            let fails = contents.fails().is_some();
            let part = match () {
                () if is_full => bytes.len().saturating_sub(growth - free),
                () if fails => contents.random().index(bytes.len() + 1),
                () => bytes.len(),
            };
            contents.inodes[self.inode].write(&bytes[..part], offset);
            if is_full {
                Err(io::ErrorKind::StorageFull.into())
            } else if fails {
                Err(broken())
            } else {
                Ok(())
            }
        };
        self.disk.observe();
        written
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.observe();
        let mut contents = self.disk.contents();
        if contents.fails().is_some() {
            let mut random = contents.random();
            contents.inodes[self.inode].fail_to_sync(&mut random);
            return Err(broken());
        }
        if contents.lie != Some(Lie::FilesAreNotSynced) {
            contents.inodes[self.inode].sync();
        }
        Ok(())
    }
}
