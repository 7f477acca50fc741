//! The verifier that treats tokens as the emulator does with `--oauth basic`: it checks their claims, but not their
//! signature.
//!
//! Anyone who can reach such a server can write a token that it accepts, so this is only for development. Only
//! [`BearerTokens::Unverified`](super::bearer::BearerTokens::Unverified) enables it.
//!
//! This module must not depend on keys.

use super::oauth::audience::Audiences;
use super::oauth::claims::{ClaimRules, Claims};
use super::oauth::jws::{ClaimMap, decode};
use super::oauth::{AcceptedToken, TokenError};
use crate::failure::{Failure, Layer};
use crate::request::IncomingRequest;
use model::AccountName;
use model::limits::BEARER_TOKEN_BYTES_MAX;
use model::roles::{DataActions, RoleScope};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

const ISSUERS: [&str; 4] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
];

pub(super) fn verify(token: &str, incoming: &IncomingRequest<'_>) -> Result<AcceptedToken, Failure> {
    if !incoming.connection.is_tls {
        return Err(refusal(ReasonKind::BearerOverHttp, "Authentication scheme Bearer is not allowed with HTTP."));
    }
    let addressed = incoming.target.account.as_ref().map_or("", AccountName::as_str);
    match claims_without_signature(token, addressed, incoming.now) {
        Ok(claims) => Ok(AcceptedToken::new(0, claims)),
        Err(error) => Err(refusal(ReasonKind::TokenRefused, detail(&error))),
    }
}

/// Refuses stored access policies, for which the emulator accepts no token. The service checks the roles and therefore
/// names the permission.
pub(super) fn check_operation(incoming: &IncomingRequest<'_>) -> Result<(), Failure> {
    if incoming.options.comp.as_deref() == Some("acl") {
        let reason = ReasonKind::OperationDenied
            .because("With unverified tokens, as with the emulator, only the account's key gives access to policies.");
        let error = ServiceError::from(ErrorCode::AuthorizationFailure).because(reason);
        return Err(Failure::at(Layer::Authentication, error));
    }
    Ok(())
}

/// Every principal has these roles on every account.
pub(super) fn roles(token: &AcceptedToken) -> RoleScope {
    let mut scope = RoleScope::new(Arc::clone(&token.principal().description));
    let service = DataActions::READ_SERVICE.union(DataActions::WRITE_SERVICE);
    scope.allow(None, DataActions::CONTRIBUTOR.union(service));
    scope
}

/// Returns a 403 whose message contains the reason, as the emulator sends it. Its credentials protect nothing.
fn refusal(kind: ReasonKind, detail: &'static str) -> Failure {
    let message = format!("{} {detail}", ErrorCode::AuthenticationFailed.message());
    let error = ServiceError::new(ErrorCode::AuthenticationFailed, message);
    Failure::at(Layer::Authentication, error.because(kind.because(detail)))
}

/// Returns what the emulator tells a client about its token, in the emulator's words.
fn detail(error: &TokenError) -> &'static str {
    match error {
        TokenError::Audience => "Invalid token audience.",
        TokenError::UnknownIssuer(_) => "Invalid token issuer.",
        TokenError::Expired => "Lifetime validation failed. The token is expired.",
        TokenError::NotYetValid => "Lifetime validation failed.",
        _ => "Authentication scheme Bearer is not supported.",
    }
}

/// Returns the claims of an unverified token if the emulator would accept them for this account.
fn claims_without_signature(token: &str, account: &str, now: SystemTime) -> Result<Claims, TokenError> {
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
    use crate::request::ConnectionInfo;
    use model::roles::RequiredActions;
    use serde_json::json;
    use std::net::Ipv4Addr;
    use std::time::UNIX_EPOCH;
    use test_support::minting::encode;

    const NOW: u64 = 1_931_069_730;

    /// Returns a token with the given changes to its claims.
    fn token(change: &Value) -> String {
        let mut claims = json!({
            "aud": "https://storage.azure.com", "iss": "https://sts.windows.net/t/", "iat": NOW, "nbf": NOW,
            "exp": NOW + 60,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let claims: ClaimMap = claims.as_object().unwrap().clone().into_iter().filter(|(_, v)| !v.is_null()).collect();
        let payload = encode(Value::Object(claims).to_string().as_bytes());
        format!("{}.{payload}.{}", encode(br#"{"alg":"HS256"}"#), encode(b"anything"))
    }

    fn check(change: &Value) -> Result<Claims, TokenError> {
        claims_without_signature(&token(change), "orchard", UNIX_EPOCH + Duration::from_secs(NOW))
    }

    /// Returns the result of a request with a token: the roles, or the code and the message for the client.
    fn request(is_tls: bool, path: &str, change: &Value) -> Result<RoleScope, (ErrorCode, String)> {
        let (parts, ()) = http::Request::get(path).header("host", "127.0.0.1").body(()).unwrap().into_parts();
        let connection = ConnectionInfo::direct((Ipv4Addr::LOCALHOST, 1024).into(), is_tls);
        let now = (crate::clock::instant(), UNIX_EPOCH + Duration::from_secs(NOW));
        let incoming = IncomingRequest::new(&parts, connection, now, &[]);
        let granted = verify(&token(change), &incoming).and_then(|accepted| {
            check_operation(&incoming)?;
            Ok(roles(&accepted))
        });
        granted.map_err(|failure| (failure.error.code, failure.error.message.into()))
    }

    #[test]
    fn clients_get_the_roles_and_the_reasons_of_the_emulator() {
        let roles = request(true, "/orchard/harvest()", &json!({})).unwrap();
        for needs in [RequiredActions::READ_ENTITIES, RequiredActions::INSERT, RequiredActions::READ_SERVICE] {
            assert!(roles.permits(needs, Some("harvest")), "{needs:?}");
        }
        let policies = request(true, "/orchard/harvest?comp=acl", &json!({})).unwrap_err();
        assert_eq!(policies.0, ErrorCode::AuthorizationFailure);
        for (is_tls, change, reason) in [
            (false, json!({}), "Authentication scheme Bearer is not allowed with HTTP."),
            (true, json!({ "aud": "api://other" }), "Invalid token audience."),
            (true, json!({ "iss": "https://evil.example/" }), "Invalid token issuer."),
            (true, json!({ "exp": NOW }), "Lifetime validation failed. The token is expired."),
            (true, json!({ "nbf": null }), "Authentication scheme Bearer is not supported."),
        ] {
            let (code, message) = request(is_tls, "/orchard/harvest()", &change).unwrap_err();
            assert_eq!(code, ErrorCode::AuthenticationFailed);
            assert!(message.ends_with(&format!(" {reason}")), "{message}");
        }
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
