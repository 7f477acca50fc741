//! How a data folder is opened: it is created, migrated, or checked before anything in it is changed.
//!
//! A version with a new format adds a step, which changes a folder of the preceding format. Before a step, the marker
//! names the next format and says that the migration is unfinished, so earlier versions refuse the folder. A step that
//! was interrupted is repeated at the next start.

use crate::disk::folder::Folder;
use crate::disk::layout::FORMAT;
use crate::disk::manifest::{Damage, Manifest};
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

/// Changes a folder to the next format. It must be possible to repeat the step, and everything that it did must be on
/// disk when it returns.
pub(crate) type Step = fn(&Folder) -> Result<(), OpenError>;

/// The steps to the newest format, beginning with the step from format 1 to format 2.
pub(crate) const STEPS: [Step; FORMAT as usize - 1] = [];

/// Applies the steps that a complete folder lacks.
pub(crate) fn migrate(folder: &mut Folder, steps: &[Step]) -> Result<(), OpenError> {
    for (from, step) in (1..).zip(steps) {
        if folder.format() == Some(from) {
            folder.begin_migration(from)?;
            step(folder)?;
            folder.complete_migration(from + 1)?;
            tracing::info!(
                "the data folder was migrated to format {}; earlier versions do not open it any more",
                from + 1
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::folder::marked_format;
    use std::fs;

    fn append(folder: &Folder, step: &str) -> Result<(), OpenError> {
        let path = folder.path().join("steps");
        let steps = fs::read_to_string(&path).unwrap_or_default() + step;
        fs::write(&path, steps).map_err(|error| OpenError::io("write", &path, error))
    }

    fn first(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "1")
    }

    fn interrupted(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "x")?;
        Err(OpenError::damaged(folder.path(), "the step is interrupted"))
    }

    fn second(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "2")
    }

    #[test]
    fn a_migration_continues_with_the_step_that_was_interrupted() {
        let place = tempfile::tempdir().unwrap();
        let marker = place.path().join("rowhouse.marker");
        let mut folder = Folder::acquire(place.path()).unwrap();
        folder.complete().unwrap();
        migrate(&mut folder, &STEPS).unwrap();
        assert_eq!(folder.format(), Some(FORMAT), "nothing is left to do");
        migrate(&mut folder, &[first, interrupted]).unwrap_err();
        assert_eq!((folder.format(), marked_format(&marker, 3).unwrap()), (Some(2), 2));
        let text = fs::read_to_string(&marker).unwrap();
        assert!(text.starts_with("rowhouse data folder\nformat 3\nmigrating from format 2\n"), "{text}");
        // Earlier versions refuse the folder from the first step on.
        for newest in [1, 2] {
            let error = marked_format(&marker, newest).unwrap_err();
            assert!(matches!(error, OpenError::Newer { found: 3, .. }), "{error}");
        }
        migrate(&mut folder, &[first, second]).unwrap();
        assert_eq!((folder.format(), marked_format(&marker, 3).unwrap()), (Some(3), 3));
        assert_eq!(fs::read_to_string(place.path().join("steps")).unwrap(), "1x2");
    }
}
