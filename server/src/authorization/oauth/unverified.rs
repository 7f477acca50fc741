//! Tokens as the emulator accepts them with `--oauth basic`: their claims are checked, but not their signature.
//!
//! Anyone who can reach such a server can write a token that it accepts, so this is only for development. Only
//! [`OAuthConfig::without_signatures`](super::OAuthConfig::without_signatures) enables it. This module must not depend
//! on keys.

use super::audience::Audiences;
use super::claims::{ClaimRules, Claims};
use super::jws::{ClaimMap, decode};
use super::token_error::TokenError;
use model::limits::BEARER_TOKEN_BYTES_MAX;
use serde_json::Value;
use std::time::{Duration, SystemTime};

const ISSUERS: [&str; 4] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
];

/// Returns the claims of an unverified token if the emulator would accept them for this account.
pub(super) fn claims_without_signature(token: &str, account: &str, now: SystemTime) -> Result<Claims, TokenError> {
    if token.len() > BEARER_TOKEN_BYTES_MAX {
        return Err(TokenError::TooLarge);
    }
    let mut parts = token.split('.');
    let (Some(_header), Some(payload), Some(_signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Malformed("parts"));
    };
    let mut claims: ClaimMap =
        serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Malformed("the claims"))?;
    for required in ["nbf", "iat"] {
        if !claims.contains_key(required) {
            return Err(TokenError::Malformed(required));
        }
    }
    let issuer = claims.get("iss").and_then(Value::as_str).ok_or(TokenError::Malformed("iss"))?;
    if !ISSUERS.iter().any(|known| issuer.starts_with(known)) {
        return Err(TokenError::UnknownIssuer(issuer.chars().take(200).collect()));
    }
    // The emulator does not require a principal.
    if !claims.contains_key("oid") {
        claims.entry("sub").or_insert_with(|| "somebody".into());
    }
    let rules = ClaimRules {
        audiences: Audiences::new(&[]),
        leeway: Duration::ZERO,
        lifetime_max: None,
        directories: Vec::new(),
        clients: Vec::new(),
        role_claim: "roles".to_owned(),
    };
    let claims = rules.check(&claims, now)?;
    if rules.audiences.accept(&claims.audiences, account) { Ok(claims) } else { Err(TokenError::Audience) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::UNIX_EPOCH;
    use test_support::minting::encode;

    const NOW: u64 = 1_931_069_730;

    fn check(change: &Value) -> Result<Claims, TokenError> {
        let mut claims = json!({
            "aud": "https://storage.azure.com", "iss": "https://sts.windows.net/t/", "iat": NOW, "nbf": NOW,
            "exp": NOW + 60,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims: ClaimMap = claims.as_object().unwrap().clone().into_iter().filter(|(_, v)| !v.is_null()).collect();
        let payload = encode(Value::Object(claims).to_string().as_bytes());
        let token = format!("{}.{payload}.{}", encode(br#"{"alg":"HS256"}"#), encode(b"anything"));
        claims_without_signature(&token, "orchard", UNIX_EPOCH + Duration::from_secs(NOW))
    }

    #[test]
    fn claims_decide_and_the_signature_does_not() {
        let own = "https://orchard.table.core.windows.net";
        for (change, expected) in [
            (json!({}), None),
            (json!({ "aud": own }), None),
            (json!({ "aud": "https://other.table.core.windows.net" }), Some(TokenError::Audience)),
            (json!({ "aud": null }), Some(TokenError::Audience)),
            (
                json!({ "iss": "https://evil.example/" }),
                Some(TokenError::UnknownIssuer("https://evil.example/".into())),
            ),
            (json!({ "iss": null }), Some(TokenError::Malformed("iss"))),
            (json!({ "nbf": null }), Some(TokenError::Malformed("nbf"))),
            (json!({ "iat": null }), Some(TokenError::Malformed("iat"))),
            (json!({ "exp": null }), Some(TokenError::Malformed("exp"))),
            (json!({ "nbf": NOW + 1 }), Some(TokenError::NotYetValid)),
            (json!({ "exp": NOW }), Some(TokenError::Expired)),
        ] {
            assert_eq!(check(&change).err(), expected, "{change}");
        }
        for (token, expected) in [
            ("a.b".to_owned(), TokenError::Malformed("parts")),
            ("a.b.c.d".to_owned(), TokenError::Malformed("parts")),
            ("a.!.c".to_owned(), TokenError::Malformed("Base64")),
            (format!("a.{}.c", encode(b"[]")), TokenError::Malformed("the claims")),
            ("x".repeat(BEARER_TOKEN_BYTES_MAX + 1), TokenError::TooLarge),
        ] {
            assert_eq!(claims_without_signature(&token, "orchard", UNIX_EPOCH).err(), Some(expected), "{token:.40}");
        }
    }
}
