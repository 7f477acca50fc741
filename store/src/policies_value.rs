//! The encoding of a table's stored access policies, and of the strings and instants in it.
//!
//! ```text
//! number of policies (1 byte), and for each: id (string), start, expiry (8 bytes each; -1: not set),
//! permissions (string; the letters, or "-": not set). string = length (1 byte) and UTF-8 bytes.
//! ```
//!
//! Numbers are big-endian. The bytes come from storage and may be damaged, so decoding can fail but never panics.

use model::{DateTime, Permissions, StoredAccessPolicies, StoredAccessPolicy};

pub(crate) fn encode_to(policies: &StoredAccessPolicies, out: &mut Vec<u8>) {
    out.push(u8::try_from(policies.as_slice().len()).expect("a table has at most five policies"));
    for policy in policies.as_slice() {
        push_text(out, policy.id());
        for time in [policy.start, policy.expiry] {
            // No valid instant has a negative number of ticks.
            out.extend_from_slice(&time.map_or(-1, DateTime::ticks).to_be_bytes());
        }
        push_text(out, &policy.permissions.map_or_else(|| "-".to_owned(), |permissions| permissions.to_string()));
    }
}

/// Decodes policies and advances past them. Returns `None` if they are damaged.
pub(crate) fn decode_from(rest: &mut &[u8]) -> Option<StoredAccessPolicies> {
    let (count, policies_bytes) = rest.split_first()?;
    *rest = policies_bytes;
    let mut policies = Vec::new();
    for _ in 0..*count {
        let mut policy = StoredAccessPolicy::new(take_text(rest)?)?;
        (policy.start, *rest) = take_time(rest)?;
        (policy.expiry, *rest) = take_time(rest)?;
        policy.permissions = match take_text(rest)? {
            "-" => None,
            letters => Some(Permissions::parse_table(letters)?),
        };
        policies.push(policy);
    }
    StoredAccessPolicies::new(policies)
}

/// The string has at most 255 bytes.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("table names and policy ids are shorter than 256 bytes"));
    out.extend_from_slice(text.as_bytes());
}

/// Decodes an instant (`None` if it is not set), and returns it with the remaining bytes.
pub(crate) fn take_time(bytes: &[u8]) -> Option<(Option<DateTime>, &[u8])> {
    let (ticks, rest) = bytes.split_first_chunk()?;
    match i64::from_be_bytes(*ticks) {
        -1 => Some((None, rest)),
        ticks => Some((Some(DateTime::from_ticks(ticks)?), rest)),
    }
}

pub(crate) fn take_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}
