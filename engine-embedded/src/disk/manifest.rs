//! The list of sorted files in the folder of the tree, as far as the library does not check it itself.
//!
//! The library does not verify the checksum of the list, and deletes the sorted files that a damaged list does not
//! name. It also deletes them before the caller can compare the tree with the log, so the list is read here first.
//!
//! The library installs a manifest in two steps: it writes `v`*n* and then replaces `current`, which names it. If the
//! last syncs fail, the library continues with the preceding manifest, although `current` may name the new one, and the
//! next attempt overwrites `v`*n*. A crash during that attempt leaves a `current` whose manifest is overwritten. The
//! preceding manifest is then still valid: the library deletes nothing of it before an attempt succeeds, and the log
//! contains what it lacks.

use crate::disk::folder::replace_file;
use crate::disk::open_error::OpenError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::iter;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// The only kind of checksum in use: 128-bit XXH3.
const KIND_XXH3: &[u8; 1] = &[0];
/// The folder of the sorted files in the folder of the tree.
pub(crate) const TABLES: &str = "tables";
/// The file that names the manifest. The library would create a new tree if it were missing.
const CURRENT: &str = "current";
/// Replaces `current` when it is complete. The library ignores this name.
const NEW_CURRENT: &str = "current.new";
const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Manifest {
    number: u64,
    /// The 128-bit XXH3 of the manifest.
    checksum: u128,
    files: Vec<ListedFile>,
}

/// The damage of a manifest that is not needed.
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListedFile {
    id: u64,
    /// The 128-bit XXH3 of the file.
    checksum: u128,
}

impl Manifest {
    /// Reads the manifest of a tree and verifies its checksum. If it is damaged, returns the preceding one, and the
    /// damage. The caller makes sure that the log continues after the files of the preceding manifest, and calls
    /// [`Self::make_current`] before the library opens the tree.
    pub(crate) fn read_or_preceding(tree: &Path) -> Result<(Self, Option<Damage>), OpenError> {
        let named = named_in_current(tree)?;
        match Self::read_named(tree, named) {
            Err(OpenError::Damaged { path, what }) => match Self::read_preceding(tree, named.0) {
                Some(preceding) => Ok((preceding, Some(Damage { path, what }))),
                None => Err(OpenError::Damaged { path, what }),
            },
            read => read.map(|manifest| (manifest, None)),
        }
    }

    fn read_named(tree: &Path, (number, checksum): (u64, u128)) -> Result<Self, OpenError> {
        let (current, path) = (tree.join(CURRENT), manifest_path(tree, number));
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let what = format!("it names {}, which is missing; one of the two files is damaged", path.display());
                OpenError::damaged(&current, what)
            }
            _ => OpenError::io("read", &path, error),
        })?;
        if xxh3_128(&bytes) != checksum {
            let what = format!("its checksum is not the one in {}; one of the two files is damaged", current.display());
            return Err(OpenError::damaged(&path, what));
        }
        let files =
            decode_files(&bytes).ok_or_else(|| OpenError::damaged(&path, "it contains no list of sorted files"))?;
        Ok(Self { number, checksum, files })
    }

    /// Reads the manifest before number `after`, if it and all its sorted files are intact. Because nothing contains
    /// the checksum of this manifest any more, the checksums of all its sorted files are compared.
    fn read_preceding(tree: &Path, after: u64) -> Option<Self> {
        let number = after.checked_sub(1)?;
        let bytes = fs::read(manifest_path(tree, number)).ok()?;
        let files = decode_files(&bytes)?;
        let is_intact = |file: &ListedFile| {
            checksum(&tree.join(TABLES).join(file.id.to_string())).is_ok_and(|(found, _)| found == file.checksum)
        };
        files.iter().all(is_intact).then(|| Self { number, checksum: xxh3_128(&bytes), files })
    }

    /// Makes this manifest the one that the library opens.
    pub(crate) fn make_current(&self, tree: &Path) -> Result<(), OpenError> {
        let bytes = [&self.number.to_le_bytes()[..], &self.checksum.to_le_bytes(), KIND_XXH3].concat();
        replace_file(tree, CURRENT, NEW_CURRENT, &bytes)
            .map_err(|error| OpenError::io("replace", &tree.join(CURRENT), error))
    }

    /// Names the first sorted file without its checksum, if the tree as a whole was found to be damaged.
    pub(crate) fn locate(&self, tree: &Path, error: OpenError) -> OpenError {
        if !matches!(&error, OpenError::Damaged { path, .. } if path == tree) {
            return error;
        }
        let paths = self.files.iter().map(|file| (file, tree.join(TABLES).join(file.id.to_string())));
        let mut damaged = paths.filter(|(file, path)| checksum(path).is_ok_and(|(found, _)| found != file.checksum));
        damaged.next().map_or(error, |(_, path)| OpenError::damaged(&path, "its checksum does not match the manifest"))
    }

    /// Returns whether the manifest lists the sorted file `id` with the given checksum.
    pub(crate) fn names(&self, id: u64, checksum: u128) -> bool {
        self.files.contains(&ListedFile { id, checksum })
    }

    /// Returns the paths of the sorted files, all of which exist.
    pub(crate) fn paths(&self, tree: &Path) -> Result<Vec<PathBuf>, OpenError> {
        let tables = tree.join(TABLES);
        let paths: Vec<_> = self.files.iter().map(|file| tables.join(file.id.to_string())).collect();
        // The library would create a missing folder.
        for path in iter::once(&tables).chain(&paths) {
            if !path.try_exists().map_err(|error| OpenError::io("look for", path, error))? {
                return Err(OpenError::damaged(path, "it is missing"));
            }
        }
        Ok(paths)
    }
}

/// Decodes the section `tables` of a manifest, which is an archive of sections. Its numbers are little-endian: the
/// number of levels (1), for each level the number of runs (1), for each run the number of files (4), and for each file
/// its number (8), the kind of checksum (1), its checksum (16), and a number that is not used here (8).
fn decode_files(manifest: &[u8]) -> Option<Vec<ListedFile>> {
    let mut rest = section(manifest, b"tables")?;
    let rest = &mut rest;
    let mut files = Vec::new();
    let [levels] = take(rest)?;
    for _ in 0..levels {
        let [runs] = take(rest)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(take(rest)?) {
                let id = u64::from_le_bytes(take(rest)?);
                if take(rest)? != *KIND_XXH3 {
                    return None;
                }
                let checksum = u128::from_le_bytes(take(rest)?);
                take::<8>(rest)?;
                files.push(ListedFile { id, checksum });
            }
        }
    }
    rest.is_empty().then_some(files)
}

/// Returns the contents of a section. The table of contents is at the end of the archive. Its entry for a section
/// consists of the section's position (8), length (8), and the length of the name (2), all little-endian, and the name.
fn section<'m>(manifest: &'m [u8], name: &[u8]) -> Option<&'m [u8]> {
    const NUMBERS_BYTES: usize = 16;
    let named = [&u16::try_from(name.len()).ok()?.to_le_bytes()[..], name].concat();
    let at = manifest.windows(named.len()).rposition(|bytes| bytes == named)?.checked_sub(NUMBERS_BYTES)?;
    let mut entry = manifest.get(at..)?;
    let position = usize::try_from(u64::from_le_bytes(take(&mut entry)?)).ok()?;
    let length = usize::try_from(u64::from_le_bytes(take(&mut entry)?)).ok()?;
    manifest.get(position..)?.get(..length)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*field)
}

fn manifest_path(tree: &Path, number: u64) -> PathBuf {
    tree.join(format!("v{number}"))
}

/// Returns the number of the manifest that `current` names, and its checksum.
fn named_in_current(tree: &Path) -> Result<(u64, u128), OpenError> {
    let current = tree.join(CURRENT);
    decode_current(&read(&current)?)
        .ok_or_else(|| OpenError::damaged(&current, "it does not name a manifest and its checksum"))
}

/// Returns the number of the manifest and its checksum. The file `current` contains the number (8 bytes,
/// little-endian), the checksum (16, little-endian), and the kind of checksum.
fn decode_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    (kind == KIND_XXH3.as_slice()).then_some((u64::from_le_bytes(*number), u128::from_le_bytes(*checksum)))
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::damaged(path, "it is missing"),
        _ => OpenError::io("read", path, error),
    })
}

/// Returns the checksum of a file, and its length in bytes.
pub(crate) fn checksum(path: &Path) -> io::Result<(u128, u64)> {
    let (mut file, mut hash, mut length) = (File::open(path)?, Xxh3Default::new(), 0);
    let mut block = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok((hash.digest128(), length));
        }
        hash.update(block.get(..read).unwrap_or_default());
        length += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequence;
    use crate::tree::{Tree, TreeSettings};

    #[test]
    fn the_listed_files_are_those_of_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let tree = Tree::create(path, TreeSettings { cache_bytes: 0 }).unwrap();
        let (mut sequence, mut paths) = (Sequence::ZERO, Vec::new());
        for files in 0..4 {
            let (manifest, _) = Manifest::read_or_preceding(path).unwrap();
            paths = manifest.paths(path).unwrap();
            paths.sort();
            let mut expected: Vec<_> =
                tree.sorted_files().into_iter().map(|name| path.join(TABLES).join(name)).collect();
            expected.sort();
            assert_eq!((paths.len(), &paths), (files, &expected));
            let persisted = paths.iter().map(|path| Tree::persisted_in(path).unwrap()).max();
            assert_eq!(persisted.unwrap_or_default(), tree.persisted());
            for file in &paths {
                let id = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
                let (checksum, _) = checksum(file).unwrap();
                assert!(manifest.names(id, checksum) && !manifest.names(id, !checksum));
            }
            sequence = sequence.next().next();
            tree.apply(sequence, [(b"key".as_slice().into(), Some(b"value".as_slice().into()))]);
            tree.publish(sequence);
            tree.rotate();
            tree.flush().unwrap();
        }
        let (manifest, _) = Manifest::read_or_preceding(path).unwrap();
        for missing in [&paths[0], &path.join(TABLES)] {
            let away = path.join("away");
            fs::rename(missing, &away).unwrap();
            let error = manifest.paths(path).unwrap_err();
            assert!(matches!(&error, OpenError::Damaged { path, .. } if path == missing), "{error}");
            fs::rename(&away, missing).unwrap();
        }
    }

    #[test]
    fn any_bytes_can_be_decoded() {
        let entry = [&0_u64.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &[6, 0], b"tables"].concat();
        for length in 0..=entry.len() {
            assert_eq!(decode_files(&entry[..length]), None);
            assert_eq!(decode_files(&entry[length..]), None);
        }
    }
}
