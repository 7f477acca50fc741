//! How far an export is, in a file beside its target.
//!
//! Invariants:
//!
//! 1. What the file says of a part is on disk: the part was synced before.
//! 2. What a part holds beyond that is cut off when the export goes on, so that no line is half there and none twice.

use crate::endpoints::{StateFile, read_state, remove_file};
use crate::formats::{FileFormat, ManifestTable};
use anyhow::ensure;
use client::Continuation;
use model::TableName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the format.
const FORMAT: u32 = 2;

/// What is exported. An export goes on only with the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) from: String,
    pub(super) account: String,
    pub(super) file_format: FileFormat,
    pub(super) filter: Option<String>,
    pub(super) select: Vec<String>,
    pub(super) with_timestamps: bool,
    pub(super) skip_policies: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    #[serde(flatten)]
    order: Order,
    tables: BTreeMap<String, TableState>,
}

/// How far a table is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TableState {
    /// What was made of it; nothing before all is done.
    pub(super) done: Option<ManifestTable>,
    pub(super) parts: Vec<Part>,
}

/// How far a key range of a table is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    /// The first partition key; nothing for the first of all.
    pub(super) from: Option<String>,
    /// The partition key that is not in it any more; nothing behind the last of all.
    pub(super) to: Option<String>,
    next_partition: Option<String>,
    next_row: Option<String>,
    /// What its file holds.
    pub(super) bytes: u64,
    pub(super) entities: u64,
    pub(super) is_done: bool,
}

impl Part {
    /// A range of which nothing is read.
    pub(super) fn new(from: Option<String>, to: Option<String>) -> Self {
        Self { from, to, ..Self::default() }
    }

    /// Where to go on.
    pub(super) fn next(&self) -> Option<Continuation> {
        Some(Continuation { partition: self.next_partition.clone()?, row: self.next_row.clone() })
    }

    /// Notes a page: its size in the file, its entities, and where the next one begins.
    pub(super) fn advance(&mut self, bytes: u64, entities: u64, next: Option<Continuation>) {
        self.bytes += bytes;
        self.entities += entities;
        self.is_done = next.is_none();
        (self.next_partition, self.next_row) = next.map_or((None, None), |next| (Some(next.partition), next.row));
    }
}

/// The state of an export and its file.
#[derive(Debug)]
pub(super) struct State(StateFile<Document>);

impl State {
    /// Reads the file, if there is one.
    pub(super) fn open(path: PathBuf, order: Order) -> anyhow::Result<Self> {
        let known = read_state(&path, "export", "delete it", |known: &Document| known.format == FORMAT)?;
        let document = match known {
            None => Document { format: FORMAT, order, tables: BTreeMap::new() },
            Some(mut document) => {
                // Policies may be given up on the way, since a signature cannot read them, but not be had later.
                let skip_policies = order.skip_policies && document.order.skip_policies;
                ensure!(
                    document.order == Order { skip_policies, ..order.clone() },
                    "{} belongs to an unfinished export of {} with other options: give the same --from, --account, \
                     --format, --filter, --select, --with-timestamps and --skip-policies, or delete the file to begin anew",
                    path.display(),
                    document.order.from
                );
                document.order = order;
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

    /// How far a table is; `None` if it was not begun.
    pub(super) fn table(&self, table: &TableName) -> Option<TableState> {
        self.0.look(|document| document.tables.get(table.as_str()).cloned())
    }

    /// Takes away the manifest of an export that is replaced. The state file, which says that the folder is being
    /// written, is there before the manifest is gone.
    pub(super) fn replace(&self, manifest: &Path) -> anyhow::Result<()> {
        if !manifest.exists() {
            return Ok(());
        }
        self.0.change_at_once(|_| ())?;
        remove_file(manifest)
    }

    /// Notes the parts of a table.
    pub(super) fn begin(&self, table: &TableName, parts: Vec<Part>) -> anyhow::Result<()> {
        self.set(table, TableState { done: None, parts })
    }

    /// Notes how far a part is, whose file was synced.
    pub(super) fn advance(&self, table: &TableName, number: usize, part: &Part) -> anyhow::Result<()> {
        self.0.change_at_once(|document| {
            if let Some(known) = document.tables.get_mut(table.as_str()).and_then(|table| table.parts.get_mut(number)) {
                known.clone_from(part);
            }
        })
    }

    /// Notes that the file of a table is whole.
    pub(super) fn finish(&self, table: &TableName, made: ManifestTable) -> anyhow::Result<()> {
        self.set(table, TableState { done: Some(made), parts: Vec::new() })
    }

    /// Removes the file: there is nothing left to go on with.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        self.0.remove()
    }

    fn set(&self, table: &TableName, state: TableState) -> anyhow::Result<()> {
        self.0.change_at_once(|document| {
            document.tables.insert(table.to_string(), state);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            from: "a".to_owned(),
            account: "b".to_owned(),
            file_format: FileFormat::Jsonl,
            filter: None,
            select: Vec::new(),
            with_timestamps: false,
            skip_policies: false,
        }
    }

    #[test]
    fn a_folder_that_is_being_replaced_is_never_taken_for_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (manifest, path) = (folder.path().join("export.json"), folder.path().join("export.state.json"));
        let state = State::open(path.clone(), order()).unwrap();
        state.replace(&manifest).unwrap();
        assert!(!path.exists());
        std::fs::write(&manifest, "{}").unwrap();
        state.replace(&manifest).unwrap();
        assert!(path.exists() && !manifest.exists());
        State::open(path.clone(), order()).unwrap();
        let skipping = Order { skip_policies: true, ..order() };
        let state = State::open(path.clone(), skipping.clone()).unwrap();
        assert!(state.0.look(|document| document.order.skip_policies), "they may be given up");
        state.0.change_at_once(|_| ()).unwrap();
        assert!(State::open(path.clone(), order()).is_err(), "but not be had later");
        assert!(State::open(path, Order { with_timestamps: true, ..skipping }).is_err());
    }
}
