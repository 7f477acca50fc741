//! The public keys of issuers: JSON Web Key Sets.

#![no_main]
#![allow(dead_code, reason = "the target uses only parts of the modules")]

use libfuzzer_sys::fuzz_target;
use oauth::jws::Jws;
use oauth::key_set::KeySet;

#[path = "../oauth.rs"]
mod oauth;

// With the headers `{"alg":"RS256"}`, `{"alg":"ES256"}` and `{"alg":"EdDSA"}`, and no claims.
const TOKENS: [&str; 3] =
    ["eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "eyJhbGciOiJFUzI1NiJ9.e30.AAAA", "eyJhbGciOiJFZERTQSJ9.e30.AAAA"];

fuzz_target!(|data: &[u8]| {
    let Ok(keys) = KeySet::parse(data) else { return };
    assert!(keys.len() <= 256);
    for token in TOKENS {
        let jws = Jws::parse(token).expect("the token is well-formed");
        if let Ok(key) = keys.find(jws.key_id(), jws.algorithm()) {
            assert!(key.fits(jws.algorithm()));
            assert!(jws.verify(key).is_err(), "a signature cannot be guessed");
        }
    }
});
