//! The claims of a token whose signature was verified: checks of its times, and its principal (specification 09 §6).

use super::audience::Audiences;
use super::jws::ClaimMap;
use super::token_error::TokenError;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::sas::user_delegation::SubjectClaim;

#[derive(Debug, Clone)]
pub(crate) struct ClaimRules {
    pub(crate) audiences: Audiences,
    pub(crate) leeway: Duration,
    /// The maximum time from issue to expiry.
    pub(crate) lifetime_max: Option<Duration>,
    /// The accepted directories (`tid`); empty for all.
    pub(crate) directories: Vec<String>,
    /// The accepted client applications; empty for all.
    pub(crate) clients: Vec<String>,
    /// The claim that names roles, or a path of members separated by dots.
    pub(crate) role_claim: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) principal: Principal,
    pub(crate) audiences: Vec<String>,
    pub(crate) expires: SystemTime,
}

/// The caller, described by all the attributes that assignments can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) oid: Option<String>,
    pub(crate) sub: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) roles: Vec<String>,
    pub(crate) description: Arc<str>,
}

impl Principal {
    /// Returns `oid`, or `sub` in tokens without `oid` (09 §6).
    pub(crate) fn subject(&self) -> Option<(SubjectClaim, &str)> {
        let oid = self.oid.as_deref().map(|oid| (SubjectClaim::Oid, oid));
        oid.or_else(|| self.sub.as_deref().map(|sub| (SubjectClaim::Sub, sub)))
    }

    pub(crate) fn from_subject(claim: SubjectClaim, id: &str) -> Self {
        match claim {
            SubjectClaim::Oid => Self { oid: Some(id.to_owned()), ..Self::default() },
            SubjectClaim::Sub => Self { sub: Some(id.to_owned()), ..Self::default() },
        }
    }
}

impl ClaimRules {
    /// Checks everything except the audience, which depends on the addressed account.
    pub(crate) fn check(&self, claims: &ClaimMap, now: SystemTime) -> Result<Claims, TokenError> {
        let expires = self.check_times(claims, now)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_listed = |list: &[String], value: Option<&String>| {
            list.is_empty() || value.is_some_and(|value| list.iter().any(|listed| listed == value))
        };
        let tenant = text("tid");
        if !is_listed(&self.directories, tenant.as_ref()) {
            return Err(TokenError::Directory);
        }
        let client = text("appid").or_else(|| text("azp")).or_else(|| text("client_id"));
        if !is_listed(&self.clients, client.as_ref()) {
            return Err(TokenError::Client);
        }
        // A token with too many groups contains only a link to them. The groups are not fetched and count as unknown.
        let groups = if claims.contains_key("_claim_names") { Vec::new() } else { texts(claims.get("groups")) };
        let roles = texts(at_path(claims, &self.role_claim));
        let (oid, sub) = (text("oid"), text("sub"));
        let mut principal = Principal { oid, sub, tenant, client, groups, roles, ..Principal::default() };
        let (_, subject) = principal.subject().ok_or(TokenError::Malformed("neither oid nor sub"))?;
        let token_id = text("uti").or_else(|| text("jti"));
        // Quoted, so that a claim cannot break a line of the log.
        let description = format!(
            "principal {subject:?} of {:?} (client {:?}, token {:?})",
            text("iss").unwrap_or_default(),
            principal.client.as_deref().unwrap_or_default(),
            token_id.as_deref().unwrap_or_default()
        );
        principal.description = description.into();
        let audiences = texts(claims.get("aud"));
        Ok(Claims { principal, audiences, expires })
    }

    fn check_times(&self, claims: &ClaimMap, now: SystemTime) -> Result<SystemTime, TokenError> {
        let expires = time(claims, "exp")?.ok_or(TokenError::Malformed("exp"))?;
        let not_before = time(claims, "nbf")?;
        let issued = time(claims, "iat")?;
        let latest = now + self.leeway;
        if now >= expires + self.leeway {
            return Err(TokenError::Expired);
        }
        if not_before.is_some_and(|not_before| latest < not_before) {
            return Err(TokenError::NotYetValid);
        }
        if issued.is_some_and(|issued| latest < issued) {
            return Err(TokenError::IssuedInTheFuture);
        }
        if let Some(lifetime_max) = self.lifetime_max {
            let from = issued.or(not_before).ok_or(TokenError::LivesTooLong)?;
            if expires.duration_since(from).is_ok_and(|lifetime| lifetime > lifetime_max) {
                return Err(TokenError::LivesTooLong);
            }
        }
        Ok(expires)
    }
}

/// Parses a time in seconds since 1970, possibly with a fraction.
fn time(claims: &ClaimMap, name: &'static str) -> Result<Option<SystemTime>, TokenError> {
    /// The end of the year 9999. A later time is a mistake and would overflow.
    const SECONDS_MAX: f64 = 253_402_300_799.0;
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    seconds.map(|seconds| Some(UNIX_EPOCH + Duration::from_secs_f64(seconds))).ok_or(TokenError::Malformed(name))
}

fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the claim with this name, which may contain dots, or else the value at the end of the path.
fn at_path<'c>(claims: &'c ClaimMap, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let mut members = path.split('.');
    let first = claims.get(members.next()?)?;
    members.try_fold(first, |value, member| value.get(member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_931_069_730;

    fn rules() -> ClaimRules {
        ClaimRules {
            audiences: Audiences::new(&[]),
            leeway: Duration::from_mins(5),
            lifetime_max: None,
            directories: Vec::new(),
            clients: Vec::new(),
            role_claim: "roles".into(),
        }
    }

    fn check(rules: &ClaimRules, change: Value) -> Result<Claims, TokenError> {
        let mut claims = json!({
            "aud": "https://storage.azure.com", "iss": "https://sts.example/t/", "iat": NOW, "nbf": NOW,
            "exp": NOW + 3900, "oid": "o", "sub": "s", "appid": "a", "tid": "t", "uti": "u",
        });
        let Value::Object(change) = change else { panic!("an object was expected") };
        for (name, value) in change {
            claims[&name] = value;
        }
        let claims = claims.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
        let claims = claims.map(|(name, value)| (name.clone(), value.clone())).collect();
        rules.check(&claims, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    #[test]
    fn a_token_as_the_public_issuer_makes_them() {
        let claims = check(&rules(), json!({})).unwrap();
        assert_eq!(claims.audiences, ["https://storage.azure.com"]);
        assert_eq!(claims.expires, UNIX_EPOCH + Duration::from_secs(NOW + 3900));
        let principal = claims.principal;
        assert_eq!(&*principal.description, r#"principal "o" of "https://sts.example/t/" (client "a", token "u")"#);
        assert_eq!((principal.oid.as_deref(), principal.sub.as_deref()), (Some("o"), Some("s")));
    }

    #[test]
    fn times() {
        for (change, expected) in [
            (json!({ "exp": NOW - 299 }), None),
            (json!({ "exp": NOW - 300 }), Some(TokenError::Expired)),
            (json!({ "exp": 1_931_069_430.5 }), None),
            (json!({ "exp": null }), Some(TokenError::Malformed("exp"))),
            (json!({ "exp": "later" }), Some(TokenError::Malformed("exp"))),
            (json!({ "exp": -1 }), Some(TokenError::Malformed("exp"))),
            (json!({ "exp": 1e300 }), Some(TokenError::Malformed("exp"))),
            (json!({ "exp": u64::MAX }), Some(TokenError::Malformed("exp"))),
            (json!({ "nbf": null, "iat": null }), None),
            (json!({ "nbf": NOW + 300 }), None),
            (json!({ "nbf": NOW + 301 }), Some(TokenError::NotYetValid)),
            (json!({ "nbf": true }), Some(TokenError::Malformed("nbf"))),
            (json!({ "iat": NOW + 300 }), None),
            (json!({ "iat": NOW + 301 }), Some(TokenError::IssuedInTheFuture)),
        ] {
            assert_eq!(check(&rules(), change.clone()).err(), expected, "{change}");
        }
        let short = ClaimRules { lifetime_max: Some(Duration::from_hours(1)), ..rules() };
        assert_eq!(check(&short, json!({})).err(), Some(TokenError::LivesTooLong));
        assert_eq!(check(&short, json!({ "exp": NOW + 3600 })).err(), None);
        assert_eq!(
            check(&short, json!({ "nbf": null, "iat": null, "exp": NOW + 1 })).err(),
            Some(TokenError::LivesTooLong)
        );
    }

    #[test]
    fn lists_of_directories_and_clients() {
        let listed = ClaimRules { directories: vec!["t".into()], clients: vec!["a".into()], ..rules() };
        assert_eq!(check(&listed, json!({})).err(), None);
        assert_eq!(check(&listed, json!({ "tid": "x" })).err(), Some(TokenError::Directory));
        assert_eq!(check(&listed, json!({ "tid": null })).err(), Some(TokenError::Directory));
        assert_eq!(check(&listed, json!({ "appid": "x" })).err(), Some(TokenError::Client));
        assert_eq!(check(&listed, json!({ "appid": null })).err(), Some(TokenError::Client));
        assert_eq!(check(&listed, json!({ "appid": null, "azp": "a" })).err(), None);
    }

    #[test]
    fn principals() {
        let principal = |rules: &ClaimRules, change| check(rules, change).map(|claims| claims.principal);
        assert!(principal(&rules(), json!({ "oid": null })).is_ok());
        assert!(principal(&rules(), json!({ "oid": null, "sub": null })).is_err());
        let groups = |change| principal(&rules(), change).unwrap().groups;
        assert_eq!(groups(json!({ "groups": ["g", 7, "h"] })), ["g", "h"]);
        assert!(groups(json!({ "groups": ["g"], "_claim_names": { "groups": "src1" } })).is_empty());
        let roles =
            |path: &str, change| principal(&ClaimRules { role_claim: path.into(), ..rules() }, change).unwrap().roles;
        assert_eq!(roles("roles", json!({ "roles": "r" })), ["r"]);
        assert_eq!(roles("realm.access.roles", json!({ "realm": { "access": { "roles": ["r"] } } })), ["r"]);
        assert_eq!(roles("https://a.example/roles", json!({ "https://a.example/roles": ["r"] })), ["r"]);
        assert!(roles("realm.roles", json!({ "realm": [] })).is_empty());
        // Scopes (`scp`) grant nothing.
        assert!(roles("roles", json!({ "scp": "user_impersonation tables.write" })).is_empty());
        let described = principal(&rules(), json!({ "oid": "o\nforged line" })).unwrap().description;
        assert!(!described.contains('\n'), "{described}");
    }
}
