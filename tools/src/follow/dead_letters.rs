//! The file of changes that could not be delivered.

use crate::file::sync_name;
use anyhow::Context;
use client::JsonChange;
use parking_lot::Mutex;
use platform::files::{private_file, read_at};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct DeadLetters {
    path: PathBuf,
    file: Mutex<File>,
}

#[derive(Serialize)]
struct DeadLetter<'a> {
    error: &'a str,
    attempts: u32,
    change: &'a RawValue,
}

impl DeadLetters {
    /// Opens a file to append to it. A new file is accessible only to its owner.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = private_file().read(true).append(true).create(true).open(path);
        let file = file.and_then(|file| sync_name(path).map(|()| file));
        let file = file.with_context(|| format!("opening --dead-letters {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// The line is on disk when this returns.
    pub(super) fn add(&self, change: &JsonChange, error: &str, attempts: u32) -> anyhow::Result<()> {
        let what = || format!("writing --dead-letters {}", self.path.display());
        let letter = DeadLetter { error, attempts, change: serde_json::from_str(&change.json).with_context(what)? };
        let mut line = serde_json::to_vec(&letter).with_context(what)?;
        line.push(b'\n');
        let mut file = self.file.lock();
        if ends_within_line(&file).with_context(what)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line).and_then(|()| file.sync_data()).with_context(what)
    }
}

/// After an error, such as a full disk, the last line can be incomplete. The next one must not continue it.
fn ends_within_line(file: &File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if let Some(offset) = file.metadata()?.len().checked_sub(1) {
        read_at(file, &mut last, offset)?;
    }
    Ok(last != [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::ChangePosition;

    #[test]
    fn an_incomplete_line_does_not_damage_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead");
        let letters = DeadLetters::open(&path).unwrap();
        let change = JsonChange { position: ChangePosition::start_of(1), json: "{}".to_owned() };
        letters.add(&change, "no", 3).unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, [line.as_str(), "{\"error\""].concat()).unwrap();
        letters.add(&change, "no", 3).unwrap();
        DeadLetters::open(&path).unwrap().add(&change, "no", 3).unwrap();
        let expected = [line.as_str(), "{\"error\"\n", &line, &line].concat();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(line, "{\"error\":\"no\",\"attempts\":3,\"change\":{}}\n");
    }
}
