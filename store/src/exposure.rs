//! Whether other users of the machine may open what should belong to one user alone.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const OF_GROUP: u32 = 0o070;
const OF_OTHERS: u32 = 0o007;

/// A warning if the group or others have any permission for a file or a folder with secrets or data, and the command that
/// takes it away.
///
/// What belongs to another user, such as a secret that is mounted into a container, is readable through the group alone, so the
/// group may have permissions there.
pub fn exposure(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let mode = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => "600",
        (_, true) => "700",
        // A pipe or a device is not kept.
        _ => return None,
    };
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let not_private = if is_own { OF_GROUP | OF_OTHERS } else { OF_OTHERS };
    let path = path.display();
    (metadata.permissions().mode() & not_private != 0).then(|| {
        format!("other users of this machine may open {path}, which should be private; run: chmod {mode} {path}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn what_the_group_or_others_may_open_is_named_with_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        for (path, private, command) in [(file.as_path(), 0o600, "chmod 600 "), (folder.path(), 0o700, "chmod 700 ")] {
            for bit in [0o040, 0o020, 0o010, 0o004, 0o002, 0o001] {
                fs::set_permissions(path, Permissions::from_mode(private | bit)).unwrap();
                let warning = exposure(path).unwrap();
                assert!(warning.ends_with(&format!("{command}{}", path.display())), "{warning}");
            }
            fs::set_permissions(path, Permissions::from_mode(private)).unwrap();
            assert_eq!(exposure(path), None);
        }
        assert_eq!(exposure(Path::new("/dev/null")), None);
        assert_eq!(exposure(&folder.path().join("missing")), None);
    }
}
