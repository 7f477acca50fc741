use crate::file::with_suffix;
use crate::formats::{FileFormat, MANIFEST_NAME, STATE_NAME};
use anyhow::{Context, bail, ensure};
use model::TableName;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExportTarget {
    Folder(PathBuf),
    File(PathBuf),
    StandardOutput,
}

impl ExportTarget {
    pub(super) fn parse(to: &Path, format: Option<FileFormat>) -> anyhow::Result<(Self, FileFormat)> {
        if to == Path::new("-") {
            return Ok((Self::StandardOutput, format.unwrap_or(FileFormat::Jsonl)));
        }
        ensure!(!to.as_os_str().is_empty(), "--to is empty");
        let by_name = FileFormat::from_path(to).filter(|_| !to.is_dir());
        match (by_name, format) {
            (Some(by_name), Some(format)) if by_name != format => {
                bail!("the extension of --to {} does not match --format {}", to.display(), format.extension())
            }
            (Some(format), _) => Ok((Self::File(to.to_owned()), format)),
            (None, format) => Ok((Self::Folder(to.to_owned()), format.unwrap_or(FileFormat::Jsonl))),
        }
    }

    pub(super) fn state(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(STATE_NAME),
            Self::File(file) => with_suffix(file, ".state.json"),
            Self::StandardOutput => PathBuf::from(STATE_NAME),
        }
    }

    pub(super) fn file(&self, table: &TableName, format: FileFormat) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(format!("{table}.{}", format.extension())),
            Self::File(file) => file.clone(),
            Self::StandardOutput => PathBuf::from("-"),
        }
    }

    /// The existence of this file means that the export is complete.
    fn completion_marker(&self) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => Some(folder.join(MANIFEST_NAME)),
            Self::File(file) => Some(file.clone()),
            Self::StandardOutput => None,
        }
    }

    /// Replaces a complete export only if `overwrite` is set. An interrupted export is continued.
    pub(super) fn prepare(&self, overwrite: bool) -> anyhow::Result<()> {
        if let Some(mark) =
            self.completion_marker().filter(|mark| mark.exists() && !overwrite && !self.state().exists())
        {
            bail!("{} already exists: choose another --to, or replace it with --overwrite", mark.display());
        }
        let folder = match self {
            Self::Folder(folder) => folder.as_path(),
            Self::File(file) => file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            Self::StandardOutput => return Ok(()),
        };
        std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_formats() {
        use FileFormat::{Csv, Jsonl};
        let path = PathBuf::from;
        for (to, format, expected) in [
            ("-", None, Some((ExportTarget::StandardOutput, Jsonl))),
            ("-", Some(Csv), Some((ExportTarget::StandardOutput, Csv))),
            ("out", None, Some((ExportTarget::Folder(path("out")), Jsonl))),
            ("out", Some(Csv), Some((ExportTarget::Folder(path("out")), Csv))),
            ("a/cars.csv", None, Some((ExportTarget::File(path("a/cars.csv")), Csv))),
            ("cars.NDJSON", None, Some((ExportTarget::File(path("cars.NDJSON")), Jsonl))),
            ("cars.csv", Some(Jsonl), None),
            ("", None, None),
        ] {
            assert_eq!(ExportTarget::parse(Path::new(to), format).ok(), expected, "{to}");
        }
    }
}
