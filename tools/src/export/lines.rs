//! The files into which the lines of a table are written.
//!
//! Lines are in JSON Lines format, whatever the format of the export. The part that comes next in key order is appended
//! to the file of the table. Parts that are read in the meantime have their own files, which are appended and removed
//! when their turn comes. They are not synced: if they are removed soon, they never reach the disk.

use crate::digest::Sha256Writer;
use crate::export::state::TablePart;
use crate::file::{remove_file, with_suffix};
use crate::formats::{Columns, Framing, Lines, read_line, too_many_columns};
use anyhow::{Context, anyhow, ensure};
use client::PropertyBag;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use xxhash_rust::xxh3::Xxh3;

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct TableFile {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// The lines of all parts up to one of them.
pub(super) struct TableLines {
    path: PathBuf,
    out: Sha256Writer<File>,
    /// The files of parts whose lines are in this file, but not yet in the state file.
    appended: Vec<PathBuf>,
    pub(super) saved: Instant,
}

impl TableLines {
    /// Truncates data that was written after the state was last recorded.
    pub(super) fn resume(path: PathBuf, bytes: u64) -> anyhow::Result<Self> {
        let (file, length) = open(&path)?;
        ensure!(
            length >= bytes,
            "{} is shorter than recorded in the state file: delete the state file to start over",
            path.display()
        );
        let cut = if length > bytes { file.set_len(bytes) } else { Ok(()) };
        // The clone has the same position, so it writes after what was read.
        let out = cut.and_then(|()| Sha256Writer::after(file.try_clone()?, file.take(bytes)));
        let out = out.with_context(|| what(&path))?;
        Ok(Self { path, out, appended: Vec::new(), saved: Instant::now() })
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        self.out.write_all(lines).with_context(|| what(&self.path))
    }

    /// Appends the lines that a part has so far. Its own file is removed once this is recorded.
    pub(super) fn with_part(mut self, part: PartFile) -> anyhow::Result<Self> {
        let PartFile { path, mut file, hash, bytes } = part;
        file.rewind().with_context(|| what(&path))?;
        let copied = copy(file.take(bytes), &mut self.out).with_context(|| what(&self.path))?;
        ensure!(copied.digest() == hash.digest(), "{} was changed or damaged during the export", path.display());
        self.appended.push(path);
        Ok(self)
    }

    /// Makes everything durable, records it, and removes the files of parts that are no longer needed.
    pub(super) fn save(&mut self, record: impl FnOnce(u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.out.inner().sync_data().with_context(|| what(&self.path))?;
        record(self.out.bytes())?;
        self.saved = Instant::now();
        self.appended.drain(..).try_for_each(|path| remove_file(&path))
    }

    pub(super) fn finish(self) -> TableFile {
        let (_, bytes, sha256) = self.out.finish();
        TableFile { bytes, sha256 }
    }
}

/// The lines of a part whose turn has not come.
pub(super) struct PartFile {
    path: PathBuf,
    file: File,
    hash: Xxh3,
    bytes: u64,
}

impl PartFile {
    /// Truncates data that was written after the state was last recorded. If the file lacks something that was
    /// recorded, as after a power failure, the part begins again.
    pub(super) fn resume(path: PathBuf, part: &mut TablePart) -> anyhow::Result<Self> {
        let (mut file, length) = open(&path)?;
        let mut hash = copy((&file).take(part.bytes), &mut io::sink()).with_context(|| what(&path))?;
        if part.bytes > 0 && hash.digest() != part.hash {
            *part = TablePart::new(part.range.clone());
            hash = Xxh3::new();
            file.rewind().with_context(|| what(&path))?;
        }
        if length > part.bytes {
            file.set_len(part.bytes).with_context(|| what(&path))?;
        }
        Ok(Self { path, file, hash, bytes: part.bytes })
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(lines).with_context(|| what(&self.path))?;
        self.hash.update(lines);
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Notes the length and the hash of the file in the part.
    pub(super) fn describe(&self, part: &mut TablePart) {
        part.bytes = self.bytes;
        part.hash = self.hash.digest();
    }
}

fn what(path: &Path) -> String {
    format!("writing {}", path.display())
}

/// Returns the file, which is created if it is missing, and its length.
fn open(path: &Path) -> anyhow::Result<(File, u64)> {
    let open = || {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        io::Result::Ok((file, length))
    };
    open().with_context(|| what(path))
}

/// Returns the hash of everything that was copied.
fn copy(mut from: impl Read, to: &mut impl Write) -> io::Result<Xxh3> {
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else { return Ok(hash) };
        hash.update(read);
        to.write_all(read)?;
    }
}

/// Writes lines as CSV into a new file. The columns are known before the first record is written, and at most one line
/// is in memory.
pub(super) fn convert_to_csv(lines: &Path, csv: &Path, with_timestamps: bool) -> anyhow::Result<TableFile> {
    let mut columns = Columns::default();
    each_entity(lines, |entity| {
        ensure!(columns.add(entity.properties.as_record_builder()), too_many_columns());
        Ok(())
    })?;
    let out = File::create(csv).with_context(|| what(csv))?;
    let mut out = Sha256Writer::new(BufWriter::with_capacity(BUFFER_BYTES, out));
    let mut buffer = Vec::new();
    columns.write_header(&mut buffer, with_timestamps);
    each_entity(lines, |entity| {
        columns.write_entity(&mut buffer, entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
        out.write_all(&buffer).with_context(|| what(csv))?;
        buffer.clear();
        Ok(())
    })?;
    out.write_all(&buffer).with_context(|| what(csv))?;
    let (out, bytes, sha256) = out.finish();
    let written = out.into_inner().map_err(io::IntoInnerError::into_error);
    written.and_then(|file| file.sync_data()).with_context(|| what(csv))?;
    Ok(TableFile { bytes, sha256 })
}

fn each_entity(path: &Path, mut take: impl FnMut(&PropertyBag) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER_BYTES, file), Framing::Lines, 0, 0);
    while let Some(line) = lines.next()? {
        let entity = read_line(line.bytes)
            .map_err(|error| anyhow!("{} line {}: {}", path.display(), line.number, error.reason))?;
        take(&entity)?;
    }
    Ok(())
}

/// The complete file of a table, before it gets its name.
pub(super) fn new_path(file: &Path) -> PathBuf {
    with_suffix(file, ".new")
}

/// The lines of a table that is exported as CSV.
pub(super) fn csv_lines_path(file: &Path) -> PathBuf {
    with_suffix(file, ".lines")
}

pub(super) fn part_path(file: &Path, number: usize) -> PathBuf {
    with_suffix(file, &format!(".part{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::EntityRange;

    fn part(file: &PartFile) -> TablePart {
        let mut part = TablePart::new(EntityRange { from: Some("k".to_owned()), ..EntityRange::default() });
        part.advance(1, None);
        file.describe(&mut part);
        part
    }

    #[test]
    fn parts_are_appended_and_removed_once_that_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, own) = (folder.path().join("t.new"), folder.path().join("t.part1"));
        let mut table = TableLines::resume(lines.clone(), 0).unwrap();
        table.append(b"a\n").unwrap();
        let mut second = PartFile::resume(own.clone(), &mut TablePart::default()).unwrap();
        second.append(b"b\n").unwrap();
        let mut table = table.with_part(second).unwrap();
        assert!(own.exists(), "a crash would lose it");
        let mut recorded = 0;
        table
            .save(|bytes| {
                recorded = bytes;
                Ok(())
            })
            .unwrap();
        assert_eq!(recorded, 4);
        assert!(!own.exists());
        table.append(b"half a li").unwrap();
        // Another run continues at the recorded length.
        let mut table = TableLines::resume(lines.clone(), 4).unwrap();
        table.append(b"c\n").unwrap();
        let TableFile { bytes, sha256 } = table.finish();
        assert_eq!((bytes, sha256), (6, crate::digest::sha256(b"a\nb\nc\n")));
        assert_eq!(std::fs::read(&lines).unwrap(), b"a\nb\nc\n");
        assert!(TableLines::resume(lines, 7).err().unwrap().to_string().contains("shorter than recorded"));
    }

    #[test]
    fn a_damaged_part_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.part1");
        let mut file = PartFile::resume(path.clone(), &mut TablePart::default()).unwrap();
        file.append(b"a\nb\n").unwrap();
        let recorded = part(&file);
        file.append(b"c").unwrap();
        let mut kept = recorded.clone();
        PartFile::resume(path.clone(), &mut kept).unwrap().append(b"d\n").unwrap();
        assert_eq!((kept, std::fs::read(&path).unwrap()), (recorded.clone(), b"a\nb\nd\n".to_vec()));
        // What a power failure leaves: too little, zeros, or nothing.
        for left in [Some(&b"a\n"[..]), Some(&[0; 4]), None] {
            match left {
                Some(left) => std::fs::write(&path, left).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let mut again = recorded.clone();
            PartFile::resume(path.clone(), &mut again).unwrap().append(b"d\n").unwrap();
            assert_eq!(again, TablePart::new(recorded.range.clone()), "{left:?}");
            assert_eq!(std::fs::read(&path).unwrap(), b"d\n");
        }
    }

    #[test]
    fn a_part_that_changes_under_the_export_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.part1");
        let mut file = PartFile::resume(path.clone(), &mut TablePart::default()).unwrap();
        file.append(b"a\n").unwrap();
        std::fs::write(&path, b"x\n").unwrap();
        let table = TableLines::resume(folder.path().join("t.new"), 0).unwrap();
        assert!(table.with_part(file).err().unwrap().to_string().contains("was changed or damaged"));
    }
}
