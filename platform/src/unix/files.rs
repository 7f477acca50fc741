//! File permissions, durability, links and identity.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const OF_GROUP: u32 = 0o070;
const OF_OTHERS: u32 = 0o007;

/// Returns options that create files accessible only to their owner.
pub fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Returns a builder that creates folders accessible only to their owner.
pub fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Returns the path of the executable with the given name in a folder where a script package manager installs its
/// programs.
pub fn script(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    let metadata = path.metadata().ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(path)
}

/// Returns a warning if other users have permissions for a file or folder with secrets or data. The warning includes
/// the command that revokes these permissions.
///
/// Files of another user, such as a secret mounted into a container, are readable only through the group, so group
/// permissions are allowed there.
pub fn exposure_warning(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let mode = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => "600",
        (_, true) => "700",
        // Pipes and devices do not store their contents.
        _ => return None,
    };
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let not_private = if is_own { OF_GROUP | OF_OTHERS } else { OF_OTHERS };
    let path = path.display();
    (metadata.permissions().mode() & not_private != 0).then(|| {
        format!("other users of this machine can open {path}, which should be private; run: chmod {mode} {path}")
    })
}

/// Gives a new file the owner and the permissions of the file that it will replace.
pub fn copy_access(from: &Path, to: &File) -> io::Result<()> {
    let from = std::fs::metadata(from)?;
    let new = to.metadata()?;
    if (from.uid(), from.gid()) != (new.uid(), new.gid()) {
        std::os::unix::fs::fchown(to, Some(from.uid()), Some(from.gid()))?;
    }
    to.set_permissions(from.permissions())
}

/// Allows other users to read a file that belongs to this user.
pub fn make_readable(file: &File) -> io::Result<()> {
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Reads at an offset in bytes. Returns fewer bytes than requested only at the end of the file.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all bytes at an offset in bytes.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Renames a file or folder. Replaces a file with the new name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Deletes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Makes the directory entries of a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Asks the system to begin writing a part of a file to the disk, without waiting and without a guarantee. The error of
/// such a write is left to the next sync. The system may drop the part from its cache. Does nothing except on Linux.
pub fn begin_writing(file: &File, offset: u64, length: u64) {
    #[cfg(target_os = "linux")]
    {
        // For data that is not on disk yet, this advice begins to write it.
        let advice = rustix::fs::Advice::DontNeed;
        let _unsupported = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(length), advice);
    }
    #[cfg(not(target_os = "linux"))]
    let _nothing = (file, offset, length);
}

/// Makes a read-only file available at another path through a symbolic link.
pub fn link_to_read(file: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(file, link)
}

/// The identity of the file at a path, equal for all names of the same file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    number: u64,
}

impl FileIdentity {
    /// Identifies the file at a path, following links.
    pub fn from_path(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), number: metadata.ino() })
    }
}

/// Returns true if a file could not be opened because this process, or the whole system, has too many open files.
pub fn is_too_many_open_files(error: &io::Error) -> bool {
    /// ENFILE and EMFILE.
    const NUMBERS: [i32; 2] = [23, 24];
    error.raw_os_error().is_some_and(|number| NUMBERS.contains(&number))
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
                let warning = exposure_warning(path).unwrap();
                assert!(warning.ends_with(&format!("{command}{}", path.display())), "{warning}");
            }
            fs::set_permissions(path, Permissions::from_mode(private)).unwrap();
            assert_eq!(exposure_warning(path), None);
        }
        assert_eq!(exposure_warning(Path::new("/dev/null")), None);
        assert_eq!(exposure_warning(&folder.path().join("missing")), None);
    }
}
