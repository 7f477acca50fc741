//! Segments of the log, as they are recovered after a crash.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| engine_embedded::fuzzing::read_log(data));
