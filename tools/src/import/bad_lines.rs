//! Malformed lines: counts the skipped lines, limits their number, and saves them in a file.

use super::files::{ImportFiles, Input, TableInput};
use crate::formats::LineError;
use crate::terminal::{counted, notice};
use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use platform::files::FileIdentity;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Further lines are only counted.
const REPORTED_MAX: u64 = 20;

/// A line, or a record that spans several lines.
#[derive(Debug, Clone)]
pub(super) struct BadLine {
    pub(super) number: u64,
    pub(super) lines: u64,
    pub(super) error: LineError,
    /// The bytes of the line, if bad lines are saved.
    pub(super) raw: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub(super) struct BadLines {
    /// `None` if the command has no option that allows bad lines.
    count_max: Option<u64>,
    count: Mutex<u64>,
    file: Option<Mutex<File>>,
}

impl BadLines {
    /// Allows `count_max` bad lines. An earlier run skipped `known` of them.
    pub(super) fn new(count_max: u64, known: u64, file: Option<File>) -> Self {
        Self { count_max: Some(count_max), count: Mutex::new(known), file: file.map(Mutex::new) }
    }

    /// For a command without an option that allows bad lines.
    pub(super) fn without_bad_lines() -> Self {
        Self { count_max: None, count: Mutex::new(0), file: None }
    }

    pub(super) fn has_options(&self) -> bool {
        self.count_max.is_some()
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Fails if too many lines were skipped.
    pub(super) fn add(&self, file: &str, line: &BadLine) -> anyhow::Result<()> {
        let BadLine { number, lines, error, .. } = line;
        let message = format!("{file}:{number}:{}: {}", error.column, error.reason);
        let mut count = self.count.lock();
        let known = *count;
        *count += lines;
        if *count > self.count_max.unwrap_or(0) {
            match (self.count_max, lines) {
                (None, _) => bail!("{message}"),
                (Some(0), _) => bail!("{message} (skip such lines with --skip-bad)"),
                (Some(most), 1) => {
                    bail!("{message} (--skip-bad allows only {})", counted(most, "bad line", "bad lines"))
                }
                (Some(most), _) => {
                    bail!("{message} (--skip-bad allows {most} lines, but this record has {lines})")
                }
            }
        }
        if known < REPORTED_MAX {
            notice(message);
            if *count >= REPORTED_MAX {
                notice("further bad lines are skipped silently");
            }
        }
        Ok(())
    }

    /// Discards the bad lines of a table, and empties their file, because the table is imported from the beginning
    /// again.
    pub(super) fn forget(&self, lines: u64) -> anyhow::Result<()> {
        let mut count = self.count.lock();
        *count = count.saturating_sub(lines);
        // If lines are saved, this is the only table.
        let Some(file) = &self.file else { return Ok(()) };
        let file = file.lock();
        file.set_len(0).context("writing the file of --bad-lines")
    }

    /// Returns the length of the file.
    pub(super) fn write(&self, header: Option<&[u8]>, lines: &[BadLine]) -> anyhow::Result<u64> {
        let Some(file) = &self.file else { return Ok(0) };
        let mut file = file.lock();
        let mut text = Vec::new();
        let what = "writing the file of --bad-lines";
        let at = file.seek(SeekFrom::End(0)).context(what)?;
        for part in header.filter(|_| at == 0).into_iter().chain(lines.iter().filter_map(|line| line.raw.as_deref())) {
            text.extend_from_slice(part);
            text.push(b'\n');
        }
        file.write_all(&text).and_then(|()| file.sync_data()).context(what)?;
        Ok(at + text.len() as u64)
    }
}

/// Refuses a file that is being imported, or that is in the imported folder.
pub(super) fn resolve_path(path: &Path, files: &ImportFiles) -> anyhow::Result<PathBuf> {
    let what = || format!("--bad-lines {}", path.display());
    let path = if let Ok(path) = path.canonicalize() {
        path
    } else {
        let absolute = std::path::absolute(path).with_context(what)?;
        let folder = absolute.parent().with_context(what)?.canonicalize().with_context(what)?;
        folder.join(absolute.file_name().with_context(what)?)
    };
    let identity = |path: &Path| FileIdentity::from_path(path).ok();
    let bad_lines = identity(&path);
    let is_input = |table: &TableInput| match &table.input {
        Input::StandardInput => false,
        Input::File(input) => *input == path || bad_lines.is_some() && identity(input) == bad_lines,
    };
    ensure!(!files.tables.iter().any(is_input), "{} is the file being imported: choose a different file", what());
    let is_in_folder = path.parent() == Some(Path::new(&files.name));
    ensure!(!is_in_folder, "{} is in the folder being imported: choose a file in a different folder", what());
    Ok(path)
}

pub(super) fn refuse_foreign_file(path: &Path, known: Option<u64>) -> anyhow::Result<()> {
    let is_empty = std::fs::metadata(path).map_or(true, |file| file.is_file() && file.len() == 0);
    ensure!(
        known.is_some() || is_empty,
        "--bad-lines {} already exists and was not written by this import: choose a different file, or remove it",
        path.display()
    );
    Ok(())
}

/// Truncates data that was written after the state was last recorded.
pub(super) fn open(path: &Path, bytes: u64) -> anyhow::Result<File> {
    let what = || format!("writing {}", path.display());
    let file = File::options().create(true).read(true).write(true).truncate(false).open(path).with_context(what)?;
    file.set_len(bytes).with_context(what)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_file_of_bad_lines_replaces_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("in/cars.jsonl"), "{}").unwrap();
        std::os::unix::fs::symlink(at("in/cars.jsonl"), at("link")).unwrap();
        std::fs::hard_link(at("in/cars.jsonl"), at("hard")).unwrap();
        let file = ImportFiles::find("--from", &at("in/cars.jsonl"), &[], None).unwrap();
        let whole = ImportFiles::find("--from", &at("in"), &[], None).unwrap();
        for name in ["in/cars.jsonl", "link", "hard", "in/../in/cars.jsonl"] {
            assert!(resolve_path(&at(name), &file).is_err(), "{name}");
        }
        assert!(resolve_path(&at("in/people.jsonl"), &whole).is_err());
        let path = resolve_path(&at("in/../bad"), &whole).unwrap();
        assert_eq!(path, at("bad"));
        refuse_foreign_file(&path, None).unwrap();
        std::fs::write(&path, "").unwrap();
        refuse_foreign_file(&path, None).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(refuse_foreign_file(&path, None).is_err());
        refuse_foreign_file(&path, Some(0)).unwrap();
    }
}
