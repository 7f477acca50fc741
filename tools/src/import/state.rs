//! How far an import is, in a file that survives the end of the program.
//!
//! Invariants:
//!
//! 1. What the file says was written is written: it is noted behind the acknowledgement of the target.
//! 2. A file that changed meanwhile is not gone on with, because the place in it means nothing any more.

use super::args::Mode;
use crate::endpoints::{StateFile, read_state, state_path};
use crate::formats::FileFormat;
use anyhow::ensure;
use model::TableName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the format.
const FORMAT: u32 = 2;

/// What is imported. An import goes on only with the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) mode: Mode,
    pub(super) account: Option<String>,
    pub(super) file_format: Option<FileFormat>,
    pub(super) types: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    #[serde(flatten)]
    order: Order,
    /// The file that keeps bad lines: what is in it was written by this import.
    bad_lines: Option<PathBuf>,
    tables: BTreeMap<String, TableProgress>,
}

/// How far a table is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableProgress {
    /// What the file was when the import began.
    pub(super) fingerprint: Option<String>,
    pub(super) is_done: bool,
    /// Where the next line begins.
    pub(super) offset: u64,
    /// How many lines are in front of it.
    pub(super) line: u64,
    pub(super) entities: u64,
    /// How many lines were passed over.
    pub(super) bad: u64,
    /// What the file of bad lines holds.
    pub(super) bad_bytes: u64,
}

/// The state of an import and its file; without one if the source cannot be read twice.
#[derive(Debug)]
pub(super) struct State(StateFile<Document>);

/// The name of the state file of an import, in the current folder.
pub(super) fn default_path(from: &str, to: &str) -> PathBuf {
    state_path("import", from, to)
}

impl State {
    /// Reads the file, if there is one.
    pub(super) fn open(path: Option<PathBuf>, order: Order) -> anyhow::Result<Self> {
        let read = |path| read_state(path, "import", "delete it", |known: &Document| known.format == FORMAT);
        let document = match path.as_deref().map(read).transpose()?.flatten() {
            None => Document { format: FORMAT, order, bad_lines: None, tables: BTreeMap::new() },
            Some(document) => {
                ensure!(
                    document.order == order,
                    "the state file {} belongs to an import from {} to {} in another mode or between other places, or \
                     with another --account, --format or --types; name another with --state, or delete it to begin anew",
                    path.unwrap_or_default().display(),
                    document.order.from,
                    document.order.to
                );
                document
            }
        };
        Ok(Self(StateFile::new(path, document)))
    }

    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    /// Whether an earlier run left anything.
    pub(super) fn is_resumed(&self) -> bool {
        self.0.look(|document| !document.tables.is_empty())
    }

    /// How many lines were passed over so far.
    pub(super) fn bad(&self) -> u64 {
        self.0.look(|document| document.tables.values().map(|table| table.bad).sum())
    }

    /// How many entities were written so far.
    pub(super) fn entities(&self) -> u64 {
        self.0.look(|document| document.tables.values().map(|table| table.entities).sum())
    }

    /// How much of a file of bad lines to keep; `None` if no earlier run wrote to it, so that what it holds is not ours.
    pub(super) fn kept_in(&self, table: &TableName, path: &Path) -> Option<u64> {
        self.0.look(|document| {
            let is_known = document.bad_lines.as_deref() == Some(path);
            is_known.then(|| document.tables.get(table.as_str()).map_or(0, |table| table.bad_bytes))
        })
    }

    /// Notes, before anything is written to it, that a file keeps the bad lines of a table.
    pub(super) fn keep_in(&self, table: &TableName, path: &Path) -> anyhow::Result<()> {
        self.0.change_at_once(|document| {
            document.bad_lines = Some(path.to_owned());
            if let Some(table) = document.tables.get_mut(table.as_str()) {
                table.bad_bytes = 0;
            }
        })
    }

    /// How far a table is, which is noted as begun if it was not; refuses a file that changed.
    pub(super) fn begin(&self, table: &TableName, fingerprint: Option<&str>) -> anyhow::Result<TableProgress> {
        let progress = self.0.change_at_once(|document| {
            let fresh = TableProgress { fingerprint: fingerprint.map(str::to_owned), ..TableProgress::default() };
            document.tables.entry(table.to_string()).or_insert(fresh).clone()
        })?;
        ensure!(
            progress.fingerprint.as_deref() == fingerprint,
            "the file of the table '{table}' changed since its import began; delete the state file to begin anew"
        );
        Ok(progress)
    }

    /// Notes how far a table is; at once if that must not be forgotten.
    pub(super) fn advance(&self, table: &TableName, progress: &TableProgress, is_urgent: bool) -> anyhow::Result<()> {
        let note = |document: &mut Document| {
            document.tables.insert(table.to_string(), progress.clone());
        };
        if is_urgent { self.0.change_at_once(note) } else { self.0.change(note) }
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
    use super::*;

    fn order() -> Order {
        let (from, to) = ("a".to_owned(), "b".to_owned());
        Order { from, to, mode: Mode::Insert, account: None, file_format: None, types: Vec::new() }
    }

    #[test]
    fn an_import_goes_on_only_with_the_same_options() {
        let folder = tempfile::tempdir().unwrap();
        let open = |order| State::open(Some(folder.path().join("state")), order);
        let table = TableName::new("cars").unwrap();
        open(order()).unwrap().begin(&table, None).unwrap();
        assert!(open(order()).unwrap().is_resumed());
        for other in [
            Order { from: "x".to_owned(), ..order() },
            Order { to: "x".to_owned(), ..order() },
            Order { mode: Mode::Merge, ..order() },
            Order { account: Some("x".to_owned()), ..order() },
            Order { file_format: Some(FileFormat::Csv), ..order() },
            Order { types: vec!["Age=Edm.Int32".to_owned()], ..order() },
        ] {
            let told = format!("{other:?}");
            assert!(open(other).is_err(), "{told}");
        }
    }

    #[test]
    fn only_what_this_import_wrote_is_a_file_of_bad_lines() {
        let state = State::open(None, order()).unwrap();
        let table = TableName::new("cars").unwrap();
        let mut progress = state.begin(&table, None).unwrap();
        assert_eq!(state.kept_in(&table, Path::new("/one")), None);
        state.keep_in(&table, Path::new("/one")).unwrap();
        progress.bad_bytes = 7;
        state.advance(&table, &progress, true).unwrap();
        assert_eq!(state.kept_in(&table, Path::new("/one")), Some(7));
        assert_eq!(state.kept_in(&table, Path::new("/two")), None);
    }
}
