//! Archived segments of the log.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| engine_embedded::fuzzing::read_archive(data));
