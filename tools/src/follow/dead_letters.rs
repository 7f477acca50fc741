//! The file of changes that could not be delivered.

use anyhow::Context;
use client::JsonChange;
use platform::files::private_file;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
        let file = private_file().append(true).create(true).open(path);
        let file = file.with_context(|| format!("opening --dead-letters {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// The line is on disk when this returns.
    pub(super) fn add(&self, change: &JsonChange, error: &str, attempts: u32) -> anyhow::Result<()> {
        let what = || format!("writing --dead-letters {}", self.path.display());
        let letter = DeadLetter { error, attempts, change: serde_json::from_str(&change.json).with_context(what)? };
        let mut line = serde_json::to_vec(&letter).with_context(what)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).and_then(|()| file.sync_data()).with_context(what)
    }
}
