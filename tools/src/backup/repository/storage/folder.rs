//! The files of a repository, accessed by their names in open folders.
//!
//! Other users may write to a repository. Links that they create must not make a command read, replace or remove
//! anything outside the repository. [`platform::folder`] enforces the first and the third of these invariants:
//!
//! 1. Below the folder given by the user, no symbolic link is followed.
//! 2. Only regular files are read, and only up to a limit; only regular files are removed.
//! 3. Data is written only to new files that have no other name.

use anyhow::{Context, bail};
use platform::Access;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Folder {
    folder: platform::folder::Folder,
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let folder = platform::folder::Folder::open(path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Returns a path for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns `None` if the subfolder does not exist.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<Option<Self>> {
        let path = self.path_of(name);
        match self.folder.folder(name) {
            Ok(folder) => Ok(folder.map(|folder| Self { folder, path })),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                bail!("{} is not a folder; check where it comes from, then remove it", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("opening {}", path.display())),
        }
    }

    pub(super) fn open_or_create_folder(&self, name: &str) -> anyhow::Result<Self> {
        if let Some(folder) = self.folder(name)? {
            return Ok(folder);
        }
        let path = self.path_of(name);
        match self.folder.create_folder(name) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("creating {}", path.display()));
            }
            _ => {}
        }
        self.folder(name)?.with_context(|| format!("{} has just been removed by another process", path.display()))
    }

    /// Skips names that are not UTF-8, because no file of a repository has such a name.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        self.folder.names().with_context(|| format!("reading {}", self.path.display()))
    }

    pub(super) fn file(&self, name: &str, access: Access) -> io::Result<File> {
        self.folder.file(name, access)
    }

    /// Refuses anything but a regular file of at most `bytes_max` bytes.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let too_large =
            || io::Error::other(format!("it is larger than {bytes_max} bytes, the maximum for such a file"));
        let file = self.file(name, Access::Read)?;
        let length = file.metadata()?.len();
        if length > bytes_max {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
    }

    /// Writes a new file under a temporary name, syncs it, and then renames it.
    pub(super) fn write(&self, name: &str, temporary: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = match self.folder.create_file(temporary) {
            // An earlier process with the same process ID left it behind.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.remove(temporary)?;
                self.folder.create_file(temporary)?
            }
            created => created?,
        };
        file.write_all(bytes)?;
        file.sync_all()?;
        self.rename(temporary, name)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    /// Removes only regular files. Returns the length of the file.
    pub(super) fn remove(&self, name: &str) -> io::Result<u64> {
        self.folder.remove(name)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.folder.sync()
    }
}

#[allow(clippy::mixed_attributes_style, reason = "code checks find tests by their first line")]
#[cfg(test)]
mod tests {
    #![cfg(unix)]

    use super::*;
    use rustix::fs::{CWD, Mode};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_reached_through_links_and_nothing_but_files_is_read_or_removed() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), b"foreign").unwrap();
        symlink(&outside, root.join("folder")).unwrap();
        symlink(outside.join("file"), root.join("file")).unwrap();
        symlink("/dev/zero", root.join("zero")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("pipe"), Mode::RWXU).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        let folder = Folder::open(&root).unwrap();
        for result in [folder.folder("folder"), folder.open_or_create_folder("folder").map(Some), folder.folder("file")]
        {
            assert!(result.unwrap_err().to_string().contains("is not a folder"));
        }
        for name in ["file", "zero", "pipe", "real"] {
            let errors = [folder.read(name, 100).map(drop), folder.remove(name).map(drop)];
            for error in errors.map(|result| result.unwrap_err().to_string()) {
                assert!(error.contains("not a regular file"), "{name}: {error}");
            }
        }
        // Writing the file replaces the link.
        symlink(outside.join("file"), root.join("new")).unwrap();
        assert!(folder.write("file", "new", b"ours").is_err(), "something else uses the temporary name");
        folder.write("file", "other", b"ours").unwrap();
        assert_eq!(
            (fs::read(root.join("file")).unwrap(), fs::read(outside.join("file")).unwrap()),
            (b"ours".into(), b"foreign".into())
        );
        assert_eq!(folder.read("file", 4).unwrap(), b"ours");
        assert!(folder.read("file", 3).unwrap_err().to_string().contains("larger than 3 bytes"));
        // An endless file reports no length.
        assert!(Folder::open(Path::new("/proc/self")).unwrap().read("status", 10).is_err());
        assert_eq!(folder.remove("file").unwrap(), 4);
    }
}
