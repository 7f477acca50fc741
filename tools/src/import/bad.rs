//! Lines that are no entities: how many are passed over, and where they are kept.

use super::source::{Input, Item};
use crate::endpoints::note;
use crate::formats::Bad;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Most lines that are told about one by one.
const TOLD_MAX: u64 = 20;

/// A line, or a record of several, that is passed over.
#[derive(Debug, Clone)]
pub(super) struct BadLine {
    pub(super) number: u64,
    pub(super) lines: u64,
    pub(super) bad: Bad,
    /// As it stands in the file, if it is to be kept.
    pub(super) raw: Option<Box<[u8]>>,
}

/// What becomes of bad lines, of all tables together.
#[derive(Debug)]
pub(super) struct BadLines {
    count_max: u64,
    count: Mutex<u64>,
    file: Option<Mutex<File>>,
}

impl BadLines {
    /// Allows so many, of which some were met in an earlier run.
    pub(super) fn new(count_max: u64, known: u64, file: Option<File>) -> Self {
        Self { count_max, count: Mutex::new(known), file: file.map(Mutex::new) }
    }

    /// Whether lines are kept.
    pub(super) fn keeps(&self) -> bool {
        self.file.is_some()
    }

    /// Passes over a line, or ends the import if there are too many.
    pub(super) fn add(&self, file: &str, line: &BadLine) -> anyhow::Result<()> {
        let BadLine { number, lines, bad, .. } = line;
        let told = format!("{file}:{number}:{}: {}", bad.column, bad.reason);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *count;
        *count += lines;
        if *count > self.count_max {
            match (self.count_max, lines) {
                (0, _) => bail!("{told} (--skip-bad passes over such lines)"),
                (most, 1) => bail!("{told} (--skip-bad passes over {most} lines, and this is one too many)"),
                (most, _) => bail!("{told} (--skip-bad passes over {most} lines, and this record has {lines})"),
            }
        }
        if known < TOLD_MAX {
            note(&told);
            if *count >= TOLD_MAX {
                note("further bad lines are passed over without a word");
            }
        }
        Ok(())
    }

    /// Forgets lines of a table that is begun anew, and what is kept of them.
    pub(super) fn forget(&self, lines: u64) -> anyhow::Result<()> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_sub(lines);
        // There is one table alone if lines are kept.
        let Some(file) = &self.file else { return Ok(()) };
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0).context("writing the file of --bad-lines")
    }

    /// Keeps lines; tells how long their file is then.
    pub(super) fn keep(&self, header: Option<&[u8]>, lines: &[BadLine]) -> anyhow::Result<u64> {
        let Some(file) = &self.file else { return Ok(0) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Where the file of bad lines is; refuses one that is imported, or that stands in the folder that is.
pub(super) fn place(path: &Path, from: &str, items: &[Item]) -> anyhow::Result<PathBuf> {
    let what = || format!("--bad-lines {}", path.display());
    let path = if let Ok(path) = path.canonicalize() {
        path
    } else {
        let absolute = std::path::absolute(path).with_context(what)?;
        let folder = absolute.parent().with_context(what)?.canonicalize().with_context(what)?;
        folder.join(absolute.file_name().with_context(what)?)
    };
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let own = identity(&path);
    let is_input = |item: &Item| match &item.input {
        Input::StandardInput => false,
        Input::File(input) => *input == path || own.is_some() && identity(input) == own,
    };
    ensure!(!items.iter().any(is_input), "{} is the file that is imported: name another one", what());
    let is_in_folder = path.parent() == Some(Path::new(from));
    ensure!(!is_in_folder, "{} is in the folder that is imported: name a file elsewhere", what());
    Ok(path)
}

/// Refuses a file that holds what this import did not write.
pub(super) fn check_ours(path: &Path, known: Option<u64>) -> anyhow::Result<()> {
    let is_empty = std::fs::metadata(path).map_or(true, |file| file.is_file() && file.len() == 0);
    ensure!(
        known.is_some() || is_empty,
        "--bad-lines {} is there already, and this import did not write it: name another file, or remove it",
        path.display()
    );
    Ok(())
}

/// Opens the file of bad lines, and cuts off what was written behind the last state.
pub(super) fn open(path: &Path, bytes: u64) -> anyhow::Result<File> {
    let what = || format!("writing {}", path.display());
    let file = File::options().create(true).read(true).write(true).truncate(false).open(path).with_context(what)?;
    file.set_len(bytes).with_context(what)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::source::Source;

    #[test]
    fn bad_lines_are_kept_in_no_file_that_holds_something() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::write(at("in/cars.jsonl"), "{}").unwrap();
        std::os::unix::fs::symlink(at("in/cars.jsonl"), at("link")).unwrap();
        std::fs::hard_link(at("in/cars.jsonl"), at("hard")).unwrap();
        let file = Source::find(&at("in/cars.jsonl"), &[], None).unwrap();
        let whole = Source::find(&at("in"), &[], None).unwrap();
        for name in ["in/cars.jsonl", "link", "hard", "in/../in/cars.jsonl"] {
            assert!(place(&at(name), &file.name, &file.items).is_err(), "{name}");
        }
        assert!(place(&at("in/people.jsonl"), &whole.name, &whole.items).is_err());
        let path = place(&at("in/../bad"), &whole.name, &whole.items).unwrap();
        assert_eq!(path, at("bad"));
        check_ours(&path, None).unwrap();
        std::fs::write(&path, "").unwrap();
        check_ours(&path, None).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(check_ours(&path, None).is_err());
        check_ours(&path, Some(0)).unwrap();
    }
}
