//! Which files an export makes.

use crate::formats::FileFormat;
use crate::formats::MANIFEST_NAME;
use anyhow::{Context, bail, ensure};
use model::TableName;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where an export goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Folder(PathBuf),
    File(PathBuf),
    StandardOutput,
}

impl Target {
    /// Reads what `--to` says, and the format that goes with it.
    pub(super) fn parse(to: &Path, format: Option<FileFormat>) -> anyhow::Result<(Self, FileFormat)> {
        if to == Path::new("-") {
            return Ok((Self::StandardOutput, format.unwrap_or(FileFormat::Jsonl)));
        }
        ensure!(!to.as_os_str().is_empty(), "--to is empty");
        let by_name = FileFormat::of(to).filter(|_| !to.is_dir());
        match (by_name, format) {
            (Some(by_name), Some(format)) if by_name != format => {
                bail!("--to {} ends with another format than --format {}", to.display(), format.extension())
            }
            (Some(format), _) => Ok((Self::File(to.to_owned()), format)),
            (None, format) => Ok((Self::Folder(to.to_owned()), format.unwrap_or(FileFormat::Jsonl))),
        }
    }

    /// The file that keeps how far the export is.
    pub(super) fn state(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join("export.state.json"),
            Self::File(file) => beside(file, ".state.json"),
            Self::StandardOutput => PathBuf::from("export.state.json"),
        }
    }

    /// The file of a table.
    pub(super) fn file(&self, table: &TableName, format: FileFormat) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(format!("{table}.{}", format.extension())),
            Self::File(file) => file.clone(),
            Self::StandardOutput => PathBuf::from("-"),
        }
    }

    /// What must not be there yet.
    fn mark(&self) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => Some(folder.join(MANIFEST_NAME)),
            Self::File(file) => Some(file.clone()),
            Self::StandardOutput => None,
        }
    }

    /// Refuses a place where an export is, and makes the folder. What an interrupted export left is no hindrance.
    pub(super) fn prepare(&self, overwrite: bool) -> anyhow::Result<()> {
        if let Some(mark) = self.mark().filter(|mark| mark.exists() && !overwrite && !self.state().exists()) {
            bail!("{} is there already: name another place, or replace it with --overwrite", mark.display());
        }
        let folder = match self {
            Self::Folder(folder) => folder.as_path(),
            Self::File(file) => file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            Self::StandardOutput => return Ok(()),
        };
        std::fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))
    }
}

/// The file that keeps one part of a table until all parts are there.
pub(super) fn part(file: &Path, number: usize) -> PathBuf {
    beside(file, &format!(".part{number}"))
}

/// A file with more behind its name.
pub(super) fn beside(file: &Path, more: &str) -> PathBuf {
    let mut name = OsString::from(file.file_name().unwrap_or_default());
    name.push(more);
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_formats() {
        use FileFormat::{Csv, Jsonl};
        let path = PathBuf::from;
        for (to, format, expected) in [
            ("-", None, Some((Target::StandardOutput, Jsonl))),
            ("-", Some(Csv), Some((Target::StandardOutput, Csv))),
            ("out", None, Some((Target::Folder(path("out")), Jsonl))),
            ("out", Some(Csv), Some((Target::Folder(path("out")), Csv))),
            ("a/cars.csv", None, Some((Target::File(path("a/cars.csv")), Csv))),
            ("cars.NDJSON", None, Some((Target::File(path("cars.NDJSON")), Jsonl))),
            ("cars.csv", Some(Jsonl), None),
            ("", None, None),
        ] {
            assert_eq!(Target::parse(Path::new(to), format).ok(), expected, "{to}");
        }
        assert_eq!(part(Path::new("a/b.jsonl"), 3), path("a/b.jsonl.part3"));
    }
}
