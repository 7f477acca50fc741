//! The progress of a copy, in a file, so that another run can continue it.
//!
//! Invariants:
//!
//! 1. A table is recorded before anything is written to it, so that a resumed copy recognizes its own work.
//! 2. Everything that the file counts as written has been written, because the file is updated after the target has
//!    acknowledged a page.

use super::plan::{Plan, TableCopy};
use crate::state_file::{Command, Save, StateFile};
use anyhow::ensure;
use client::{ChangePosition, Continuation};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub(super) const COMMAND: Command = Command { name: "copy", format: 1, advice: "choose a different file with --state" };

/// Must not contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyEndpoints {
    pub(super) from: String,
    pub(super) to: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyProgress {
    pub(super) is_done: bool,
    pub(super) entities: u64,
    /// The position at which the next page begins. `None` for the first page.
    next_partition: Option<String>,
    next_row: Option<String>,
    /// With `--follow`: the target has all changes up to this position of the table's feed, apart from those that the
    /// copy of the table will contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changes: Option<String>,
}

impl CopyProgress {
    pub(super) fn next(&self) -> Option<Continuation> {
        let partition = self.next_partition.clone()?;
        Some(Continuation { partition, row: self.next_row.clone() })
    }

    pub(super) fn changes(&self) -> Option<ChangePosition> {
        ChangePosition::parse(self.changes.as_deref()?)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.is_done || self.next_partition.is_some()
    }
}

pub(super) type CopyState = StateFile<CopyEndpoints, CopyProgress>;

impl CopyState {
    /// The default path of the file depends on the endpoints.
    pub(super) fn open(path: Option<PathBuf>, endpoints: CopyEndpoints) -> anyhow::Result<Self> {
        let path = path.unwrap_or_else(|| COMMAND.default_path(&endpoints.from, &endpoints.to));
        let shown = path.display().to_string();
        Self::read_or_new(COMMAND, Some(path), endpoints, |known, given| {
            ensure!(
                known == given,
                "the state file {shown} belongs to a copy from {} to {}; choose a different file with --state, or delete \
                 this one if that copy is no longer needed",
                known.from,
                known.to
            );
            Ok(known)
        })
    }

    /// The table will be copied from the beginning.
    pub(super) fn forget(&self, table: &TableCopy) -> anyhow::Result<()> {
        let name = table.name();
        if self.table(&name).is_some() {
            self.update(Save::Later, |_, tables| tables.remove(&name))?;
        }
        Ok(())
    }

    pub(super) fn begin<'t>(&self, copies: impl Iterator<Item = &'t TableCopy>) -> anyhow::Result<()> {
        self.update(Save::Now, |_, tables| {
            for table in copies {
                tables.entry(table.name()).or_default();
            }
        })
    }

    /// Returns the number of entities that this copy, with its earlier runs, has written.
    pub(super) fn entities(&self, plan: &Plan) -> u64 {
        let tables = plan.tables.iter().filter_map(|table| self.table(&table.name()));
        tables.map(|table| table.entities).sum()
    }

    /// Records that a page was written. If there is no next page, the table is complete.
    pub(super) fn advance(&self, table: &TableCopy, entities: u64, next: Option<&Continuation>) -> anyhow::Result<()> {
        self.update(Save::WhenDue, |_, tables| {
            let table = tables.entry(table.name()).or_default();
            table.entities += entities;
            table.next_partition = next.map(|next| next.partition.clone());
            table.next_row = next.and_then(|next| next.row.clone());
            table.is_done = next.is_none();
        })
    }

    /// Records that the target has all changes up to a position.
    pub(super) fn advance_changes(&self, table: &TableCopy, to: ChangePosition, save: Save) -> anyhow::Result<()> {
        self.update(save, |_, tables| tables.entry(table.name()).or_default().changes = Some(to.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::table_copy;
    use super::*;
    use std::path::Path;

    fn open(path: &Path, from: &str, to: &str) -> anyhow::Result<CopyState> {
        CopyState::open(Some(path.to_owned()), CopyEndpoints { from: from.to_owned(), to: to.to_owned() })
    }

    #[test]
    fn what_was_saved_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let (one, two) = (table_copy("acct", "One"), table_copy("acct", "Two"));
        let state = open(&path, "a", "b").unwrap();
        assert!(!state.is_resumed());
        state.begin([&one, &two].into_iter()).unwrap();
        let next = Continuation { partition: "p".to_owned(), row: None };
        state.advance(&one, 1000, Some(&next)).unwrap();
        state.advance(&one, 10, Some(&Continuation { partition: "q".to_owned(), row: Some(String::new()) })).unwrap();
        state.advance(&two, 0, None).unwrap();
        state.flush().unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = open(&path, "a", "b").unwrap();
        assert!(again.is_resumed());
        let progress = again.table(&one.name()).unwrap();
        assert_eq!((progress.is_done, progress.entities), (false, 1010));
        assert_eq!(progress.next(), Some(Continuation { partition: "q".to_owned(), row: Some(String::new()) }));
        assert!(again.table(&two.name()).unwrap().is_done);
        again.forget(&one).unwrap();
        assert!(again.table(&one.name()).is_none());
        again.finish(Ok(())).unwrap();
        again.finish(Ok(())).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_file_format_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let (state, table) = (open(&path, "a", "b").unwrap(), table_copy("acct", "One"));
        state.begin([&table].into_iter()).unwrap();
        let next = Continuation { partition: "p".to_owned(), row: None };
        state.advance(&table, 5, Some(&next)).unwrap();
        state.flush().unwrap();
        let expected = r#"{
  "format": 1,
  "from": "a",
  "to": "b",
  "tables": {
    "acct/One": {
      "is_done": false,
      "entities": 5,
      "next_partition": "p",
      "next_row": null
    }
  }
}"#;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn the_state_of_another_copy_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        open(&path, "a", "b").unwrap().begin([&table_copy("acct", "One")].into_iter()).unwrap();
        for (from, to) in [("a", "c"), ("b", "a")] {
            let error = open(&path, from, to).unwrap_err().to_string();
            assert!(error.contains("belongs to a copy from a to b"), "{error}");
        }
        for text in ["", "{}", "{\"format\":2,\"from\":\"a\",\"to\":\"b\",\"tables\":{}}"] {
            std::fs::write(&path, text).unwrap();
            assert!(open(&path, "a", "b").is_err(), "{text}");
        }
        assert_ne!(COMMAND.default_path("a", "b"), COMMAND.default_path("b", "a"));
    }
}
