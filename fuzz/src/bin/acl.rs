//! Stored access policies as XML: any bytes are parsed or rejected, and parsed policies round-trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::acl::{read, write};

fuzz_target!(|body: &[u8]| {
    let Ok(policies) = read(body) else { return };
    assert!(policies.as_slice().len() <= 5);
    assert_eq!(read(&write(&policies)), Ok(policies));
});
