//! The indexes of a table as XML: any bytes are parsed or rejected, and a parsed list round-trips.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::table_indexes::{read, write};

fuzz_target!(|body: &[u8]| {
    let Ok(indexes) = read(body) else { return };
    assert!(indexes.len() <= 8);
    assert_eq!(read(&write(&indexes)), Ok(indexes));
});
