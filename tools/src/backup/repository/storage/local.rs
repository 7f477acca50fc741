//! A repository in a folder.
//!
//! Invariants:
//!
//! 1. While it is open, its lock is held: shared with other processes, or exclusively to remove old backups.
//! 2. Only the owner can read the files.

use crate::backup::repository::chunk;
use crate::backup::repository::names::{chunk_folder, incomplete_name};
use crate::backup::repository::packed::{self, PackedHeader};
use crate::backup::repository::storage::{
    Area, DEVELOPMENT_MARKER, ListedFile, MARKER, MARKER_BYTES_MAX, MARKER_TEXT, Storage, check_marker,
    development_error,
};
use crate::file::wait_for_lock;
use anyhow::{Context, bail, ensure};
use platform::Access;
use platform::files::{exposure_warning, private_folder, sync_folder};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LOCK: &str = "rowhouse.lock";
const LOCK_TIMEOUT: Duration = Duration::from_mins(1);

/// The threads mostly wait for the disk.
const WRITERS: usize = 4;

#[derive(Debug)]
pub(super) struct LocalStorage {
    root: Folder,
    lock: File,
    /// Keeps the names of unfinished files distinct.
    unfinished: AtomicU64,
}

impl LocalStorage {
    /// A missing or empty folder becomes a repository.
    pub(super) fn create_or_open(path: &Path) -> anyhow::Result<Self> {
        let is_empty = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let was_begun = !path.join(MARKER).exists() && path.join(incomplete_name(MARKER)).exists();
        if is_empty || was_begun {
            create(path).with_context(|| format!("creating a repository in {}", path.display()))?;
        }
        Self::open_or_advise(path, "pass a missing or empty folder to start a new repository")
    }

    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        ensure!(path.exists(), "there is no backup repository at {}", path.display());
        Self::open_or_advise(path, "pass the folder that 'rowhouse backup --to' wrote")
    }

    fn open_or_advise(path: &Path, advice: &str) -> anyhow::Result<Self> {
        let root = Folder::open(path).ok();
        if root.as_ref().is_some_and(|root| root.read(DEVELOPMENT_MARKER, MARKER_BYTES_MAX).is_ok()) {
            return Err(development_error(path.display()));
        }
        let marker = root.and_then(|root| Some((root.read(MARKER, MARKER_BYTES_MAX).ok()?, root)));
        let (marker, root) = marker.with_context(|| {
            format!("{} is not a backup repository: it contains no readable file {MARKER}; {advice}", path.display())
        })?;
        check_marker(&marker, root.path_of(MARKER).display())?;
        // Some file systems lock only files that are open for writing. For a user without write access, the file is
        // opened for reading. A copy of a repository in object storage does not have the file.
        let lock = root.file(LOCK, Access::WriteOrCreate).or_else(|_| root.file(LOCK, Access::Read));
        let lock = lock.with_context(|| format!("opening the lock {}", root.path_of(LOCK).display()))?;
        wait_for_lock(LOCK_TIMEOUT, || lock.try_lock_shared()).with_context(|| {
            format!("another process is removing old backups from {}; try again later", path.display())
        })?;
        if let Some(warning) = exposure_warning(path) {
            tracing::warn!("{warning}");
        }
        for area in [Area::Chunks, Area::Manifests] {
            let folder = area.folder();
            root.folder(folder)?.with_context(|| format!("{} is missing", root.path_of(folder).display()))?;
        }
        Ok(Self { root, lock, unfinished: AtomicU64::new(0) })
    }

    /// Returns `None` if the folder does not exist.
    fn folder(&self, path: &str) -> anyhow::Result<Option<Folder>> {
        let mut folder = None;
        for name in path.split('/') {
            let Some(next) = folder.as_ref().unwrap_or(&self.root).folder(name)? else { return Ok(None) };
            folder = Some(next);
        }
        Ok(folder)
    }

    /// Also returns the name of the file in the folder.
    fn folder_of<'p>(&self, path: &'p str) -> anyhow::Result<Option<(Folder, &'p str)>> {
        let (folder, name) = path.rsplit_once('/').context("a file of a repository is in a folder")?;
        Ok(self.folder(folder)?.map(|folder| (folder, name)))
    }

    fn create_folder_of<'p>(&self, path: &'p str) -> anyhow::Result<(Folder, &'p str)> {
        let (folders, name) = path.rsplit_once('/').context("a file of a repository is in a folder")?;
        let mut folder = None;
        for name in folders.split('/') {
            folder = Some(folder.as_ref().unwrap_or(&self.root).open_or_create_folder(name)?);
        }
        Ok((folder.context("a file of a repository is in a folder")?, name))
    }
}

impl Storage for LocalStorage {
    fn path_of(&self, path: &str) -> String {
        self.root.path_of(path).display().to_string()
    }

    fn read(&self, path: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let Some((folder, name)) = self.folder_of(path)? else { return Ok(None) };
        match folder.read(name, bytes_max) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(Some(read?)),
        }
    }

    fn write(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        let (folder, name) = self.create_folder_of(path)?;
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let temporary = incomplete_name(&format!("{name}.{}-{number}", std::process::id()));
        Ok(folder.write(name, &temporary, &bytes)?)
    }

    fn sync(&self, folders: &[&str]) -> anyhow::Result<()> {
        for path in folders {
            if path.is_empty() {
                self.root.sync()?;
            } else if let Some(folder) = self.folder(path)? {
                folder.sync()?;
            }
        }
        Ok(())
    }

    fn list(&self, area: Area, sink: &mut dyn FnMut(ListedFile)) -> anyhow::Result<()> {
        let Some(folder) = self.root.folder(area.folder())? else { return Ok(()) };
        let mut list = |folder: &Folder, subfolder: &str| {
            for name in folder.names()? {
                sink(ListedFile { area, subfolder: subfolder.to_owned(), name, bytes: 0 });
            }
            anyhow::Ok(())
        };
        let Some(is_subfolder) = area.subfolders() else { return list(&folder, "") };
        for subfolder in folder.names()?.iter().filter(|name| is_subfolder(name)) {
            if let Some(folder) = folder.folder(subfolder)? {
                list(&folder, subfolder)?;
            }
        }
        Ok(())
    }

    fn remove(&self, files: &[ListedFile]) -> anyhow::Result<u64> {
        let mut removed = 0;
        for file in files {
            let path = file.path();
            let Some((folder, name)) = self.folder_of(&path)? else { continue };
            removed += match folder.remove(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                removed => removed.with_context(|| format!("removing {}", folder.path_of(name).display()))?,
            };
        }
        Ok(removed)
    }

    /// Does not read the content.
    fn chunk_bytes(&self, name: &str, content_bytes: u64) -> Option<u64> {
        let folder = self.folder(&format!("{}/{}", Area::Chunks.folder(), chunk_folder(name))).ok()??;
        let mut file = folder.file(name, Access::Read).ok()?;
        let mut beginning = [0; packed::HEADER_BYTES];
        file.read_exact(&mut beginning).ok()?;
        let header = PackedHeader::decode(chunk::MAGIC, &beginning)?;
        let length = file.metadata().ok()?.len();
        (header.content_bytes == content_bytes && header.file_bytes == length).then_some(length)
    }

    /// The shared lock is held already.
    fn begin_backup(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn begin_removal(&self) -> anyhow::Result<()> {
        // Both locks are on the same file, so the shared lock is released first. Another process that gets the lock in
        // between does no harm.
        self.lock.unlock().context("unlocking the repository")?;
        wait_for_lock(LOCK_TIMEOUT, || self.lock.try_lock()).with_context(|| {
            format!(
                "old backups were not removed, because another process is using {}; the next backup removes them",
                self.path_of("")
            )
        })
    }

    /// The system releases the lock only with the process.
    fn confirm(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn writers(&self) -> usize {
        WRITERS
    }

    fn readers(&self) -> usize {
        1
    }
}

/// The marker is written last.
fn create(path: &Path) -> anyhow::Result<()> {
    private_folder().recursive(true).create(path)?;
    let root = Folder::open(path)?;
    let unfinished = incomplete_name(MARKER);
    let mut marker = root.file(&unfinished, Access::WriteOrCreate)?;
    marker.set_len(0)?;
    marker.write_all(MARKER_TEXT.as_bytes())?;
    marker.sync_all()?;
    root.open_or_create_folder(Area::Chunks.folder())?;
    root.open_or_create_folder(Area::Manifests.folder())?;
    root.file(LOCK, Access::WriteOrCreate)?.sync_all()?;
    root.rename(&unfinished, MARKER)?;
    root.sync()?;
    match path.canonicalize()?.parent() {
        Some(parent) => Ok(sync_folder(parent)?),
        None => Ok(()),
    }
}

// The files of a repository, accessed by their names in open folders.
//
// Other users may write to a repository. Links that they create must not make a command read, replace or remove
// anything outside the repository. [`platform::folder`] enforces the first and the third of these invariants:
//
// 1. Below the folder given by the user, no symbolic link is followed.
// 2. Only regular files are read, and only up to a limit; only regular files are removed.
// 3. Data is written only to new files that have no other name.

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
