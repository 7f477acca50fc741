//! Files in which commands keep how far they are.
//!
//! Such a file is replaced as a whole, so that it is never half written, and only its owner may read it, because it holds
//! keys of entities.

use crate::formats::hex;
use anyhow::Context;
use model::limits::STATE_FILE_BYTES_MAX;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The name of the state file of a command between two locations, in the current folder.
pub(crate) fn state_path(command: &str, from: &str, to: &str) -> PathBuf {
    let hash = digest(&SHA256, format!("{from}\n{to}").as_bytes());
    let short = hex(hash.as_ref().get(..6).unwrap_or_default());
    PathBuf::from(format!("rowhouse-{command}-{short}.json"))
}

/// How often a file is written at most; what is lost with the program is done again.
const SAVE_INTERVAL: Duration = Duration::from_millis(200);

/// A document that says how far a command is, and its file.
#[derive(Debug)]
pub(crate) struct StateFile<D> {
    /// None if nothing could go on with it.
    path: Option<PathBuf>,
    held: Mutex<Held<D>>,
}

#[derive(Debug)]
struct Held<D> {
    document: D,
    saved: Option<Instant>,
    is_dirty: bool,
}

impl<D: Serialize> StateFile<D> {
    /// A document that is not saved yet.
    pub(crate) fn new(path: Option<PathBuf>, document: D) -> Self {
        Self { path, held: Mutex::new(Held { document, saved: None, is_dirty: false }) }
    }

    /// The file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Looks at the document.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&D) -> T) -> T {
        look(&self.lock().document)
    }

    /// Changes the document, and saves it when that is due.
    pub(crate) fn change(&self, change: impl FnOnce(&mut D)) -> anyhow::Result<()> {
        let mut held = self.lock();
        change(&mut held.document);
        held.is_dirty = true;
        if held.saved.is_none_or(|saved| saved.elapsed() >= SAVE_INTERVAL) { self.save(&mut held) } else { Ok(()) }
    }

    /// Changes the document, if the change says that it did; that is saved with the next change.
    pub(crate) fn change_quietly(&self, change: impl FnOnce(&mut D) -> bool) {
        let mut held = self.lock();
        held.is_dirty |= change(&mut held.document);
    }

    /// Changes the document, and saves it at once.
    pub(crate) fn change_at_once<T>(&self, change: impl FnOnce(&mut D) -> T) -> anyhow::Result<T> {
        let mut held = self.lock();
        let result = change(&mut held.document);
        self.save(&mut held)?;
        Ok(result)
    }

    /// Saves whatever is not saved yet.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let mut held = self.lock();
        if held.is_dirty { self.save(&mut held) } else { Ok(()) }
    }

    /// Removes the file: there is nothing left to go on with.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        self.path.as_deref().map_or(Ok(()), remove_file)
    }

    fn save(&self, held: &mut Held<D>) -> anyhow::Result<()> {
        if let Some(path) = &self.path {
            let text = serde_json::to_vec_pretty(&held.document).context("writing the state file")?;
            replace_file(path, &text)?;
        }
        (held.saved, held.is_dirty) = (Some(Instant::now()), false);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Held<D>> {
        // A panic leaves at worst a number that is too small, and what is behind it is done again.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The document in a state file of a command; nothing if there is no file. `advice` says what to do about a file that is
/// none of this version.
pub(crate) fn read_state<D: DeserializeOwned>(
    path: &Path,
    command: &str,
    advice: &str,
    is_of_this_version: impl Fn(&D) -> bool,
) -> anyhow::Result<Option<D>> {
    let Some(text) = read_file(path)? else { return Ok(None) };
    let document = serde_json::from_slice(&text).ok().filter(is_of_this_version);
    document
        .map(Some)
        .with_context(|| format!("{} is no state file of this version of rowhouse {command}; {advice}", path.display()))
}

/// What a file holds; nothing if it is not there.
fn read_file(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("reading the state file {}", path.display()))?,
    };
    let mut text = Vec::new();
    file.take(STATE_FILE_BYTES_MAX as u64).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Replaces a file, or makes it; the new one is on disk when this returns.
fn replace_file(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let what = || format!("writing {}", path.display());
    let mut name = path.file_name().context("the state file has no name")?.to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new).with_context(what)?;
    file.write_all(text).and_then(|()| file.sync_data()).with_context(what)?;
    std::fs::rename(&new, path).with_context(what)
}

/// Removes a file, if it is there.
pub(crate) fn remove_file(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
