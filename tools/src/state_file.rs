//! Files in which commands record their progress, so that the same command continues after an interruption.
//!
//! Invariants:
//!
//! 1. A file is replaced atomically, so it is never half written.
//! 2. Only its owner can read a file, because it contains entity keys. It contains no secrets.
//! 3. A command continues only with the options with which the file was created.

use crate::digest::sha256;
use crate::file::{remove_file, replace_file};
use crate::terminal::notice;
use anyhow::Context;
use model::limits::STATE_FILE_BYTES_MAX;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The minimum interval between two writes of a file. After an interruption, work that was not yet recorded is done
/// again.
pub(crate) const SAVE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) format: u32,
    /// The advice for a file that this version cannot read.
    pub(crate) advice: &'static str,
}

impl Command {
    /// The file is in the current folder.
    pub(crate) fn default_path(self, from: &str, to: &str) -> PathBuf {
        let hash = sha256(format!("{from}\n{to}").as_bytes());
        let short = hash.get(..12).unwrap_or_default();
        PathBuf::from(format!("rowhouse-{}-{short}.json", self.name))
    }

    /// If there is a state file, the error advises running the same command again to continue.
    pub(crate) fn incomplete(self, path: &Path, error: anyhow::Error) -> anyhow::Error {
        if !path.exists() {
            return error;
        }
        let (name, path) = (self.name, path.display());
        error.context(format!("the {name} is incomplete; run the same command to continue where it stopped ({path})"))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Document<O, T> {
    format: u32,
    #[serde(flatten)]
    options: O,
    tables: BTreeMap<String, T>,
}

#[derive(Debug)]
pub(crate) struct StateFile<O, T> {
    command: Command,
    /// `None` if the command cannot be continued.
    path: Option<PathBuf>,
    is_resumed: bool,
    contents: Mutex<Contents<O, T>>,
    /// The time of the last write. Locked while the file is written, so that no change waits for the disk.
    saved: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Contents<O, T> {
    document: Document<O, T>,
    is_dirty: bool,
}

/// When a change is written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    /// Before the call returns.
    Now,
    /// Before the call returns if the last write was long enough ago; otherwise, together with a later change.
    WhenDue,
    /// Together with a later change.
    Later,
}

impl<O, T> StateFile<O, T>
where
    O: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned + Clone,
{
    /// `accept` receives the options in the file and the given options. It returns the options to use, or an error.
    pub(crate) fn read_or_new(
        command: Command,
        path: Option<PathBuf>,
        options: O,
        accept: impl FnOnce(O, O) -> anyhow::Result<O>,
    ) -> anyhow::Result<Self> {
        let existing: Option<Document<O, T>> = path.as_deref().map(|path| read(command, path)).transpose()?.flatten();
        let document = match existing {
            None => Document { format: command.format, options, tables: BTreeMap::new() },
            Some(Document { format, options: known, tables }) => {
                Document { format, options: accept(known, options)?, tables }
            }
        };
        let is_resumed = !document.tables.is_empty();
        let contents = Mutex::new(Contents { document, is_dirty: false });
        Ok(Self { command, path, is_resumed, contents, saved: Mutex::new(None) })
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    pub(crate) fn print_resumed(&self) {
        if let Some(path) = self.path.as_deref().filter(|_| self.is_resumed) {
            notice(format_args!("continuing an earlier {}, as recorded in {}", self.command.name, path.display()));
        }
    }

    /// Returns `None` if the table has not been started.
    pub(crate) fn table(&self, name: &str) -> Option<T> {
        self.contents.lock().document.tables.get(name).cloned()
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&O, &BTreeMap<String, T>) -> R) -> R {
        let Document { options, tables, .. } = &self.contents.lock().document;
        read(options, tables)
    }

    pub(crate) fn update<R>(
        &self,
        save: Save,
        change: impl FnOnce(&mut O, &mut BTreeMap<String, T>) -> R,
    ) -> anyhow::Result<R> {
        let result = {
            let mut contents = self.contents.lock();
            let Document { options, tables, .. } = &mut contents.document;
            let result = change(options, tables);
            contents.is_dirty = true;
            result
        };
        match save {
            Save::Now => self.save(self.saved.lock())?,
            Save::WhenDue => {
                // If the file is being written, a later call writes the change.
                let saved = self.saved.try_lock();
                let is_due = |saved: &Option<Instant>| saved.is_none_or(|saved| saved.elapsed() >= SAVE_INTERVAL);
                if let Some(saved) = saved.filter(|saved| is_due(saved)) {
                    self.save(saved)?;
                }
            }
            Save::Later => {}
        }
        Ok(result)
    }

    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let saved = self.saved.lock();
        if self.contents.lock().is_dirty { self.save(saved) } else { Ok(()) }
    }

    /// Removes the file if the command is complete, and keeps it if the command can be continued.
    pub(crate) fn finish<R>(&self, result: anyhow::Result<R>) -> anyhow::Result<R> {
        let Some(path) = &self.path else { return result };
        match result {
            Ok(result) => remove_file(path).map(|()| result),
            Err(error) => {
                self.flush()?;
                Err(self.command.incomplete(path, error))
            }
        }
    }

    pub(crate) fn discard(&self) -> anyhow::Result<()> {
        let _saved = self.saved.lock();
        self.contents.lock().is_dirty = false;
        self.path.as_deref().map_or(Ok(()), remove_file)
    }

    fn save(&self, mut saved: MutexGuard<'_, Option<Instant>>) -> anyhow::Result<()> {
        if let Some(path) = &self.path {
            let text = {
                let mut contents = self.contents.lock();
                contents.is_dirty = false;
                serde_json::to_vec_pretty(&contents.document).context("writing the state file")?
            };
            replace_file(path, &text).inspect_err(|_| self.contents.lock().is_dirty = true)?;
        }
        *saved = Some(Instant::now());
        Ok(())
    }
}

/// Returns `None` if the file does not exist.
fn read<O: DeserializeOwned, T: DeserializeOwned>(
    command: Command,
    path: &Path,
) -> anyhow::Result<Option<Document<O, T>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("reading the state file {}", path.display()))?,
    };
    let mut text = Vec::new();
    file.take(STATE_FILE_BYTES_MAX as u64).read_to_end(&mut text)?;
    let document: Option<Document<O, T>> = serde_json::from_slice(&text).ok();
    let document = document.filter(|document| document.format == command.format).with_context(|| {
        let Command { name, advice, .. } = command;
        format!("{} is not a state file of this version of rowhouse {name}; {advice}", path.display())
    })?;
    Ok(Some(document))
}
