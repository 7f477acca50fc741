//! How far a copy is, in a file that survives the end of the program.
//!
//! Invariants:
//!
//! 1. A table is in the file before anything is written to it, so that a copy which goes on knows its own work.
//! 2. What the file says was done is done: it is written behind the acknowledgement of the target.
//! 3. The file is replaced as a whole, and holds no secret. It holds keys of entities, so only its owner may read it.

use super::plan::Task;
use crate::endpoints::{StateFile, read_state, state_path};
use anyhow::ensure;
use client::Continuation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the format.
const FORMAT: u32 = 1;

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
pub(super) struct State(StateFile<Document>);

/// The name of the state file of a copy from one location to another, in the current folder.
pub(super) fn default_path(from: &str, to: &str) -> PathBuf {
    state_path("copy", from, to)
}

impl State {
    /// Reads the file, if there is one.
    pub(super) fn open(path: PathBuf, from: &str, to: &str) -> anyhow::Result<Self> {
        let known = read_state(&path, "copy", "name another with --state", |known: &Document| known.format == FORMAT)?;
        let document = match known {
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
        Ok(Self(StateFile::new(Some(path), document)))
    }

    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    /// Whether an earlier run left anything.
    pub(super) fn is_resumed(&self) -> bool {
        self.0.look(|document| !document.tables.is_empty())
    }

    /// How far a table is; `None` if it was never begun.
    pub(super) fn table(&self, task: &Task) -> Option<TableProgress> {
        self.0.look(|document| document.tables.get(&task.name()).cloned())
    }

    /// Forgets a table, so that it is copied from its beginning.
    pub(super) fn forget(&self, task: &Task) {
        self.0.change_quietly(|document| document.tables.remove(&task.name()).is_some());
    }

    /// Notes tables as begun, and saves that at once.
    pub(super) fn begin<'t>(&self, tasks: impl Iterator<Item = &'t Task>) -> anyhow::Result<()> {
        self.0.change_at_once(|document| {
            for task in tasks {
                document.tables.entry(task.name()).or_default();
            }
        })
    }

    /// Notes that a page was written, and where the next one begins; behind the last one the table is done.
    pub(super) fn advance(&self, task: &Task, entities: u64, next: Option<&Continuation>) -> anyhow::Result<()> {
        self.0.change(|document| {
            let table = document.tables.entry(task.name()).or_default();
            table.entities += entities;
            table.next_partition = next.map(|next| next.partition.clone());
            table.next_row = next.and_then(|next| next.row.clone());
            table.is_done = next.is_none();
        })
    }

    /// Saves whatever is not saved yet.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        self.0.flush()
    }

    /// Removes the file: there is nothing left to go on with.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        self.0.remove()
    }
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
