//! The bytes that stand for the stored access policies of a table, and the texts and instants they are made of.
//!
//! ```text
//! number of policies (1 byte), and for each: id (text), start, expiry (8 bytes each; -1: none), permissions (text;
//! the letters, or "-" for none at all). text = a length of 1 byte and UTF-8.
//! ```
//!
//! Numbers are big-endian. Bytes come from a store and may be damaged, so decoding can fail and never panics.

use model::{DateTime, Permissions, StoredAccessPolicies, StoredAccessPolicy};

/// Appends the policies.
pub(crate) fn encode_to(policies: &StoredAccessPolicies, out: &mut Vec<u8>) {
    out.push(u8::try_from(policies.as_slice().len()).expect("a table has at most five policies"));
    for policy in policies.as_slice() {
        push_text(out, policy.id());
        for time in [policy.start, policy.expiry] {
            // No instant has a negative number of ticks.
            out.extend_from_slice(&time.map_or(-1, DateTime::ticks).to_be_bytes());
        }
        // The letters, or a text that is not of letters.
        push_text(out, &policy.permissions.map_or_else(|| "-".to_owned(), |permissions| permissions.to_string()));
    }
}

/// Reads policies, and moves behind them; `None` if they are damaged.
pub(crate) fn decode_from(rest: &mut &[u8]) -> Option<StoredAccessPolicies> {
    let (count, behind) = rest.split_first()?;
    *rest = behind;
    let mut policies = Vec::new();
    for _ in 0..*count {
        let mut policy = StoredAccessPolicy::new(take_text(rest)?)?;
        (policy.start, *rest) = take_time(rest)?;
        (policy.expiry, *rest) = take_time(rest)?;
        policy.permissions = match take_text(rest)? {
            "-" => None,
            letters => Some(Permissions::of_table(letters)?),
        };
        policies.push(policy);
    }
    StoredAccessPolicies::new(policies)
}

/// A text of at most 255 bytes, behind its length.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names of tables and ids of policies are shorter than 256 bytes"));
    out.extend_from_slice(text.as_bytes());
}

/// An instant, or none, and what stands behind it.
pub(crate) fn take_time(bytes: &[u8]) -> Option<(Option<DateTime>, &[u8])> {
    let (ticks, rest) = bytes.split_first_chunk()?;
    match i64::from_be_bytes(*ticks) {
        -1 => Some((None, rest)),
        ticks => Some((Some(DateTime::from_ticks(ticks)?), rest)),
    }
}

/// A text behind its length; moves behind it.
pub(crate) fn take_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}
