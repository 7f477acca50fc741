//! How a data folder is opened: it is created, migrated, or checked before anything in it is changed.

use crate::disk::folder::{Folder, Kind};
use crate::disk::format1;
use crate::disk::manifest::Manifest;
use crate::disk::open_error::OpenError;
use crate::disk::storage::{OpenSettings, Storage, guarded_tree, inspect_log};
use crate::sequence::Sequence;
use crate::tree::Tree;
use std::path::Path;

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
    let persisted = persisted_in_files(&folder.tree())?;
    inspect_log(&folder.log(), Some(persisted))?;
    folder.sync_names()?;
    let storage = Storage::open(folder, settings)?;
    if let Err(error) = folder.remove_remains() {
        tracing::warn!(%error, "the files of format 1 are no longer needed, but could not be removed; the removal will be retried");
    }
    Ok(storage)
}

/// Returns the last transaction in the sorted files of a tree, without changing anything.
fn persisted_in_files(tree: &Path) -> Result<Sequence, OpenError> {
    let files = Manifest::read(tree)?.paths(tree)?;
    guarded_tree(tree, || Tree::persisted_in(&files))
}
