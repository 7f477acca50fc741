//! Finds groups in the segments of a log, and forges them. Reads the bytes as `docs/embedded-engine.md` describes them,
//! independently of the engine.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) const SEGMENT_HEADER_BYTES: usize = 4096;
const SEGMENT_CHECKSUM: Range<usize> = 72..80;
const GROUP_MAGIC: &[u8] = b"RGrp";
const GROUP_HEADER_BYTES: usize = 64;
const GROUP_FIELDS: Range<usize> = 0..56;
const GROUP_HASH: Range<usize> = 56..64;
const RECORD_HEADER_BYTES: usize = 32;
const ALIGNMENT: usize = 64;

/// The fields of headers.
pub(crate) const GROUP_FIRST: Range<usize> = 24..32;
const SEGMENT_SALT: Range<usize> = 24..32;
const GROUP_SYNCED_THROUGH: Range<usize> = 40..48;

/// The place of a group in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) start: usize,
    /// The end of the last record. Padding follows.
    pub(crate) end_of_records: usize,
    pub(crate) end: usize,
    /// The number of its first transaction.
    pub(crate) first: u64,
    pub(crate) synced_through: u64,
}

pub(crate) fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

pub(crate) fn segment(folder: &Path, id: u64) -> PathBuf {
    log(folder).join(format!("{id:016}.log"))
}

/// Returns the live segments, from the oldest to the last one.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(log(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut live: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
    live.sort();
    live
}

/// Returns the groups of a segment.
pub(crate) fn groups(segment: &[u8]) -> Vec<Group> {
    let salt = number(segment, &SEGMENT_SALT);
    let mut groups = Vec::new();
    let mut start = SEGMENT_HEADER_BYTES;
    while let Some(header) = segment.get(start..start + GROUP_HEADER_BYTES)
        && header.starts_with(GROUP_MAGIC)
        && xxh3_64_with_seed(&header[GROUP_FIELDS], salt) == number(header, &GROUP_HASH)
    {
        let short = |range: Range<usize>| u32::from_be_bytes(header[range].try_into().unwrap()) as usize;
        let (length, count) = (short(4..8), short(32..36));
        let mut end_of_records = start + GROUP_HEADER_BYTES;
        for _ in 0..count {
            let payload = u32::from_be_bytes(segment[end_of_records..end_of_records + 4].try_into().unwrap());
            end_of_records += RECORD_HEADER_BYTES + payload as usize;
        }
        groups.push(Group {
            start,
            end_of_records,
            end: start + length,
            first: number(header, &GROUP_FIRST),
            synced_through: number(header, &GROUP_SYNCED_THROUGH),
        });
        start += length;
    }
    groups
}

/// Returns whether a byte of a segment carries information: whether it is in a header or a record, and not in padding.
pub(crate) fn is_covered(segment: &[u8], at: usize) -> bool {
    at < SEGMENT_CHECKSUM.end || groups(segment).iter().any(|group| (group.start..group.end_of_records).contains(&at))
}

pub(crate) fn number(bytes: &[u8], field: &Range<usize>) -> u64 {
    u64::from_be_bytes(bytes[field.clone()].try_into().unwrap())
}

/// Changes a number in the header of a group, and its hash.
pub(crate) fn forge_group_header(segment: &mut [u8], group: &Group, field: &Range<usize>, value: u64) {
    let salt = number(segment, &SEGMENT_SALT);
    let header = &mut segment[group.start..group.start + GROUP_HEADER_BYTES];
    header[field.clone()].copy_from_slice(&value.to_be_bytes());
    let hash = xxh3_64_with_seed(&header[GROUP_FIELDS], salt);
    header[GROUP_HASH].copy_from_slice(&hash.to_be_bytes());
}

/// Returns the best forgery of a client: in every place where a group may begin, the bytes contain the header of an
/// empty group with this number, which claims that everything was synced. All that the client does not know is the salt
/// of the segment. `at` is the position of the bytes in the segment.
pub(crate) fn forged_groups(length: usize, at: usize, segment: u64, first: u64) -> Vec<u8> {
    let mut bytes = vec![0xEE; at.next_multiple_of(ALIGNMENT) - at];
    while bytes.len() + GROUP_HEADER_BYTES <= length {
        let offset = (at + bytes.len()) as u64;
        let numbers = [offset, segment, first, 1 << 32, u64::MAX >> 1, 0];
        let mut header = [GROUP_MAGIC, &u32::to_be_bytes(64)].concat();
        header.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        header.extend(xxh3_64_with_seed(&header, 0).to_be_bytes());
        bytes.extend(header);
    }
    bytes.resize(length, 0xEE);
    bytes
}
