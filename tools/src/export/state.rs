//! The progress of an export, in a file next to its target.
//!
//! Invariants:
//!
//! 1. Everything that the file records about a part is on disk: the part is synced before it is recorded.
//! 2. Data beyond the recorded length is truncated when the export continues, so no line is incomplete or duplicated.

use crate::endpoints::EntityRange;
use crate::file::remove_file;
use crate::formats::{ExportedTable, FileFormat};
use crate::state_file::{Command, Save, StateFile};
use anyhow::ensure;
use client::Continuation;
use model::TableName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(super) const COMMAND: Command = Command { name: "export", format: 3, advice: "delete it" };

/// An export continues only with the same options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExportOptions {
    pub(super) from: String,
    pub(super) account: String,
    pub(super) file_format: FileFormat,
    pub(super) filter: Option<String>,
    pub(super) select: Vec<String>,
    pub(super) with_timestamps: bool,
    pub(super) skip_policies: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ExportProgress {
    /// The entry in the manifest. It exists once the file is complete.
    pub(super) done: Option<ExportedTable>,
    pub(super) parts: Vec<TablePart>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TablePart {
    #[serde(flatten)]
    pub(super) range: EntityRange,
    next_partition: Option<String>,
    next_row: Option<String>,
    pub(super) bytes: u64,
    pub(super) entities: u64,
    pub(super) is_done: bool,
}

impl TablePart {
    pub(super) fn new(range: EntityRange) -> Self {
        Self { range, ..Self::default() }
    }

    /// `None` for the first page.
    pub(super) fn next(&self) -> Option<Continuation> {
        Some(Continuation { partition: self.next_partition.clone()?, row: self.next_row.clone() })
    }

    /// `bytes` is the size of the page in the file.
    pub(super) fn advance(&mut self, bytes: u64, entities: u64, next: Option<Continuation>) {
        self.bytes += bytes;
        self.entities += entities;
        self.is_done = next.is_none();
        (self.next_partition, self.next_row) = next.map_or((None, None), |next| (Some(next.partition), next.row));
    }
}

pub(super) type ExportState = StateFile<ExportOptions, ExportProgress>;

impl ExportState {
    pub(super) fn open(path: PathBuf, options: ExportOptions) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        Self::read_or_new(COMMAND, Some(path), options, |known, given| {
            // A signature cannot read policies, so an export that started with policies may continue without them. The
            // reverse is refused, because it would leave some tables without policies.
            let skip_policies = given.skip_policies && known.skip_policies;
            ensure!(
                known == ExportOptions { skip_policies, ..given.clone() },
                "{shown} belongs to an unfinished export of {} with different options: pass the same --from, --account, \
                 --format, --filter, --select, --with-timestamps and --skip-policies, or delete the file to start over",
                known.from
            );
            Ok(given)
        })
    }

    /// Writes the state file, which marks the folder as incomplete, and then removes the manifest of the export that is
    /// being replaced.
    pub(super) fn remove_manifest(&self, manifest: &Path) -> anyhow::Result<()> {
        if !manifest.exists() {
            return Ok(());
        }
        self.update(Save::Now, |_, _| ())?;
        remove_file(manifest)
    }

    pub(super) fn begin(&self, table: &TableName, parts: Vec<TablePart>) -> anyhow::Result<()> {
        self.set(table, ExportProgress { done: None, parts })
    }

    /// The file of the part must have been synced.
    pub(super) fn advance(&self, table: &TableName, number: usize, part: &TablePart) -> anyhow::Result<()> {
        self.update(Save::Now, |_, tables| {
            if let Some(known) = tables.get_mut(table.as_str()).and_then(|table| table.parts.get_mut(number)) {
                known.clone_from(part);
            }
        })
    }

    pub(super) fn complete(&self, table: &TableName, exported: ExportedTable) -> anyhow::Result<()> {
        self.set(table, ExportProgress { done: Some(exported), parts: Vec::new() })
    }

    fn set(&self, table: &TableName, progress: ExportProgress) -> anyhow::Result<()> {
        self.update(Save::Now, |_, tables| {
            tables.insert(table.to_string(), progress);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ExportOptions {
        ExportOptions {
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
    fn a_folder_that_is_being_replaced_is_never_taken_for_complete() {
        let folder = tempfile::tempdir().unwrap();
        let (manifest, path) = (folder.path().join("export.json"), folder.path().join("export.state.json"));
        let state = ExportState::open(path.clone(), options()).unwrap();
        state.remove_manifest(&manifest).unwrap();
        assert!(!path.exists());
        std::fs::write(&manifest, "{}").unwrap();
        state.remove_manifest(&manifest).unwrap();
        assert!(path.exists() && !manifest.exists());
        ExportState::open(path.clone(), options()).unwrap();
        let skipping = ExportOptions { skip_policies: true, ..options() };
        let state = ExportState::open(path.clone(), skipping.clone()).unwrap();
        assert!(state.read(|options, _| options.skip_policies), "policies may be dropped");
        state.update(Save::Now, |_, _| ()).unwrap();
        assert!(ExportState::open(path.clone(), options()).is_err(), "but not added later");
        assert!(ExportState::open(path, ExportOptions { with_timestamps: true, ..skipping }).is_err());
    }

    #[test]
    fn the_file_format_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.state.json");
        let state = ExportState::open(path.clone(), options()).unwrap();
        let range = EntityRange { to: Some("k".to_owned()), ..EntityRange::default() };
        state.begin(&TableName::new("cars").unwrap(), vec![TablePart::new(range)]).unwrap();
        let expected = r#"{
  "format": 3,
  "from": "a",
  "account": "b",
  "file_format": "jsonl",
  "filter": null,
  "select": [],
  "with_timestamps": false,
  "skip_policies": false,
  "tables": {
    "cars": {
      "done": null,
      "parts": [
        {
          "partition": null,
          "from": null,
          "to": "k",
          "next_partition": null,
          "next_row": null,
          "bytes": 0,
          "entities": 0,
          "is_done": false
        }
      ]
    }
  }
}"#;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
