//! Files that are written as a whole.

use anyhow::Context;
use platform::files::{private_file, rename, sync_folder};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes a new file. Only its owner can access it, unless `open_up` gives access to others.
pub(crate) fn write_new(
    path: &Path,
    text: &str,
    open_up: impl FnOnce(&File) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut file = private_file().write(true).create_new(true).open(path)?;
    open_up(&file)?;
    file.write_all(text.as_bytes())?;
    Ok(file.sync_all()?)
}

/// Replaces a file atomically, so that no process reads half of it and a crash leaves the old or the new content.
/// `check` runs just before.
pub(crate) fn replace(
    path: &Path,
    text: &str,
    open_up: impl FnOnce(&File) -> anyhow::Result<()>,
    check: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let what = || format!("writing {}", path.display());
    let mut name = OsString::from(path.file_name().with_context(what)?);
    name.push(".new");
    let new = path.with_file_name(name);
    // Otherwise, a file that a different process left under this name would keep its owner and its permissions.
    let _ = std::fs::remove_file(&new);
    let written = write_new(&new, text, open_up).and_then(|()| check()).and_then(|()| Ok(rename(&new, path)?));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.with_context(what)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(folder).with_context(what)
}
