//! A model of the hardware: the files of the log, the sorted files of the tree, and the operations that fail.
//!
//! It does not know what the files contain. An [`Observer`] decodes what the engine writes and checks it. The committer
//! catches panics, so a violation is recorded, and reported at the end of the schedule.
//!
//! This module must not depend on the engine's modules, because their models depend on it.

use crate::sync::atomic::{AtomicU64, Ordering};
use byteview::ByteView;
use shuttle::rand::{Rng, thread_rng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

thread_local! {
    /// The hardware of the schedule. The scheduler runs all threads of a schedule on one thread of the system.
    static CURRENT: RefCell<Option<Arc<Hardware>>> = const { RefCell::new(None) };
}

/// Checks what the engine does to the hardware. Each method returns the violations that it finds.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// Called before bytes are written to a file of the log.
    fn check_write(&self, bytes: &[u8]) -> Vec<String>;

    /// Called after a list of sorted files was installed, with what the worst crash would leave.
    fn check_list(&self, remains: Remains) -> Vec<String>;
}

/// An operation that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Rename,
    Remove,
    SyncFolder,
    Write,
    Sync,
    InstallList,
}

/// The way in which an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The operation fails, but some of it may be done.
    Failure,
    /// The code below the engine panics before it does anything.
    Panic,
}

/// What a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Only what is certain to be on disk.
    Worst,
    /// Either only what is certain to be on disk or everything, decided at random for names and for contents.
    Any,
}

/// The lock is never held while another thread may run.
#[derive(Debug)]
pub(crate) struct Hardware {
    state: Mutex<State>,
    accesses: AtomicU64,
    observer: Arc<dyn Observer>,
}

#[derive(Debug, Default)]
struct State {
    log: Log,
    /// From the newest to the oldest. The library syncs them before it installs the list.
    sorted_files: Vec<SortedFile>,
    has_tree: bool,
    /// The numbers of the operations that fail, counted from 0 after [`Hardware::arm`].
    mishaps: BTreeMap<usize, Mishap>,
    operations: Option<usize>,
    /// Whether an operation has failed.
    has_failed: bool,
    refused_probes: usize,
    accepted_probes: usize,
    /// The number of further items that are inserted into memtables before a panic.
    inserts_before_panic: Option<usize>,
    violations: Vec<String>,
}

/// The folder of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    /// The names that a running system shows, with the numbers of the files.
    pub(crate) names: BTreeMap<String, usize>,
    /// The names that survive a power failure.
    durable_names: BTreeMap<String, usize>,
    pub(crate) files: Vec<LogFile>,
    pub(crate) salts: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile {
    pub(crate) cached: Vec<u8>,
    durable: Vec<u8>,
    /// Whether a write failed. Afterwards, nothing may be written.
    has_write_failed: bool,
    /// Whether a sync failed. Afterwards, nothing may be synced, and syncs have no effect. Another thread may write
    /// until it knows of the failure.
    has_sync_failed: bool,
}

/// The items of each key with their numbers, in ascending order. An item without a value is a tombstone.
pub(crate) type Versions = BTreeMap<ByteView, Vec<(u64, Option<ByteView>)>>;

/// A sorted file.
pub(crate) type SortedFile = Arc<Versions>;

/// The files after a crash.
pub(crate) struct Remains {
    pub(crate) log: Log,
    /// From the newest to the oldest.
    pub(crate) sorted_files: Vec<SortedFile>,
}

impl Log {
    pub(crate) fn create(&mut self, name: &str) -> usize {
        self.files.push(LogFile::default());
        let number = self.files.len() - 1;
        self.names.insert(name.to_owned(), number);
        number
    }
}

impl Hardware {
    /// Creates hardware on which the given operations fail, counted from 0, and which then refuses some probes.
    pub(crate) fn new(
        observer: Arc<dyn Observer>,
        mishaps: impl IntoIterator<Item = (usize, Mishap)>,
        refused_probes: usize,
    ) -> Arc<Self> {
        let state = State { mishaps: mishaps.into_iter().collect(), refused_probes, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), accesses: AtomicU64::new(0), observer })
    }

    /// Returns the hardware that the schedule uses.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.with_borrow(|hardware| Arc::clone(hardware.as_ref().expect("the schedule has opened a folder")))
    }

    pub(crate) fn make_current(self: &Arc<Self>) {
        CURRENT.set(Some(Arc::clone(self)));
    }

    /// Operations fail from now on.
    pub(crate) fn arm(&self) {
        self.state().operations = Some(0);
    }

    /// No further operations fail.
    pub(crate) fn disarm(&self) {
        self.state().operations = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The scheduler may continue with another thread here.
    fn access(&self) {
        self.accesses.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn log<T>(&self, access: impl FnOnce(&mut Log) -> T) -> T {
        access(&mut self.state().log)
    }

    pub(crate) fn violation(&self, what: impl Into<String>) {
        self.state().violations.push(what.into());
    }

    /// Panics if an invariant was violated.
    pub(crate) fn assert_no_violations(&self) {
        let state = self.state();
        assert!(state.violations.is_empty(), "{:#?}", state.violations);
    }

    /// Lets one insertion into a memtable panic, after the given number of others.
    pub(crate) fn panic_at_insert(&self, number: usize) {
        self.state().inserts_before_panic = Some(number);
    }

    pub(crate) fn insert(&self) {
        let mut state = self.state();
        state.inserts_before_panic = match state.inserts_before_panic {
            Some(0) => {
                state.inserts_before_panic = None;
                drop(state);
                resume_unwind(Box::new("the library panics"));
            }
            left => left.map(|left| left - 1),
        };
    }

    /// Fails if the next operation is to fail. Panics if it is to panic.
    fn fail_if_due(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.state();
        let Some(operations) = &mut state.operations else { return Ok(()) };
        *operations += 1;
        let number = *operations - 1;
        let mut mishap = state.mishaps.remove(&number);
        if mishap.is_some() {
            if state.has_failed {
                // A panic while the log is continued would stop all writes.
                mishap = Some(Mishap::Failure);
            }
            state.has_failed = true;
        }
        drop(state);
        match mishap {
            None => Ok(()),
            Some(Mishap::Failure) => Err(io::Error::other(format!("the disk fails: {operation:?}"))),
            // Below other operations, a panic would poison locks of the library.
            Some(Mishap::Panic) if ![Operation::Write, Operation::Sync].contains(&operation) => {
                Err(io::Error::other("the disk fails"))
            }
            // Unlike `panic!`, this prints nothing.
            Some(Mishap::Panic) => resume_unwind(Box::new("the library panics")),
        }
    }

    /// If the operation fails, it may be done nevertheless.
    pub(crate) fn perform<T>(&self, operation: Operation, perform: impl FnOnce(&mut Log) -> T) -> io::Result<T> {
        self.access();
        let failure = self.fail_if_due(operation);
        if failure.is_ok() || thread_rng().gen_bool(0.5) {
            let result = self.log(perform);
            failure.map(|()| result)
        } else {
            Err(failure.err().unwrap())
        }
    }

    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        self.perform(Operation::SyncFolder, |log| log.durable_names.clone_from(&log.names))
    }

    pub(crate) fn write(&self, number: usize, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.access();
        if self.log(|log| log.files[number].has_write_failed) {
            self.violation("a file was written although a write of it had failed");
        }
        {
            // If the observer panics, the poisoned lock fails the schedule, even if the committer catches the panic.
            let mut state = self.state();
            let found = self.observer.check_write(bytes);
            state.violations.extend(found);
        }
        let failure = self.fail_if_due(Operation::Write);
        let written = if failure.is_ok() { bytes.len() } else { thread_rng().gen_range(0..=bytes.len()) };
        let offset = usize::try_from(offset).unwrap();
        let mut state = self.state();
        let file = &mut state.log.files[number];
        file.has_write_failed |= failure.is_err();
        if file.cached.len() < offset + written {
            file.cached.resize(offset + written, 0);
        }
        file.cached[offset..offset + written].copy_from_slice(&bytes[..written]);
        failure
    }

    /// What is written during the sync may not be durable afterwards.
    pub(crate) fn sync(&self, number: usize) -> io::Result<()> {
        let (cached, has_failed) =
            self.log(|log| (log.files[number].cached.clone(), log.files[number].has_sync_failed));
        if has_failed {
            self.violation("a file was synced although a sync of it had failed");
        }
        self.access();
        let failure = self.fail_if_due(Operation::Sync);
        let mut state = self.state();
        let file = &mut state.log.files[number];
        file.has_sync_failed |= failure.is_err();
        if !has_failed && (failure.is_ok() || thread_rng().gen_bool(0.5)) {
            file.durable = cached;
        }
        failure
    }

    pub(crate) fn has_tree(&self) -> bool {
        self.state().has_tree
    }

    pub(crate) fn sorted_files(&self) -> Vec<SortedFile> {
        self.state().sorted_files.clone()
    }

    pub(crate) fn install_list(&self, files: &[SortedFile]) -> io::Result<()> {
        self.access();
        let failure = self.fail_if_due(Operation::InstallList);
        if failure.is_ok() || thread_rng().gen_bool(0.5) {
            let mut state = self.state();
            state.sorted_files = files.to_vec();
            state.has_tree = true;
            drop(state);
            let found = self.observer.check_list(self.remains(Crash::Worst));
            self.state().violations.extend(found);
        }
        failure
    }

    /// Tests whether the disk accepts writes again.
    pub(crate) fn probe(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(left) = state.refused_probes.checked_sub(1) {
            state.refused_probes = left;
            return Err(io::Error::other("the disk refuses the probe"));
        }
        state.accepted_probes += 1;
        Ok(())
    }

    /// Returns the files as a crash at this moment would leave them.
    pub(crate) fn remains(&self, crash: Crash) -> Remains {
        let state = self.state();
        let (mut log, sorted_files) = (state.log.clone(), state.sorted_files.clone());
        drop(state);
        let is_kept = || crash == Crash::Any && thread_rng().gen_bool(0.5);
        if !is_kept() {
            log.names.clone_from(&log.durable_names);
        }
        if !is_kept() {
            log.files.iter_mut().for_each(|file| file.cached.clone_from(&file.durable));
        }
        Remains { log, sorted_files }
    }
}

/// Reads from the contents of a file.
pub(crate) fn read(file: &[u8], bytes: &mut [u8], offset: u64) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
    let count = rest.len().min(bytes.len());
    bytes[..count].copy_from_slice(&rest[..count]);
    count
}
