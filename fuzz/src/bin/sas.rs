//! Shared access signatures in untrusted query strings.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::USER_DELEGATION_FIELD_BYTES_MAX;
use model::roles::RoleScope;
use model::{DateTime, Scope, StoredAccessPolicies};
use std::net::Ipv4Addr;
use wire::sas::{Fields, Sas, SasContext, SasError, parse_time, verify_delegated};
use wire::signing::AccountKey;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";

fn verify<'q>(query: &'q str, account: &str, keys: &[AccountKey]) -> Result<Sas<'q>, SasError> {
    verify_delegated(query, account, keys, |_| keys.to_vec())
}

// The first line is a query string. The other lines are the fields of a token to create.
fuzz_target!(|text: &str| {
    let key = AccountKey::parse(KEY).expect("the key is Base64");
    let keys = [key.clone()];
    let (query, fields) = text.split_once('\n').unwrap_or((text, ""));
    assert!(verify(query, "acct", &keys).is_err(), "a signature cannot be guessed");
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
    let Ok(token) = fields.sign("acct", &key) else { return };
    assert!(verify(&token, "acu", &keys).is_err(), "a token is valid for only one account");
    let sas = match verify(&token, "acct", &keys) {
        Err(error) => return assert!(!(names_a_key && matches!(error, SasError::Signature(_))), "{token}"),
        Ok(sas) => sas,
    };
    let now = parse_time("2031-03-14").expect("the date is valid");
    let used = SasContext { now, source: Ipv4Addr::LOCALHOST.into(), is_https: true };
    let scope = sas.scope(&StoredAccessPolicies::default(), used);
    assert!(!matches!(scope, Ok(Scope::Owner)), "no token may grant the rights of a key");
    if let Ok(Scope::Delegated { roles, .. }) = &scope {
        assert_eq!(*roles, RoleScope::default(), "the token must not contain roles");
    }
    let long_ago = SasContext { now: DateTime::MIN, ..used };
    drop(verify(&token, "acct", &keys).map(|sas| sas.scope(&StoredAccessPolicies::default(), long_ago)));
});
