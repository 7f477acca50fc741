//! The file with the lineage of a data folder.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| engine_embedded::fuzzing::read_lineage(text));
