//! Entry points for the fuzz targets of what a standby receives.

use super::frames::{RecordBatch, push_entry, take_entry};
use super::standby::transaction;
use crate::log::format::{self, RECORD_HEADER_BYTES, RecordHeader};

/// Reads a chunk of a base copy. What is read is written as it was.
pub fn receive_chunk(data: &[u8]) {
    let mut rest = data;
    let mut written = Vec::new();
    while let Some((key, value)) = take_entry(&mut rest) {
        push_entry(&mut written, key, value);
    }
    assert!(data.starts_with(&written));
    assert_eq!(written.len() + rest.len(), data.len());
}

/// Reads a batch of records, and the transactions in it, with correct hashes.
pub fn receive_records(first: u64, count: u32, data: &[u8]) {
    let mut records = data.to_vec();
    set_record_hashes(&mut records, count, 0);
    let batch = RecordBatch { first, count, records };
    let mut seen = 0;
    let read = batch.for_each(|record| {
        seen += 1;
        transaction(record).map(drop)
    });
    assert!(read.is_err() || seen == count, "every record is passed on");
}

/// Sets the hashes of payloads. Returns the hash of the record headers.
pub(crate) fn set_record_hashes(mut body: &mut [u8], count: u32, salt: u64) -> u64 {
    let mut hash = salt;
    for _ in 0..count {
        let Some((header, rest)) = body.split_first_chunk_mut::<RECORD_HEADER_BYTES>() else { break };
        let Some(fields) = RecordHeader::decode(header) else { break };
        let length = usize::try_from(fields.payload_bytes).unwrap_or(usize::MAX);
        let Some((payload, after)) = rest.split_at_mut_checked(length) else { break };
        *header = RecordHeader { payload_hash: format::payload_hash(payload), ..fields }.encode();
        hash = format::next_records_hash(hash, header);
        body = after;
    }
    hash
}
