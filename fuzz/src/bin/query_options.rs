//! Query strings: options stay within their limits, and decoding reverses encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::{PAGE_RESULTS_MAX, REQUEST_TIMEOUT_SECONDS_MAX, SELECT_PROPERTIES_MAX};
use wire::uri::{encode_list, form_decode};
use wire::{QueryOptions, Select};

fuzz_target!(|query: &str| {
    let options = QueryOptions::parse(query);
    if let Ok(top) = options.top() {
        assert!(top <= PAGE_RESULTS_MAX);
    }
    if let Ok(timeout) = options.timeout() {
        assert!((1..=REQUEST_TIMEOUT_SECONDS_MAX).contains(&timeout.as_secs()));
    }
    let _ = options.check_supported();
    let twice = format!("{query}&comp=acl");
    let repeated = QueryOptions::parse(&twice);
    match &options.comp {
        Some(first) => {
            assert_eq!(repeated.comp.as_ref(), Some(first), "the signed option is the one that counts")
        }
        None => assert_eq!(repeated.comp.as_deref(), Some("acl")),
    }
    for value in [&options.filter, &options.format, &options.next_partition_key].into_iter().flatten() {
        assert_eq!(form_decode(&encode_list(value)).as_deref(), Some(value.as_ref()));
    }
    if let Some(Ok(select)) = options.select.as_deref().map(Select::parse) {
        assert!(select.names().len() <= SELECT_PROPERTIES_MAX);
        for (position, name) in select.names().iter().enumerate() {
            assert_eq!(select.position(name.as_bytes()), Some(position), "each name occurs once, at its position");
        }
    }
});
