//! The format of data folders, and the migration of folders with an earlier one.
//!
//! A version with a new format adds a step, which changes a folder of the preceding format. Before a step, the marker
//! names the next format and says that the migration is unfinished, so earlier versions refuse the folder. A step that
//! was interrupted is repeated at the next start.

use crate::disk::folder::Folder;
use crate::disk::layout::FORMAT;
use crate::disk::open_error::OpenError;

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

    fn append(folder: &Folder, step: &str) {
        let path = folder.path().join("steps");
        fs::write(&path, fs::read_to_string(&path).unwrap_or_default() + step).unwrap();
    }

    fn first(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "1");
        Ok(())
    }

    fn interrupted(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "x");
        Err(OpenError::damaged(folder.path(), "the step is interrupted"))
    }

    fn second(folder: &Folder) -> Result<(), OpenError> {
        append(folder, "2");
        Ok(())
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
