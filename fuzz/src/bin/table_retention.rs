//! The retention of a table as XML: any bytes are parsed or rejected, and a parsed retention round-trips.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::table_retention::{read, write};

fuzz_target!(|body: &[u8]| {
    let Ok(retention) = read(body) else { return };
    assert_eq!(read(&write(retention.as_ref())), Ok(retention));
});
