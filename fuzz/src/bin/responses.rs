//! Responses as parsed by a client, from a possibly hostile server: pages, tables, batches and errors.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::TRANSACTION_OPERATIONS_MAX;
use wire::batch::read_responses;
use wire::error_response::ErrorResponse;
use wire::json::{read_entity_set, read_table_set};

// The first line is the Content-Type of the response; the rest is its body.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, body) = input.split_at(end);
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let _ = read_table_set(body);
    let _ = read_entity_set(body);
    if let Some(error) = ErrorResponse::read(body) {
        assert!(!error.message.contains('\n'), "the message must be a single line");
    }
    if let Ok(content_type) = std::str::from_utf8(first) {
        let parts = read_responses(content_type, body).unwrap_or_default();
        assert!(parts.len() <= TRANSACTION_OPERATIONS_MAX);
        for part in parts {
            let _ = ErrorResponse::read(part.body);
        }
    }
});
