//! Continuation tokens: every encoded token decodes to its original value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::continuation::{decode, encode};

fuzz_target!(|text: &str| {
    assert_eq!(decode(&encode(text)).as_deref(), Some(text));
    if let Some(meaning) = decode(text) {
        assert_eq!(decode(&encode(&meaning)), Some(meaning));
    }
});
