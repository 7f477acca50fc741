//! What a standby receives: chunks of a base copy, and records of the log.

#![no_main]

use engine_embedded::fuzzing::{receive_chunk, receive_records};
use libfuzzer_sys::fuzz_target;

// The first bytes are the number of the first record and the number of records.
fuzz_target!(|input: (u64, u16, &[u8])| {
    let (first, count, data) = input;
    receive_chunk(data);
    receive_records(first, count.into(), data);
});
