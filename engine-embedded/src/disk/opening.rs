//! How a data folder is opened: it is created, migrated, or checked before anything in it is changed.

use crate::disk::folder::Folder;
use crate::disk::manifest::{Damage, Manifest};
use crate::disk::migration::{STEPS, migrate};
use crate::disk::open_error::OpenError;
use crate::disk::storage::{OpenSettings, Storage, guarded_tree, inspect_log};
use crate::sequence::Sequence;
use crate::tree::Tree;

pub(crate) fn open(folder: &mut Folder, settings: OpenSettings) -> Result<Storage, OpenError> {
    if folder.is_new() {
        let storage = Storage::create(folder, settings)?;
        folder.complete()?;
        return Ok(storage);
    }
    migrate(folder, &STEPS)?;
    // Judge everything before anything is changed: the library deletes the sorted files that the manifest does not
    // list. If an older manifest was restored, they may contain what the log no longer does.
    let tree = folder.tree();
    let (manifest, damage) = Manifest::read_or_preceding(&tree)?;
    let mut persisted = Sequence::ZERO;
    for file in &manifest.paths(&tree)? {
        persisted = persisted.max(guarded_tree(file, || Tree::persisted_in(file))?);
    }
    match (inspect_log(&folder.log(), Some(persisted)), damage) {
        (Ok(_), None) => folder.sync_names()?,
        (Ok(_), Some(damage)) => {
            folder.sync_names()?;
            tracing::warn!(
                manifest = %damage.path.display(),
                "a crash interrupted a change of the sorted files; continuing with the manifest before it and the log, which contain everything"
            );
            manifest.make_current(&tree)?;
        }
        // The log was released after the files of the damaged manifest, so only that one would do.
        (Err(_), Some(Damage { path, what })) => return Err(OpenError::Damaged { path, what }),
        (Err(error), None) => return Err(error),
    }
    Storage::open(folder, settings).map_err(|error| manifest.locate(&tree, error))
}
