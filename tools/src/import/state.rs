//! The progress of an import, in a file, so that another run can continue it.
//!
//! Invariants:
//!
//! 1. Everything that the file counts as written has been written, because the file is updated after the target has
//!    acknowledged a window.
//! 2. An import does not continue with a changed file, because the recorded offsets are no longer valid.

use super::args::ImportMode;
use crate::formats::FileFormat;
use crate::state_file::{Command, Save, StateFile};
use anyhow::ensure;
use model::TableName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(super) const COMMAND: Command = Command { name: "import", format: 2, advice: "delete it" };

/// An import continues only with the same options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportOptions {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) mode: ImportMode,
    pub(super) account: Option<String>,
    pub(super) file_format: Option<FileFormat>,
    pub(super) types: Vec<String>,
    #[serde(default)]
    pub(super) guess_types: bool,
}

/// Also contains the file for bad lines, so that a later run recognizes its own file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImportHeader {
    #[serde(flatten)]
    options: ImportOptions,
    bad_lines: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportProgress {
    /// The fingerprint when the import began.
    pub(super) fingerprint: Option<String>,
    pub(super) is_done: bool,
    pub(super) offset: u64,
    /// The number of lines before the offset.
    pub(super) line: u64,
    pub(super) entities: u64,
    pub(super) bad: u64,
    pub(super) bad_bytes: u64,
}

/// An import from standard input has no state file.
pub(super) type ImportState = StateFile<ImportHeader, ImportProgress>;

impl ImportState {
    pub(super) fn open(path: Option<PathBuf>, options: ImportOptions) -> anyhow::Result<Self> {
        let shown = path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let header = ImportHeader { options, bad_lines: None };
        Self::read_or_new(COMMAND, path, header, |known, given| {
            ensure!(
                known.options == given.options,
                "the state file {shown} belongs to an import from {} to {} with a different source, target, --mode, --account, \
                 --format, --types or --guess-types; choose another file with --state, or delete this one to start over",
                known.options.from,
                known.options.to
            );
            Ok(known)
        })
    }

    pub(super) fn has_progress(&self) -> bool {
        self.read(|_, tables| tables.values().any(|table| table.is_done || table.offset > 0))
    }

    pub(super) fn bad_lines(&self) -> u64 {
        self.read(|_, tables| tables.values().map(|table| table.bad).sum())
    }

    pub(super) fn entities(&self) -> u64 {
        self.read(|_, tables| tables.values().map(|table| table.entities).sum())
    }

    /// Returns `None` if the import has not written to the file yet.
    pub(super) fn bad_lines_bytes(&self, table: &TableName, path: &Path) -> Option<u64> {
        self.read(|header, tables| {
            let is_known = header.bad_lines.as_deref() == Some(path);
            is_known.then(|| tables.get(table.as_str()).map_or(0, |table| table.bad_bytes))
        })
    }

    /// Must be called before anything is written to the file.
    pub(super) fn begin_bad_lines(&self, table: &TableName, path: &Path) -> anyhow::Result<()> {
        self.update(Save::Now, |header, tables| {
            header.bad_lines = Some(path.to_owned());
            if let Some(table) = tables.get_mut(table.as_str()) {
                table.bad_bytes = 0;
            }
        })
    }

    /// Records a new table as started. Refuses a file that has changed.
    pub(super) fn begin(&self, table: &TableName, fingerprint: Option<&str>) -> anyhow::Result<ImportProgress> {
        let progress = self.update(Save::Now, |_, tables| {
            let new = ImportProgress { fingerprint: fingerprint.map(str::to_owned), ..ImportProgress::default() };
            tables.entry(table.to_string()).or_insert(new).clone()
        })?;
        ensure!(
            progress.fingerprint.as_deref() == fingerprint,
            "the file of table '{table}' has changed since its import started; delete the state file to start over"
        );
        Ok(progress)
    }

    pub(super) fn advance(&self, table: &TableName, progress: &ImportProgress, save: Save) -> anyhow::Result<()> {
        self.update(save, |_, tables| {
            tables.insert(table.to_string(), progress.clone());
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ImportOptions {
        let (from, to) = ("a".to_owned(), "b".to_owned());
        ImportOptions {
            from,
            to,
            mode: ImportMode::Insert,
            account: None,
            file_format: None,
            types: Vec::new(),
            guess_types: false,
        }
    }

    #[test]
    fn an_import_goes_on_only_with_the_same_options() {
        let folder = tempfile::tempdir().unwrap();
        let open = |options| ImportState::open(Some(folder.path().join("state")), options);
        let table = TableName::new("cars").unwrap();
        open(options()).unwrap().begin(&table, None).unwrap();
        assert!(open(options()).unwrap().is_resumed());
        for other in [
            ImportOptions { from: "x".to_owned(), ..options() },
            ImportOptions { to: "x".to_owned(), ..options() },
            ImportOptions { mode: ImportMode::Merge, ..options() },
            ImportOptions { account: Some("x".to_owned()), ..options() },
            ImportOptions { file_format: Some(FileFormat::Csv), ..options() },
            ImportOptions { types: vec!["Age=Edm.Int32".to_owned()], ..options() },
            ImportOptions { guess_types: true, ..options() },
        ] {
            let shown = format!("{other:?}");
            assert!(open(other).is_err(), "{shown}");
        }
    }

    #[test]
    fn the_file_format_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let (state, table) =
            (ImportState::open(Some(path.clone()), options()).unwrap(), TableName::new("cars").unwrap());
        state.begin(&table, Some("5 bytes")).unwrap();
        state.begin_bad_lines(&table, Path::new("/bad")).unwrap();
        let expected = r#"{
  "format": 2,
  "from": "a",
  "to": "b",
  "mode": "insert",
  "account": null,
  "file_format": null,
  "types": [],
  "guess_types": false,
  "bad_lines": "/bad",
  "tables": {
    "cars": {
      "fingerprint": "5 bytes",
      "is_done": false,
      "offset": 0,
      "line": 0,
      "entities": 0,
      "bad": 0,
      "bad_bytes": 0
    }
  }
}"#;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert!(ImportState::open(Some(path), options()).unwrap().bad_lines_bytes(&table, Path::new("/bad")).is_some());
    }

    #[test]
    fn only_what_this_import_wrote_is_a_file_of_bad_lines() {
        let state = ImportState::open(None, options()).unwrap();
        let table = TableName::new("cars").unwrap();
        let mut progress = state.begin(&table, None).unwrap();
        assert_eq!(state.bad_lines_bytes(&table, Path::new("/one")), None);
        state.begin_bad_lines(&table, Path::new("/one")).unwrap();
        progress.bad_bytes = 7;
        state.advance(&table, &progress, Save::Now).unwrap();
        assert_eq!(state.bad_lines_bytes(&table, Path::new("/one")), Some(7));
        assert_eq!(state.bad_lines_bytes(&table, Path::new("/two")), None);
    }
}
