//! Input that authentication parses before the sender is known: the `Authorization` header, dates, and the string to
//! sign.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::signing::{AccountKey, Authorization, Scheme, SignedRequest, any_verifies, parse_date};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";

// The lines are: Authorization, date, method, Content-MD5, Content-Type, path, comp, account key.
fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    check_authorization(line());
    let date = line();
    if let Some(time) = parse_date(date) {
        assert_eq!(httpdate::fmt_http_date(time), date, "a date has only one form");
    }
    let signed = SignedRequest {
        date,
        method: line(),
        content_md5: line(),
        content_type: line(),
        path: line(),
        comp: Some(line()).filter(|comp| !comp.is_empty()),
        account: "acct",
    };
    let (full, lite) = (signed.string_to_sign(Scheme::SharedKey), signed.string_to_sign(Scheme::SharedKeyLite));
    let parts: Vec<&str> = full.split('\n').collect();
    assert_eq!(parts.len(), 5, "no part of a request may extend into another part of the string");
    assert_eq!(parts.get(..4), Some(&[signed.method, signed.content_md5, signed.content_type, date][..]));
    assert!(full.ends_with(&lite));
    let key = AccountKey::parse(line()).unwrap_or_else(|| AccountKey::parse(KEY).expect("the key is Base64"));
    check_signature(&key, &full);
});

fn check_authorization(header: &str) {
    let Some(authorization) = Authorization::parse(header) else { return };
    assert!(!authorization.account.is_empty());
    assert!(header.contains(authorization.account));
}

/// Checks that a created header can be parsed, and that its signature is valid only for the given string.
fn check_signature(key: &AccountKey, text: &str) {
    let header = format!("SharedKey acct:{}", key.sign(text));
    let authorization = Authorization::parse(&header).expect("a created header is valid");
    let signature = authorization.signature.expect("a created signature is valid");
    assert_eq!((authorization.scheme, authorization.account), (Scheme::SharedKey, "acct"));
    assert!(any_verifies([key], text, &signature));
    assert!(!any_verifies([key], &format!("{text} "), &signature));
}
