//! The progress of an export, in a file next to its target.
//!
//! Invariants:
//!
//! 1. The lines of a table are on disk up to the recorded length: they are synced before they are recorded. They are
//!    the lines of all joined parts, and of the following part up to its recorded position.
//! 2. The files of the other parts are not synced, because most of them never need to reach the disk. The hash in the
//!    record tells whether a crash of the machine has damaged them.
//! 3. Data beyond the recorded length is truncated when the export continues, so no line is incomplete or duplicated.

use crate::endpoints::EntityRange;
use crate::file::remove_file;
use crate::formats::{ExportedTable, FileFormat};
use crate::state_file::{Command, Save, StateFile};
use anyhow::ensure;
use client::Continuation;
use model::TableName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(super) const COMMAND: Command = Command { name: "export", format: 4, advice: "delete it" };

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
    /// The number of parts whose lines are all in the file of the table.
    pub(super) joined: usize,
    /// The length of the file of the table.
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TablePart {
    #[serde(flatten)]
    pub(super) range: EntityRange,
    next_partition: Option<String>,
    next_row: Option<String>,
    /// The length and the hash of the part's own file.
    pub(super) bytes: u64,
    pub(super) hash: u64,
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

    pub(super) fn advance(&mut self, entities: u64, next: Option<Continuation>) {
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
        self.set(table, ExportProgress { parts, ..ExportProgress::default() })
    }

    /// Records a part that has its own file.
    pub(super) fn advance(&self, table: &TableName, number: usize, part: &TablePart) -> anyhow::Result<()> {
        self.change(table, Save::WhenDue, |progress| set_part(progress, number, part))
    }

    /// Records a part that continues the file of the table, which must have been synced.
    pub(super) fn join(&self, table: &TableName, number: usize, part: &TablePart, bytes: u64) -> anyhow::Result<()> {
        self.change(table, Save::Now, |progress| {
            set_part(progress, number, part);
            progress.joined = number;
            progress.bytes = bytes;
        })
    }

    pub(super) fn complete(&self, table: &TableName, exported: ExportedTable) -> anyhow::Result<()> {
        self.set(table, ExportProgress { done: Some(exported), ..ExportProgress::default() })
    }

    fn set(&self, table: &TableName, progress: ExportProgress) -> anyhow::Result<()> {
        self.update(Save::Now, |_, tables| {
            tables.insert(table.to_string(), progress);
        })
    }

    fn change(&self, table: &TableName, save: Save, change: impl FnOnce(&mut ExportProgress)) -> anyhow::Result<()> {
        self.update(save, |_, tables| {
            if let Some(progress) = tables.get_mut(table.as_str()) {
                change(progress);
            }
        })
    }
}

fn set_part(progress: &mut ExportProgress, number: usize, part: &TablePart) {
    if let Some(known) = progress.parts.get_mut(number) {
        known.clone_from(part);
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
  "format": 4,
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
          "hash": 0,
          "entities": 0,
          "is_done": false
        }
      ],
      "joined": 0,
      "bytes": 0
    }
  }
}"#;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
