//! The bytes of a segment: its header, the headers of groups and records, and their hashes. Everything here is a pure
//! function of bytes.
//!
//! Numbers are big-endian. The hash of a group is seeded with the random salt of its segment, which no client knows, so
//! a stored value cannot imitate a group, and neither can the remains of an earlier use of the file. The hash of a
//! payload has no seed, because callers compute it before they know the segment; the group's hash covers it.
//!
//! | segment header | bytes | |
//! |---|---|---|
//! | magic | 8 | `RowhsLog` |
//! | version | 4 | 1 |
//! | reserved | 4 | zero |
//! | ID | 8 | the number in the name of the file |
//! | salt | 8 | random |
//! | epoch | 8 | |
//! | first sequence | 8 | |
//! | previous segment | 8 + 8 | offset and digest of its end; zeros in the first segment of a log |
//! | skipped | 8 | how many numbers between the end of the previous segment and the first sequence were skipped |
//! | checksum | 8 | seeded with the salt; covers the bytes above, which lie within one sector |
//! | padding | 4016 | not covered by the checksum |
//!
//! | group header | bytes | |
//! |---|---|---|
//! | magic | 4 | `RGrp` |
//! | length | 4 | with this header and the padding to 64 bytes |
//! | offset | 8 | of this header in the file |
//! | segment ID | 8 | |
//! | first sequence, count | 8 + 4 | |
//! | reserved | 4 | zero |
//! | synced through | 8 | the last transaction known to be on disk when the group was written |
//! | records | 8 | begins with the salt; for each record, the hash of its header, seeded with the value before |
//! | hash | 8 | seeded with the salt; covers the bytes above |
//!
//! | record header | bytes | |
//! |---|---|---|
//! | payload length | 4 | |
//! | origin, reserved | 1 + 3 | |
//! | sequence | 8 | |
//! | stamp | 8 | |
//! | payload hash | 8 | no seed |
//!
//! The records follow the group header without gaps, each payload after its header.

use crate::sequence::Sequence;
use std::fmt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(crate) const SEGMENT_HEADER_BYTES: usize = 4096;
pub(crate) const GROUP_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Groups begin at multiples of this number of bytes, so recovery need not search other positions for them.
pub(crate) const GROUP_ALIGNMENT: usize = 64;
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The maximum length of a payload, in bytes. Far above any transaction; keeps every length within 32 bits.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The maximum length of a group, in bytes.
pub(crate) const GROUP_BYTES_MAX: usize = 1024 * 1024 * 1024;

const SEGMENT_MAGIC: [u8; 8] = *b"RowhsLog";
const GROUP_MAGIC: [u8; 4] = *b"RGrp";
/// The part of a segment header that its checksum covers, in bytes. It lies within the first sector.
const SEGMENT_FIELDS_BYTES: usize = 72;
/// The part of a group header that its hash covers, in bytes.
const GROUP_FIELDS_BYTES: usize = 56;

/// The end of the part of a segment that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    /// In bytes from the beginning of the file.
    pub(crate) offset: u64,
    /// The hash of the segment header and of all group headers before `offset`, see [`next_digest`].
    pub(crate) digest: u64,
}

impl SegmentEnd {
    /// The end in the header of the first segment of a log.
    pub(crate) const NONE: Self = Self { offset: 0, digest: 0 };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) id: u64,
    pub(crate) salt: u64,
    /// Increases when a standby is promoted.
    pub(crate) epoch: u64,
    /// The number of the first transaction in the segment, or of the next transaction if the segment is empty.
    pub(crate) first: Sequence,
    /// The end of the segment with the preceding ID.
    pub(crate) previous: SegmentEnd,
    /// How many numbers before `first` belong to no transaction.
    pub(crate) skipped: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let mut out = Fields(&mut bytes);
        out.put(&SEGMENT_MAGIC);
        out.put(&FORMAT_VERSION.to_be_bytes());
        out.put(&[0; 4]);
        let SegmentEnd { offset, digest } = self.previous;
        for number in [self.id, self.salt, self.epoch, self.first.get(), offset, digest, self.skipped] {
            out.put(&number.to_be_bytes());
        }
        let checksum = self.checksum_of(&bytes);
        Fields(bytes.get_mut(SEGMENT_FIELDS_BYTES..).unwrap_or_default()).put(&checksum.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SegmentHeaderError> {
        let mut rest = bytes;
        if take(&mut rest) != Some(SEGMENT_MAGIC) {
            return Err(SegmentHeaderError::NotASegment);
        }
        let version = take(&mut rest).map(u32::from_be_bytes);
        take::<4>(&mut rest);
        let mut number = || take(&mut rest).map(u64::from_be_bytes);
        let decoded = (|| {
            let (id, salt, epoch, first) = (number()?, number()?, number()?, Sequence::new(number()?));
            let previous = SegmentEnd { offset: number()?, digest: number()? };
            let skipped = number()?;
            Some((Self { id, salt, epoch, first, previous, skipped }, number()?))
        })();
        match (version, decoded) {
            (Some(FORMAT_VERSION), Some((header, checksum))) if header.checksum_of(bytes) == checksum => Ok(header),
            (Some(newer), Some((header, checksum)))
                if newer > FORMAT_VERSION && header.checksum_of(bytes) == checksum =>
            {
                Err(SegmentHeaderError::Newer(newer))
            }
            _ => Err(SegmentHeaderError::WrongChecksum),
        }
    }

    fn checksum_of(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes.get(..SEGMENT_FIELDS_BYTES).unwrap_or_default(), self.salt)
    }

    /// Returns the position before the first group.
    pub(crate) fn beginning(&self) -> SegmentEnd {
        let digest = self.checksum_of(&self.encode());
        SegmentEnd { offset: SEGMENT_HEADER_BYTES as u64, digest }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    NotASegment,
    /// The segment was written by a later version, with this format version.
    Newer(u32),
    WrongChecksum,
}

impl fmt::Display for SegmentHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASegment => f.write_str("it does not begin with the header of a log segment"),
            Self::Newer(version) => {
                write!(f, "it has version {version} of the log format, which is newer than {FORMAT_VERSION}")
            }
            Self::WrongChecksum => f.write_str("the checksum of its header is wrong"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    /// The length of the group in bytes, with this header and the padding.
    pub(crate) bytes: u32,
    /// The position of the group, in bytes from the beginning of the file.
    pub(crate) offset: u64,
    pub(crate) segment: u64,
    pub(crate) first: Sequence,
    pub(crate) count: u32,
    /// The last transaction that was known to be on disk when the group was written. It precedes the group.
    pub(crate) synced_through: Sequence,
    /// The hash of the record headers, which in turn contain the hashes of the payloads.
    pub(crate) records: u64,
}

impl GroupHeader {
    pub(crate) fn encode(&self, salt: u64) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        let mut out = Fields(&mut bytes);
        out.put(&GROUP_MAGIC);
        out.put(&self.bytes.to_be_bytes());
        out.put(&self.offset.to_be_bytes());
        out.put(&self.segment.to_be_bytes());
        out.put(&self.first.get().to_be_bytes());
        out.put(&self.count.to_be_bytes());
        out.put(&[0; 4]);
        out.put(&self.synced_through.get().to_be_bytes());
        out.put(&self.records.to_be_bytes());
        let hash = group_hash(&bytes, salt);
        Fields(bytes.get_mut(GROUP_FIELDS_BYTES..).unwrap_or_default()).put(&hash.to_be_bytes());
        bytes
    }

    /// Returns `None` unless a group of the given segment was written at the given offset.
    pub(crate) fn decode(bytes: &[u8], salt: u64, segment: u64, offset: u64) -> Option<Self> {
        // Most positions that recovery searches end here.
        let mut rest = bytes.strip_prefix(&GROUP_MAGIC)?;
        let rest = &mut rest;
        let length = u32::from_be_bytes(take(rest)?);
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = u64::from_be_bytes(take(rest)?);
        }
        let [own_offset, own_segment, first] = numbers;
        let count = u32::from_be_bytes(take(rest)?);
        take::<4>(rest)?;
        let (synced_through, records) = (u64::from_be_bytes(take(rest)?), u64::from_be_bytes(take(rest)?));
        let hash = u64::from_be_bytes(take(rest)?);
        let is_here = own_offset == offset && own_segment == segment && group_hash(bytes, salt) == hash;
        let header = Self {
            bytes: length,
            offset,
            segment,
            first: Sequence::new(first),
            count,
            synced_through: Sequence::new(synced_through),
            records,
        };
        is_here.then_some(header)
    }

    /// Returns the number of the last transaction in the group.
    pub(crate) fn last(&self) -> Sequence {
        self.first.plus(u64::from(self.count)).previous()
    }
}

fn group_hash(header: &[u8], salt: u64) -> u64 {
    xxh3_64_with_seed(header.get(..GROUP_FIELDS_BYTES).unwrap_or_default(), salt)
}

/// Extends the digest of a segment by the header of a group. Because a header contains the hashes of what it describes,
/// two segments with the same digest have the same contents up to that position.
pub(crate) fn next_digest(digest: u64, group_header: &[u8; GROUP_HEADER_BYTES]) -> u64 {
    xxh3_64_with_seed(group_header, digest)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) payload_bytes: u32,
    /// What caused the transaction. The log does not interpret it.
    pub(crate) origin: u8,
    pub(crate) sequence: Sequence,
    /// The Timestamp of the transaction. The log does not interpret it.
    pub(crate) stamp: u64,
    pub(crate) payload_hash: u64,
}

impl RecordHeader {
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let mut out = Fields(&mut bytes);
        out.put(&self.payload_bytes.to_be_bytes());
        out.put(&[self.origin, 0, 0, 0]);
        out.put(&self.sequence.get().to_be_bytes());
        out.put(&self.stamp.to_be_bytes());
        out.put(&self.payload_hash.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> Option<Self> {
        let rest = &mut &bytes[..];
        let payload_bytes = u32::from_be_bytes(take(rest)?);
        let [origin, ..] = take::<4>(rest)?;
        let sequence = Sequence::new(u64::from_be_bytes(take(rest)?));
        let stamp = u64::from_be_bytes(take(rest)?);
        Some(Self { payload_bytes, origin, sequence, stamp, payload_hash: u64::from_be_bytes(take(rest)?) })
    }
}

pub(crate) fn payload_hash(payload: &[u8]) -> u64 {
    xxh3_64(payload)
}

/// A record as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'g> {
    pub(crate) header: RecordHeader,
    pub(crate) header_bytes: &'g [u8; RECORD_HEADER_BYTES],
    pub(crate) payload: &'g [u8],
}

/// Reads the records in the body of a group, which begins after the group header. Ends early if a length exceeds the
/// body.
pub(crate) fn records(body: &[u8], count: u32) -> impl Iterator<Item = Record<'_>> {
    let mut rest = body;
    (0..count).map_while(move |_| {
        let (header_bytes, after) = rest.split_first_chunk()?;
        let header = RecordHeader::decode(header_bytes)?;
        let (payload, after) = after.split_at_checked(usize::try_from(header.payload_bytes).ok()?)?;
        rest = after;
        Some(Record { header, header_bytes, payload })
    })
}

/// Extends the hash of record headers, which begins with the salt of the segment.
pub(crate) fn next_records_hash(hash: u64, header: &[u8; RECORD_HEADER_BYTES]) -> u64 {
    xxh3_64_with_seed(header, hash)
}

/// Returns the length of a group that is padded to the alignment, in bytes.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(GROUP_ALIGNMENT)
}

/// Writes fields one after the other.
struct Fields<'b>(&'b mut [u8]);

impl Fields<'_> {
    fn put(&mut self, field: &[u8]) {
        if let Some((here, rest)) = std::mem::take(&mut self.0).split_at_mut_checked(field.len()) {
            here.copy_from_slice(field);
            self.0 = rest;
        }
    }
}

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*field)
}
