//! How far a copy is, in a file that survives the end of the program.
//!
//! Invariants:
//!
//! 1. A table is in the file before anything is written to it, so that a copy which goes on knows its own work.
//! 2. What the file says was done is done: it is written behind the acknowledgement of the target.
//! 3. The file is replaced as a whole, and holds no secret. It holds keys of entities, so only its owner may read it.

use super::plan::Task;
use anyhow::{Context, ensure};
use client::Continuation;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The version of the format.
const FORMAT: u32 = 1;
/// How often the file is written at most; what is lost with the program is copied again.
const SAVE_INTERVAL: Duration = Duration::from_millis(200);
/// Largest state file, in bytes: room for some hundred thousand tables.
const STATE_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    format: u32,
    from: String,
    to: String,
    tables: BTreeMap<String, TableProgress>,
}

/// How far a table is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableProgress {
    /// Everything is copied.
    pub(super) is_done: bool,
    /// Entities copied so far.
    pub(super) entities: u64,
    /// Where the next page begins; the beginning if there is nothing.
    next_partition: Option<String>,
    next_row: Option<String>,
}

impl TableProgress {
    /// Where to go on.
    pub(super) fn next(&self) -> Option<Continuation> {
        let partition = self.next_partition.clone()?;
        Some(Continuation { partition, row: self.next_row.clone() })
    }
}

/// The state of a copy and its file.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    document: Document,
    saved: Option<Instant>,
    is_dirty: bool,
}

/// The name of the state file of a copy from one location to another, in the current folder.
pub(super) fn default_path(from: &str, to: &str) -> PathBuf {
    let hash = digest(&SHA256, format!("{from}\n{to}").as_bytes());
    let mut name = "rowhouse-copy-".to_owned();
    for byte in hash.as_ref().iter().take(6) {
        write!(name, "{byte:02x}").expect("writing to memory does not fail");
    }
    PathBuf::from(name + ".json")
}

impl State {
    /// Reads the file, if there is one.
    pub(super) fn open(path: PathBuf, from: &str, to: &str) -> anyhow::Result<Self> {
        let document = match read(&path)? {
            None => Document { format: FORMAT, from: from.to_owned(), to: to.to_owned(), tables: BTreeMap::new() },
            Some(document) => {
                ensure!(
                    document.from == from && document.to == to,
                    "the state file {} belongs to a copy from {} to {}; name another with --state, or delete it if \
                     that copy is of no interest any more",
                    path.display(),
                    document.from,
                    document.to
                );
                document
            }
        };
        Ok(Self { path, inner: Mutex::new(Inner { document, saved: None, is_dirty: false }) })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an earlier run left anything.
    pub(super) fn is_resumed(&self) -> bool {
        !self.lock().document.tables.is_empty()
    }

    /// How far a table is; `None` if it was never begun.
    pub(super) fn table(&self, task: &Task) -> Option<TableProgress> {
        self.lock().document.tables.get(&task.name()).cloned()
    }

    /// Forgets a table, so that it is copied from its beginning.
    pub(super) fn forget(&self, task: &Task) {
        let mut inner = self.lock();
        inner.is_dirty |= inner.document.tables.remove(&task.name()).is_some();
    }

    /// Notes tables as begun, and saves that at once.
    pub(super) fn begin<'t>(&self, tasks: impl Iterator<Item = &'t Task>) -> anyhow::Result<()> {
        let mut inner = self.lock();
        for task in tasks {
            inner.document.tables.entry(task.name()).or_default();
        }
        self.save(&mut inner)
    }

    /// Notes that a page was written, and where the next one begins; behind the last one the table is done.
    pub(super) fn advance(&self, task: &Task, entities: u64, next: Option<&Continuation>) -> anyhow::Result<()> {
        let mut inner = self.lock();
        let table = inner.document.tables.entry(task.name()).or_default();
        table.entities += entities;
        table.next_partition = next.map(|next| next.partition.clone());
        table.next_row = next.and_then(|next| next.row.clone());
        table.is_done = next.is_none();
        inner.is_dirty = true;
        if inner.saved.is_none_or(|saved| saved.elapsed() >= SAVE_INTERVAL) { self.save(&mut inner) } else { Ok(()) }
    }

    /// Saves whatever is not saved yet.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        let mut inner = self.lock();
        if inner.is_dirty { self.save(&mut inner) } else { Ok(()) }
    }

    /// Removes the file: there is nothing left to go on with.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    fn save(&self, inner: &mut Inner) -> anyhow::Result<()> {
        let what = || format!("writing the state file {}", self.path.display());
        let text = serde_json::to_vec_pretty(&inner.document).with_context(what)?;
        let mut name = self.path.file_name().context("the state file has no name")?.to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new).with_context(what)?;
        file.write_all(&text).and_then(|()| file.sync_data()).with_context(what)?;
        std::fs::rename(&new, &self.path).with_context(what)?;
        (inner.saved, inner.is_dirty) = (Some(Instant::now()), false);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic leaves at worst a number that is too small, which is copied again.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> anyhow::Result<Option<Document>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("reading the state file {}", path.display()))?,
    };
    let mut text = Vec::new();
    file.take(STATE_BYTES_MAX).read_to_end(&mut text)?;
    let document: Option<Document> = serde_json::from_slice(&text).ok();
    let document = document.filter(|document| document.format == FORMAT);
    document.map(Some).with_context(|| {
        format!("{} is no state file of this version of rowhouse copy; name another with --state", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::task;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_saved_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let (one, two) = (task("acct", "One"), task("acct", "Two"));
        let state = State::open(path.clone(), "a", "b").unwrap();
        assert!(!state.is_resumed());
        state.begin([&one, &two].into_iter()).unwrap();
        let next = Continuation { partition: "p".to_owned(), row: None };
        state.advance(&one, 1000, Some(&next)).unwrap();
        state.advance(&one, 10, Some(&Continuation { partition: "q".to_owned(), row: Some(String::new()) })).unwrap();
        state.advance(&two, 0, None).unwrap();
        state.flush().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = State::open(path.clone(), "a", "b").unwrap();
        assert!(again.is_resumed());
        let progress = again.table(&one).unwrap();
        assert_eq!((progress.is_done, progress.entities), (false, 1010));
        assert_eq!(progress.next(), Some(Continuation { partition: "q".to_owned(), row: Some(String::new()) }));
        assert!(again.table(&two).unwrap().is_done);
        again.forget(&one);
        assert!(again.table(&one).is_none());
        again.remove().unwrap();
        again.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_state_of_another_copy_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        State::open(path.clone(), "a", "b").unwrap().begin([&task("acct", "One")].into_iter()).unwrap();
        for (from, to) in [("a", "c"), ("b", "a")] {
            let error = State::open(path.clone(), from, to).unwrap_err().to_string();
            assert!(error.contains("belongs to a copy from a to b"), "{error}");
        }
        for text in ["", "{}", "{\"format\":2,\"from\":\"a\",\"to\":\"b\",\"tables\":{}}"] {
            std::fs::write(&path, text).unwrap();
            assert!(State::open(path.clone(), "a", "b").is_err(), "{text}");
        }
        assert_ne!(default_path("a", "b"), default_path("b", "a"));
    }
}
