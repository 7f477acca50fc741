use anyhow::Context;
use platform::files::private_file;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The new file is accessible only to its owner, and is on disk when this returns.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let what = || format!("writing {}", path.display());
    let new = with_suffix(path, ".new");
    let mut file = private_file().write(true).create(true).truncate(true).open(&new).with_context(what)?;
    file.write_all(content).and_then(|()| file.sync_data()).with_context(what)?;
    std::fs::rename(&new, path).with_context(what)
}

pub(crate) fn remove_file(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file.file_name().unwrap_or_default());
    name.push(suffix);
    file.with_file_name(name)
}
