//! Entry points for the fuzz target of the records that a standby receives.

use super::records::RecordBatch;
use super::standby::transaction;
use crate::log::format::{self, RECORD_HEADER_BYTES, RecordHeader};

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
