//! Bearer tokens in the form of JSON Web Tokens: their parts, their signatures and their claims.

#![no_main]
#![allow(dead_code, reason = "the target uses only parts of the modules")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use oauth::audience::Audiences;
use oauth::claims::ClaimRules;
use oauth::jws::{ClaimMap, Jws, decode};
use oauth::key_set::KeySet;
use std::time::{Duration, UNIX_EPOCH};

#[path = "../oauth.rs"]
mod oauth;

const KEYS: &[u8] = include_bytes!("../../seeds/jwks/three_keys.json");

// A token, or else the header and the claims of one, which are encoded first.
fuzz_target!(|text: &str| {
    check(text);
    if let Some((header, claims)) = text.split_once('\n') {
        check(&format!("{}.{}.AAAA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims)));
    }
});

fn check(token: &str) {
    let Ok(jws) = Jws::parse(token) else { return };
    let _issuer = jws.issuer();
    let keys = KeySet::parse(KEYS).expect("the seed is a set of keys");
    if let Ok(key) = keys.find(jws.key_id(), jws.algorithm()) {
        assert!(jws.verify(key).is_err(), "a signature cannot be guessed");
    }
    let claims = token.split('.').nth(1).and_then(|part| decode(part).ok());
    let Some(claims) = claims.and_then(|claims| serde_json::from_slice::<ClaimMap>(&claims).ok()) else { return };
    let rules = ClaimRules {
        audiences: Audiences::new(&[]),
        leeway: Duration::from_secs(60),
        lifetime_max: Some(Duration::from_secs(24 * 3600)),
        directories: Vec::new(),
        clients: Vec::new(),
        role_claim: "realm.roles".to_owned(),
    };
    if let Ok(accepted) = rules.check(&claims, UNIX_EPOCH + Duration::from_secs(1_900_000_000)) {
        let _is_accepted = rules.audiences.accept(&accepted.audiences, "acct");
        assert!(!accepted.principal.description.contains('\n'), "a claim must not break a line of the log");
    }
}
