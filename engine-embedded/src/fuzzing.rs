//! Entry points for the fuzz targets of the log and of the archive.
//!
//! Hashes protect what is read, so random bytes would never get past them. The entry points therefore set the hashes
//! first, as if the bytes had been written that way.

pub use crate::shipping::fuzzing::receive_records;

use crate::disk::layout;
use crate::disk::lineage::Lineage;
use crate::disk::storage::decode;
use crate::log::archive::{Archive, set_footer_hash};
use crate::log::disk::{Disk, DiskFile, ReadAt};
use crate::log::format::{GROUP_HEADER_BYTES, GroupHeader, SegmentEnd, SegmentHeader, take};
use crate::log::options::{Durability, Options};
use crate::log::recovery::inspect;
use crate::log::recovery::{Known, open};
use crate::log::segments::Name;
use crate::sequence::Sequence;
use crate::shipping::fuzzing::set_record_hashes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The number of bytes that are read at a time. Groups of a few kilobytes must exceed it.
const READ_BYTES: usize = 512;

/// Reads a log of one segment, recovers it, and reads it again. The first bytes are the fields of the segment's header,
/// and groups follow.
pub fn read_log(data: &[u8]) {
    let Some((header, segment)) = segment(data) else { return };
    let disk = MemoryDisk::default();
    disk.lock().insert(Name::Live(header.id).to_string(), MemoryFile::new(segment));
    drop(inspect(&disk, READ_BYTES, None, &mut |record| decode(record).map(drop)));
    let options = Options { read_bytes: READ_BYTES, ..Options::new(Durability::Sync) };
    for persisted in [Sequence::ZERO, header.first.previous()] {
        let known = Known { persisted, may_be_missing: false };
        let mut last = None;
        let opened = open(disk.clone(), options, known, &mut |record| {
            assert!(last.is_none_or(|last| last < record.header.sequence), "transactions are in order");
            last = Some(record.header.sequence);
            decode(record).map(drop)
        });
        let Ok((writer, recovered)) = opened else { continue };
        drop(writer);
        let known = Known { persisted: recovered.last, may_be_missing: false };
        let again = open(disk.clone(), options, known, &mut |record| decode(record).map(drop));
        let (_, again) = again.expect("a log that was recovered can be read");
        assert_eq!(again.last, recovered.last);
    }
}

/// Reads the operations of a transaction, and the entries of the engine among them.
pub fn read_payload(data: &[u8]) {
    let stamp = model::DateTime::from_ticks(1_000_000_000);
    for (key, value) in crate::disk::payload::items(data, stamp).unwrap_or_default() {
        drop(layout::decode_engine_entry(&key, &value.unwrap_or_default()));
    }
}

/// Opens an archive of one segment, and reads its blocks. The first bytes are the ID of the segment and the length of
/// the footer's fields, in units of 8 bytes; the fields follow, and then the stored blocks.
pub fn read_archive(data: &[u8]) {
    let rest = &mut &*data;
    let Some([id, blocks]) = take(rest) else { return };
    let Some((footer, stored)) = rest.split_at_checked(usize::from(blocks) * 8) else { return };
    let mut file = stored.to_vec();
    file.extend(set_footer_hash(u64::from(id), footer));
    let disk = MemoryDisk::default();
    disk.lock().insert(format!("{id:016}.lz4"), MemoryFile::new(file));
    let oldest = (u64::from(id) + 1, Sequence::new(u64::MAX));
    let archive = Archive::open(disk, Sequence::new(1), oldest).expect("a damaged segment is removed");
    for segment in archive.segments() {
        let _found = archive.find(segment.first, Some((oldest.0, segment.end)));
        let Ok(file) = archive.read(segment) else { continue };
        let _place = file.place(segment.first);
        // There are fewer blocks than these, so the last reads are behind the end.
        for block in 0..32 {
            drop(file.read_at(&mut [0; READ_BYTES], block * 256 * 1024));
        }
    }
}

/// Reads the file with the lineage of a folder. What is read is written as it was.
pub fn read_lineage(text: &str) {
    if let Some(lineage) = Lineage::decode(text) {
        assert_eq!(Lineage::decode(&lineage.encode()), Some(lineage));
    }
}

/// Returns a segment with correct hashes.
fn segment(data: &[u8]) -> Option<(SegmentHeader, Vec<u8>)> {
    let rest = &mut &*data;
    let mut numbers = [0; 7];
    for number in &mut numbers {
        *number = u64::from_be_bytes(take(rest)?);
    }
    let [id, salt, epoch, first, offset, digest, skipped] = numbers;
    let previous = SegmentEnd { offset, digest };
    let header = SegmentHeader { id, salt, epoch, first: Sequence::new(first), previous, skipped };
    let mut bytes = header.encode().to_vec();
    let mut groups = rest.to_vec();
    set_group_hashes(&mut groups, &header, bytes.len() as u64);
    bytes.extend(groups);
    Some((header, bytes))
}

fn set_group_hashes(mut groups: &mut [u8], segment: &SegmentHeader, mut offset: u64) {
    while let Some((header, _)) = groups.split_first_chunk_mut::<GROUP_HEADER_BYTES>() {
        let mut fields = header.get(4..).unwrap_or_default();
        let fields = &mut fields;
        let Some(bytes) = take(fields).map(u32::from_be_bytes) else { return };
        // The offset and the ID are always right.
        let _ignored = take::<16>(fields);
        let first = take(fields).map_or(0, u64::from_be_bytes);
        let count = take(fields).map_or(0, u32::from_be_bytes);
        let _reserved = take::<4>(fields);
        let synced_through = Sequence::new(take(fields).map_or(0, u64::from_be_bytes));
        let length = usize::try_from(bytes).unwrap_or(usize::MAX).clamp(GROUP_HEADER_BYTES, groups.len());
        let (group, after) = groups.split_at_mut(length);
        let Some((header, body)) = group.split_first_chunk_mut::<GROUP_HEADER_BYTES>() else { return };
        let records = set_record_hashes(body, count, segment.salt);
        let (segment_id, first) = (segment.id, Sequence::new(first));
        let fixed = GroupHeader { bytes, offset, segment: segment_id, first, count, synced_through, records };
        *header = fixed.encode(segment.salt);
        offset += length as u64;
        groups = after;
    }
}

/// A disk in memory that never fails.
#[derive(Debug, Clone, Default)]
struct MemoryDisk(Arc<Mutex<BTreeMap<String, MemoryFile>>>);

#[derive(Debug, Clone)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryFile>> {
        self.0.lock()
    }

    fn take(&self, name: &str) -> io::Result<MemoryFile> {
        self.lock().remove(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let file = MemoryFile::new(Vec::new());
        self.lock().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        self.lock().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn open_to_read(&self, name: &str) -> io::Result<MemoryFile> {
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.take(from)?;
        self.lock().insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.take(name).map(drop)
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }

    fn new_salt(&self) -> u64 {
        7
    }
}

impl MemoryFile {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock()
    }
}

impl ReadAt for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.lock();
        let part = content.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let count = part.len().min(bytes.len());
        bytes.split_at_mut(count).0.copy_from_slice(part.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }
}

impl DiskFile for MemoryFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.lock();
        let begin = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = begin + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content.get_mut(begin..end).unwrap_or_default().copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}
