//! The files of a repository, reached by their names in open folders.
//!
//! Others may write to a repository, and their links must not make a command read, replace or remove anything else.
//! Invariants:
//!
//! 1. Below the folder that the user names, no symbolic link is followed.
//! 2. Only regular files are read, and only up to a bound; only regular files are removed.
//! 3. A file that is written is new and has no other name.

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Opening something else than a file must not wait, for example for the writer of a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    handle: File,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder that a user has named.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let handle = openat(CWD, path, FOLDER, Mode::empty()).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { handle: handle.into(), path: path.to_owned() })
    }

    /// Where a file of this name is, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a folder in this one; `None` if there is none.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<Option<Self>> {
        let path = self.path_of(name);
        match openat(&self.handle, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Some(Self { handle: handle.into(), path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                bail!("{} is not a folder; find out where it comes from, and remove it", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("opening {}", path.display())),
        }
    }

    /// Opens a folder in this one, and creates it if there is none.
    pub(super) fn folder_or_new(&self, name: &str) -> anyhow::Result<Self> {
        if let Some(folder) = self.folder(name)? {
            return Ok(folder);
        }
        let path = self.path_of(name);
        match mkdirat(&self.handle, name, FOLDER_MODE) {
            Err(error) if error != Errno::EXIST => {
                return Err(error).with_context(|| format!("creating {}", path.display()));
            }
            _ => {}
        }
        self.folder(name)?.with_context(|| format!("{} was removed just now", path.display()))
    }

    /// The names of everything in the folder. Names that are not UTF-8 are left out: no file of a repository has one.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        let read = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.handle)? {
                if let Ok(name) = entry?.file_name().to_str()
                    && name != "."
                    && name != ".."
                {
                    names.push(name.to_owned());
                }
            }
            Ok(names)
        };
        read().with_context(|| format!("reading {}", self.path.display()))
    }

    /// Opens a regular file; with `OFlags::CREATE`, a missing one is created.
    pub(super) fn file(&self, name: &str, access: OFlags) -> io::Result<File> {
        let opened = openat(&self.handle, name, access | FILE, FILE_MODE);
        let file = File::from(opened.map_err(|error| if error == Errno::LOOP { not_regular() } else { error.into() })?);
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            Ok(file)
        } else {
            Err(not_regular())
        }
    }

    /// Reads a regular file of at most so many bytes.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let too_large =
            || io::Error::other(format!("it has more than the {bytes_max} bytes that such a file can have"));
        let file = self.file(name, OFlags::RDONLY)?;
        let length = file.metadata()?.len();
        if length > bytes_max {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
    }

    /// Writes a new file under a temporary name, syncs it, and renames it.
    pub(super) fn write(&self, name: &str, temporary: &str, bytes: &[u8]) -> io::Result<()> {
        let create =
            || openat(&self.handle, temporary, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | FILE, FILE_MODE);
        let mut file = File::from(match create() {
            // A process with the same number has left it.
            Err(Errno::EXIST) => {
                self.remove(temporary)?;
                create()?
            }
            created => created?,
        });
        file.write_all(bytes)?;
        file.sync_all()?;
        self.rename(temporary, name)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    /// Removes a regular file; returns its length.
    pub(super) fn remove(&self, name: &str) -> io::Result<u64> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(not_regular());
        }
        unlinkat(&self.handle, name, AtFlags::empty())?;
        Ok(u64::try_from(found.st_size).unwrap_or_default())
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file; find out where it comes from, and remove it")
}

#[cfg(test)]
mod tests {
    use super::*;
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
        rustix::fs::mkfifoat(CWD, root.join("pipe"), FILE_MODE).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        let folder = Folder::open(&root).unwrap();
        for result in [folder.folder("folder"), folder.folder_or_new("folder").map(Some), folder.folder("file")] {
            assert!(result.unwrap_err().to_string().contains("is not a folder"));
        }
        for name in ["file", "zero", "pipe", "real"] {
            let errors = [folder.read(name, 100).map(drop), folder.remove(name).map(drop)];
            for error in errors.map(|result| result.unwrap_err().to_string()) {
                assert!(error.contains("not a regular file"), "{name}: {error}");
            }
        }
        // A file that is written takes the place of the link.
        symlink(outside.join("file"), root.join("new")).unwrap();
        assert!(folder.write("file", "new", b"ours").is_err(), "the temporary name is taken by something else");
        folder.write("file", "other", b"ours").unwrap();
        assert_eq!(
            (fs::read(root.join("file")).unwrap(), fs::read(outside.join("file")).unwrap()),
            (b"ours".into(), b"foreign".into())
        );
        assert_eq!(folder.read("file", 4).unwrap(), b"ours");
        assert!(folder.read("file", 3).unwrap_err().to_string().contains("more than the 3 bytes"));
        // One that grows without end shows no length.
        assert!(Folder::open(Path::new("/proc/self")).unwrap().read("status", 10).is_err());
        assert_eq!(folder.remove("file").unwrap(), 4);
    }
}
