//! Batches: a parsed batch, written in its simplest form, reads back unchanged, and the targets of its operations
//! belong to the account.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::AccountName;
use model::limits::TRANSACTION_OPERATIONS_MAX;
use wire::batch::{Batch, PartRequest, PartTarget, read};

const BATCH: &str = "batch_made_by_the_fuzz_target";
const CHANGESET: &str = "changeset_made_by_the_fuzz_target";

// The first line is the Content-Type of the request, the rest its body.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, body) = input.split_at(end);
    let Ok(content_type) = std::str::from_utf8(first) else { return };
    let Ok(batch) = read(content_type, body.strip_prefix(b"\n").unwrap_or(body)) else { return };
    let (operations, is_changeset) = match &batch {
        Batch::Changeset(changeset) => (changeset.operations.as_slice(), true),
        Batch::Single(operation) => (std::slice::from_ref(operation), false),
        Batch::Mixed => return,
    };
    assert!(operations.len() <= TRANSACTION_OPERATIONS_MAX);
    for operation in operations {
        check_target(operation.target);
    }
    // If the input contained the boundaries of the new batch, that batch would end early.
    if operations.is_empty() || contains(input, BATCH.as_bytes()) || contains(input, CHANGESET.as_bytes()) {
        return;
    }
    let written = written(operations, is_changeset);
    match read(&format!("multipart/mixed; boundary={BATCH}"), &written) {
        Ok(Batch::Changeset(again)) if is_changeset => assert_eq!(again.operations, operations),
        Ok(Batch::Single(again)) if !is_changeset => assert_eq!(&[again], operations),
        other => panic!("{:?} is parsed as {other:?}", String::from_utf8_lossy(&written)),
    }
});

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn check_target(target: &str) {
    let account = AccountName::new("acct").expect("the name is valid");
    if let Ok(inner) = PartTarget::parse(target, &account, &["tables.example.net".to_owned()]) {
        assert!(target.contains(inner.path) && target.contains(inner.query));
        assert!(!inner.path.contains('?'));
    }
}

fn written(operations: &[PartRequest<'_>], is_changeset: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let boundary = if is_changeset { CHANGESET } else { BATCH };
    if is_changeset {
        out.extend(format!("--{BATCH}\r\nContent-Type: multipart/mixed; boundary={CHANGESET}\r\n\r\n").into_bytes());
    }
    for operation in operations {
        out.extend(format!("--{boundary}\r\nContent-Type: application/http\r\n\r\n").into_bytes());
        write_operation(&mut out, operation);
        out.extend_from_slice(b"\r\n");
    }
    if is_changeset {
        out.extend(format!("--{CHANGESET}--\r\n").into_bytes());
    }
    out.extend(format!("--{BATCH}--\r\n").into_bytes());
    out
}

fn write_operation(out: &mut Vec<u8>, operation: &PartRequest<'_>) {
    out.extend(format!("{} {} HTTP/1.1\r\n", operation.method, operation.target).into_bytes());
    let headers = [
        ("Accept", operation.headers.accept),
        ("Content-Type", operation.headers.content_type),
        ("If-Match", operation.headers.if_match),
        ("If-None-Match", operation.headers.if_none_match),
        ("Prefer", operation.headers.prefer),
        ("DataServiceVersion", operation.headers.data_service_version),
        ("MaxDataServiceVersion", operation.headers.max_data_service_version),
        ("Content-ID", operation.content_id),
    ];
    let overrides = operation.method_overrides.iter().map(|method| ("X-HTTP-Method", Some(*method)));
    for (name, value) in headers.into_iter().chain(overrides) {
        if let Some(value) = value {
            out.extend(format!("{name}: {value}\r\n").into_bytes());
        }
    }
    out.extend(format!("Content-Length: {}\r\n\r\n", operation.body.len()).into_bytes());
    out.extend_from_slice(operation.body);
}
