//! Input that authentication parses before the sender is known: signatures, shared access signatures, bearer tokens and
//! the keys of their issuers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::limits::{USER_DELEGATION_FIELD_BYTES_MAX, USER_DELEGATION_KEY_SECONDS_MAX};
use model::roles::RoleScope;
use model::{DateTime, Scope, StoredAccessPolicies};
use oauth::audience::Audiences;
use oauth::claims::ClaimRules;
use oauth::jws::{ClaimMap, Jws};
use oauth::key_set::KeySet;
use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};
use wire::sas::user_delegation::KeyInfo;
use wire::sas::{Fields, Sas, SasContext, SasError, parse_time, verify_delegated};
use wire::signing::{AccountKey, Authorization, Scheme, SignedRequest, any_verifies, parse_date};

/// The modules of the server that read bearer tokens and keys. They are compiled here, unchanged, because the server
/// does not offer them to others.
#[allow(dead_code, reason = "the targets use only parts of the modules")]
#[path = "../../server/src/authorization/oauth"]
mod oauth {
    pub(crate) mod algorithm;
    pub(crate) mod audience;
    pub(crate) mod claims;
    pub(crate) mod jws;
    pub(crate) mod key_set;
    pub(crate) mod token_error;
}

/// With the headers `{"alg":"RS256"}`, `{"alg":"ES256"}` and `{"alg":"EdDSA"}`, and no claims.
const TOKENS: [&str; 3] =
    ["eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "eyJhbGciOiJFUzI1NiJ9.e30.AAAA", "eyJhbGciOiJFZERTQSJ9.e30.AAAA"];

static ACCOUNT_KEY: LazyLock<AccountKey> = LazyLock::new(|| {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    AccountKey::parse(key).expect("the key is Base64")
});

/// The keys in a seed of `jwks`.
static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let seeds: serde_json::Value = serde_json::from_str(include_str!("../seeds.json")).expect("the seeds are JSON");
    let keys = seeds["jwks"]["three_keys"].as_str().expect("the seed exists");
    KeySet::parse(keys.as_bytes()).expect("the seed is a set of keys")
});

pub(crate) fn jwks(data: &[u8]) {
    let Ok(keys) = KeySet::parse(data) else { return };
    assert!(keys.len() <= 256);
    for token in TOKENS {
        let jws = Jws::parse(token).expect("the token is well-formed");
        if let Ok(key) = keys.find(jws.key_id(), jws.algorithm()) {
            assert!(key.fits(jws.algorithm()));
        }
        check_signature(jws, &keys);
    }
}

/// A token, or else the header and the claims of one, which are encoded first.
pub(crate) fn jwt(text: &str) {
    check_token(text);
    if let Some((header, claims)) = text.split_once('\n') {
        check_token(&format!("{}.{}.AAAA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims)));
    }
}

fn check_token(token: &str) {
    let Ok(jws) = Jws::parse(token) else { return };
    let _issuer = jws.issuer();
    check_signature(jws, &KEYS);
    let claims = token.split('.').nth(1).and_then(|part| oauth::jws::decode(part).ok());
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

fn check_signature(jws: Jws<'_>, keys: &KeySet) {
    if let Ok(key) = keys.find(jws.key_id(), jws.algorithm()) {
        assert!(jws.verify(key).is_err(), "a signature cannot be guessed");
    }
}

fn verify<'q>(query: &'q str, account: &str) -> Result<Sas<'q>, SasError> {
    let keys = [ACCOUNT_KEY.clone()];
    verify_delegated(query, account, &keys, |_| keys.to_vec())
}

/// The first line is a query string. The other lines are the fields of a token to create.
pub(crate) fn sas(text: &str) {
    let (query, fields) = text.split_once('\n').unwrap_or((text, ""));
    assert!(verify(query, "acct").is_err(), "a signature cannot be guessed");
    let mut lines = fields.split('\n');
    let mut line = || lines.next().unwrap_or_default().into();
    let fields = Fields {
        version: line(),
        table: line(),
        permissions: line(),
        start: line(),
        expiry: line(),
        start_partition: line(),
        start_row: line(),
        end_partition: line(),
        end_row: line(),
        sources: line(),
        protocols: line(),
        services: line(),
        resources: line(),
        delegator: line(),
        delegator_tenant: line(),
        key_start: line(),
        key_expiry: line(),
        key_service: line(),
        key_version: line(),
        user_tenant: line(),
        user: line(),
        ..Fields::default()
    };
    // The key terms of a user delegation token must have an interval and a plausible length; otherwise, no key can have
    // signed it.
    let has_interval = [&fields.key_start, &fields.key_expiry].iter().all(|time| parse_time(time).is_some());
    let texts =
        [&fields.delegator, &fields.delegator_tenant, &fields.key_service, &fields.key_version, &fields.user_tenant];
    let is_short = texts.iter().all(|text| text.len() <= USER_DELEGATION_FIELD_BYTES_MAX);
    let names_a_key = fields.delegator.is_empty() || has_interval && is_short;
    let Ok(token) = fields.sign("acct", &ACCOUNT_KEY) else { return };
    assert!(verify(&token, "acu").is_err(), "a token is valid for only one account");
    let now = parse_time("2031-03-14").expect("the date is valid");
    for now in [now, DateTime::MIN] {
        let sas = match verify(&token, "acct") {
            Err(error) => return assert!(!(names_a_key && matches!(error, SasError::Signature(_))), "{token}"),
            Ok(sas) => sas,
        };
        let used = SasContext { now, source: Ipv4Addr::LOCALHOST.into(), is_https: true };
        let scope = sas.scope(&StoredAccessPolicies::default(), used);
        assert!(!matches!(scope, Ok(Scope::Owner)), "no token may grant the rights of a key");
        if let Ok(Scope::Delegated { roles, .. }) = &scope {
            assert_eq!(*roles, RoleScope::default(), "the token must not contain roles");
        }
    }
}

/// The lines are: Authorization, date, method, Content-MD5, Content-Type, path, comp, account key.
pub(crate) fn signing(text: &str) {
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let header = line();
    if let Some(authorization) = Authorization::parse(header) {
        assert!(!authorization.account.is_empty() && header.contains(authorization.account));
    }
    let date = line();
    if let Some(time) = parse_date(date) {
        assert_eq!(parse_date(&httpdate::fmt_http_date(time)), Some(time), "the usual form of {date}");
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
    // A created header can be parsed, and its signature is valid only for the given string.
    let key = AccountKey::parse(line()).unwrap_or_else(|| ACCOUNT_KEY.clone());
    let header = format!("SharedKey acct:{}", key.sign(&full));
    let authorization = Authorization::parse(&header).expect("a created header is valid");
    let signature = authorization.signature.expect("a created signature is valid");
    assert_eq!((authorization.scheme, authorization.account), (Scheme::SharedKey, "acct"));
    assert!(any_verifies([&key], &full, &signature));
    assert!(!any_verifies([&key], &format!("{full} "), &signature));
}

/// An accepted request for a user delegation key has terms within the limits.
pub(crate) fn user_delegation(document: &[u8]) {
    let now = parse_time("2031-03-14").expect("the date is valid");
    let Ok(info) = KeyInfo::read(document, now) else { return };
    assert!(info.start < info.expiry && now < info.expiry);
    let seconds = u64::try_from(info.expiry.unix_seconds() - now.unix_seconds()).expect("the expiry is later");
    assert!(seconds <= USER_DELEGATION_KEY_SECONDS_MAX);
    assert!(!info.delegated_tenant.contains(char::is_control));
}
