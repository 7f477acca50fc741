//! Groups of transactions, which are written with one write and synced together.

use crate::log::format::{
    self, GROUP_HEADER_BYTES, GroupHeader, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, SegmentEnd,
};
use crate::sequence::Sequence;

/// A buffer that is larger than this is freed when its group has been written, in bytes.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// A transaction that its caller encoded and hashed. What the committer adds, it adds to the header.
#[derive(Debug)]
pub(crate) struct EncodedTransaction {
    payload: Vec<u8>,
    hash: u64,
}

impl EncodedTransaction {
    /// Returns `None` if the payload is longer than [`PAYLOAD_BYTES_MAX`].
    pub(crate) fn new(payload: Vec<u8>) -> Option<Self> {
        let hash = format::payload_hash(&payload);
        (payload.len() <= PAYLOAD_BYTES_MAX).then_some(Self { payload, hash })
    }
}

/// A group while it is assembled. It contains everything except what depends on its place in a segment.
#[derive(Debug)]
pub(crate) struct Group {
    /// Space for the header, then the records.
    bytes: Vec<u8>,
    first: Sequence,
    count: u32,
}

/// Where a group is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) salt: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) synced_through: Sequence,
}

impl Group {
    /// Creates an empty group. Its first transaction gets the given number.
    pub(crate) fn new(first: Sequence) -> Self {
        Self { bytes: vec![0; GROUP_HEADER_BYTES], first, count: 0 }
    }

    /// Restores a group that was read from a segment.
    pub(crate) fn from_segment(header: &GroupHeader, bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), first: header.first, count: header.count }
    }

    /// Adds a transaction and returns its number.
    pub(crate) fn push(&mut self, transaction: &EncodedTransaction, stamp: u64, origin: u8) -> Sequence {
        let sequence = self.next_sequence();
        let payload_bytes = u32::try_from(transaction.payload.len()).expect("payloads have a limit");
        let header = RecordHeader { payload_bytes, origin, sequence, stamp, payload_hash: transaction.hash };
        self.bytes.reserve(RECORD_HEADER_BYTES + transaction.payload.len());
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.extend_from_slice(&transaction.payload);
        self.count += 1;
        sequence
    }

    /// Empties the group. Its next transaction gets the given number.
    pub(crate) fn restart(&mut self, first: Sequence) {
        self.bytes.truncate(GROUP_HEADER_BYTES);
        self.bytes.resize(GROUP_HEADER_BYTES, 0);
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        (self.first, self.count) = (first, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Sequence {
        self.first
    }

    /// Returns the number that the next transaction of this group gets.
    pub(crate) fn next_sequence(&self) -> Sequence {
        self.first.plus(u64::from(self.count))
    }

    /// Returns the length of the group in a segment, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        format::padded(self.bytes.len())
    }

    /// Returns the length without padding, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes_so_far(&self) -> usize {
        self.bytes.len()
    }

    /// Completes the group for its place in a segment. It may be completed again for a different place, but nothing may
    /// be added to it.
    pub(crate) fn seal(&mut self, place: Place) -> SealedGroup<'_> {
        self.bytes.resize(format::padded(self.bytes.len()), 0);
        let body = self.bytes.get(GROUP_HEADER_BYTES..).unwrap_or_default();
        let records = format::records(body, self.count)
            .fold(place.salt, |hash, record| format::next_records_hash(hash, record.header_bytes));
        let header = GroupHeader {
            bytes: u32::try_from(self.bytes.len()).expect("the writer checked the length"),
            offset: place.offset,
            segment: place.segment,
            first: self.first,
            count: self.count,
            synced_through: place.synced_through,
            records,
        };
        let header = header.encode(place.salt);
        if let Some(space) = self.bytes.first_chunk_mut() {
            *space = header;
        }
        SealedGroup { bytes: &self.bytes, header }
    }

    /// Takes the group out, and leaves an empty one that continues the numbers.
    pub(crate) fn take(&mut self) -> Self {
        let next = Self::new(self.next_sequence());
        std::mem::replace(self, next)
    }
}

#[derive(Debug)]
pub(crate) struct SealedGroup<'g> {
    pub(crate) bytes: &'g [u8],
    header: [u8; GROUP_HEADER_BYTES],
}

impl SealedGroup<'_> {
    /// Returns the end of the segment with this group, from the end without it.
    pub(crate) fn end(&self, before: SegmentEnd) -> SegmentEnd {
        SegmentEnd {
            offset: before.offset.saturating_add(self.bytes.len() as u64),
            digest: format::next_digest(before.digest, &self.header),
        }
    }
}
