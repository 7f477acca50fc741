//! The identifier of the change log of a data folder. Positions of different logs must not be mixed up, for example
//! of a data folder and of one that was restored from its backup.
//!
//! It is in a file of the folder, which is created when a server first keeps a log in the folder. A restore does not
//! copy it.

use platform::files::{private_file, rename, sync_folder};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use uuid::Uuid;

const FILE: &str = "rowhouse.log-id";

/// Returns `None` if no server has kept a log in the folder.
pub(super) fn read_log_id(folder: &Path) -> io::Result<Option<String>> {
    let path = folder.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let malformed =
        || io::Error::other(format!("{} is malformed; remove it while no server is running", path.display()));
    let id = Uuid::try_parse(text.trim_end()).map_err(|_| malformed())?;
    Ok(Some(id.simple().to_string()))
}

/// Creates the identifier if there is none. Only the process that has locked the folder may call this.
pub(super) fn read_or_create_log_id(folder: &Path) -> io::Result<String> {
    if let Some(id) = read_log_id(folder)? {
        return Ok(id);
    }
    let id = Uuid::new_v4().simple().to_string();
    let unfinished = folder.join(format!("{FILE}.new"));
    let mut file = private_file().write(true).create(true).truncate(true).open(&unfinished)?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()?;
    rename(&unfinished, &folder.join(FILE))?;
    sync_folder(folder)?;
    Ok(id)
}
