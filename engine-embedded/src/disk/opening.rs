//! How a data folder is opened: it is created, migrated, or checked before anything in it is changed.

use crate::disk::folder::{Folder, Kind};
use crate::disk::format1;
use crate::disk::manifest::{Manifest, WRONG_CHECKSUM};
use crate::disk::open_error::OpenError;
use crate::disk::storage::{OpenSettings, Storage, guarded_tree, inspect_log};
use crate::tree::Tree;

pub(crate) fn open(folder: &mut Folder, settings: OpenSettings) -> Result<Storage, OpenError> {
    if folder.is_new() {
        let storage = Storage::create(folder, settings)?;
        folder.complete()?;
        return Ok(storage);
    }
    if folder.kind() != Kind::Complete {
        format1::migrate(folder, settings.durability, &mut |_| Ok(()))?;
    }
    // Judge everything before anything is changed: the library deletes the sorted files that the manifest does not
    // list. If an older manifest was restored, they may contain what the log no longer does.
    let tree = folder.tree();
    let (manifest, overwritten) = Manifest::read_or_preceding(&tree)?;
    let files = manifest.paths(&tree)?;
    let persisted = guarded_tree(&tree, || Tree::persisted_in(&files))?;
    if let Err(error) = inspect_log(&folder.log(), Some(persisted)) {
        // The log was released after the files of the overwritten manifest, so only that one would do.
        return Err(overwritten.map_or(error, |path| OpenError::damaged(&path, WRONG_CHECKSUM)));
    }
    folder.sync_names()?;
    if let Some(overwritten) = overwritten {
        tracing::warn!(
            manifest = %overwritten.display(),
            "a crash interrupted a change of the sorted files; continuing with the manifest before it and the log, which contain everything"
        );
        manifest.make_current(&tree)?;
    }
    let storage = Storage::open(folder, settings)?;
    if let Err(error) = folder.remove_remains() {
        tracing::warn!(%error, "the files of format 1 are no longer needed, but could not be removed; the removal will be retried");
    }
    Ok(storage)
}
