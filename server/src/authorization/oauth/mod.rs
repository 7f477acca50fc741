//! Bearer tokens of any OpenID Connect issuer (specification 09).
//!
//! Invariants:
//!
//! 1. No claim of a token is used before its signature was verified with a key of the issuer that it names, except to
//!    find that key.
//! 2. Without keys, every token is rejected.
//! 3. No token is ever logged, stored or forwarded.
//!
//! Code in this folder must not depend on tables, entities or operations.

mod algorithm;
mod assignments;
pub(super) mod audience;
mod challenge;
pub(super) mod claims;
mod fetch;
pub(super) mod jws;
mod key_set;
mod key_source;
mod settings;
mod token_cache;
mod token_error;

pub use settings::{OAuthConfig, OAuthSection};
pub(crate) use token_error::TokenError;

use crate::reload::{self, Files, Live};
use anyhow::{Context, bail};
use assignments::Assignments;
use claims::{Claims, Principal};
use fetch::IssuerClient;
use http::HeaderValue;
use jws::Jws;
use key_source::{KeySource, KeySourceError};
use model::AccountName;
use model::roles::RoleScope;
use settings::{IssuerConfig, KeyLocation};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use token_cache::{CachedToken, TokenCache, digest_of};
use tracing::warn;
use wire::sas::user_delegation::SubjectClaim;

pub(crate) struct OAuth {
    challenge: Option<HeaderValue>,
    allow_plain_http: bool,
    issuers: Vec<Issuer>,
    assignments: Assignments,
    live_assignments: Arc<Live<Assignments>>,
    cache: TokenCache,
}

struct Issuer {
    config: IssuerConfig,
    keys: Arc<KeySource>,
}

/// A token that its verifier accepted.
pub(crate) struct AcceptedToken {
    issuer: usize,
    claims: Arc<Claims>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    pub(crate) issuer: usize,
    pub(crate) claim: SubjectClaim,
    pub(crate) id: &'a str,
    pub(crate) tenant: &'a str,
}

/// The tenant of principals whose tokens name none. Clients expect a UUID.
const NO_TENANT: &str = "00000000-0000-0000-0000-000000000000";

impl AcceptedToken {
    /// `issuer` is the index of the issuer in the configuration of the verifier.
    pub(super) fn new(issuer: usize, claims: Claims) -> Self {
        Self { issuer, claims: Arc::new(claims) }
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.claims.principal
    }

    pub(crate) fn expires(&self) -> SystemTime {
        self.claims.expires
    }

    pub(crate) fn subject(&self) -> Option<Subject<'_>> {
        let principal = self.principal();
        let (claim, id) = principal.subject()?;
        let tenant = principal.tenant.as_deref().unwrap_or(NO_TENANT);
        Some(Subject { issuer: self.issuer, claim, id, tenant })
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.issuers.iter().map(|issuer| issuer.keys.name())).finish()
    }
}

impl OAuth {
    /// Fetches the issuers' keys, and from then on keeps them and the assignments current.
    ///
    /// An unreachable issuer is not an error; its keys are fetched later. A discovery document of another issuer, or
    /// an unreadable key file, is an error.
    pub(crate) async fn start(config: OAuthConfig) -> anyhow::Result<Self> {
        let needs_client = config.issuers.iter().any(|issuer| !matches!(issuer.source, KeyLocation::File(_)));
        let client = if needs_client {
            let client = IssuerClient::new(config.allow_plain_http_issuer).context("preparing TLS to issuers")?;
            Some(Arc::new(client))
        } else {
            None
        };
        let issuers: Vec<Issuer> = config
            .issuers
            .into_iter()
            .map(|issuer| {
                let keys = KeySource::new(issuer.names.clone(), issuer.source.clone(), client.clone());
                Issuer { keys: Arc::new(keys), config: issuer }
            })
            .collect();
        keep_fresh(&issuers).await?;
        let live_assignments = match config.assignments_file {
            None => Arc::new(Live::new(Assignments::default())),
            Some((files, assignments)) => {
                let live = Arc::new(Live::new(assignments));
                follow_assignments(files, Arc::clone(&live), config.roles, &issuers)?;
                live
            }
        };
        Ok(Self {
            challenge: config.challenge,
            allow_plain_http: config.allow_plain_http,
            issuers,
            assignments: config.assignments,
            live_assignments,
            cache: TokenCache::default(),
        })
    }

    pub(crate) fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }

    pub(crate) fn allows_plain_http(&self) -> bool {
        self.allow_plain_http
    }

    /// Checks a token for an account (09 §6). `account` is unchecked text from the URL.
    pub(crate) async fn verify(
        &self,
        token: &str,
        account: &str,
        now: SystemTime,
    ) -> Result<AcceptedToken, TokenError> {
        let digest = digest_of(token);
        let known = self.cache.get(&digest, now).filter(|known| self.is_current(known));
        let verified = if let Some(CachedToken { issuer, claims, .. }) = known {
            AcceptedToken { issuer, claims }
        } else {
            let (issuer, generation, claims) = self.check(token, now).await?;
            let claims = Arc::new(claims);
            self.cache.insert(digest, issuer, generation, Arc::clone(&claims), now);
            AcceptedToken { issuer, claims }
        };
        let accepted = self.issuers.get(verified.issuer).map(|issuer| &issuer.config.rules.audiences);
        let is_for_account = accepted.is_some_and(|accepted| accepted.accept(&verified.claims.audiences, account));
        if is_for_account { Ok(verified) } else { Err(TokenError::Audience) }
    }

    pub(crate) fn roles(&self, verified: &AcceptedToken, account: &AccountName) -> RoleScope {
        self.roles_of(verified.issuer, verified.principal(), account)
    }

    fn roles_of(&self, issuer: usize, principal: &Principal, account: &AccountName) -> RoleScope {
        let mut scope = RoleScope::new(Arc::clone(&principal.description));
        self.assignments.allow(&mut scope, issuer, principal, account);
        self.live_assignments.current().allow(&mut scope, issuer, principal, account);
        scope
    }

    /// Roles from groups, client applications and app roles do not count, because a signature does not contain them.
    pub(crate) fn roles_by_id(&self, subject: Subject<'_>, account: &AccountName) -> RoleScope {
        let description =
            format!("principal {:?} of {:?} by a user delegation key", subject.id, self.name(subject.issuer));
        let principal =
            Principal { description: description.into(), ..Principal::from_subject(subject.claim, subject.id) };
        self.roles_of(subject.issuer, &principal, account)
    }

    /// An issuer's index is less than this number.
    pub(crate) fn issuers(&self) -> usize {
        self.issuers.len()
    }

    pub(crate) fn name(&self, issuer: usize) -> &str {
        self.issuers.get(issuer).and_then(|issuer| issuer.config.names.first()).map_or("", String::as_str)
    }

    pub(crate) fn accepts_tenant(&self, issuer: usize, tenant: &str) -> bool {
        self.listed_tenants(issuer).is_empty() || self.has_tenant(issuer, tenant)
    }

    pub(crate) fn has_tenant(&self, issuer: usize, tenant: &str) -> bool {
        self.listed_tenants(issuer).iter().any(|listed| listed == tenant)
    }

    /// An empty list means that every tenant is accepted.
    fn listed_tenants(&self, issuer: usize) -> &[String] {
        self.issuers.get(issuer).map_or(&[], |issuer| &issuer.config.rules.directories)
    }

    async fn check(&self, token: &str, now: SystemTime) -> Result<(usize, u64, Claims), TokenError> {
        let jws = Jws::parse(token)?;
        let name = jws.issuer()?;
        let is_named = |issuer: &Issuer| issuer.config.names.iter().any(|own| own == name);
        let index = self.issuers.iter().position(is_named);
        let unknown = || TokenError::UnknownIssuer(name.chars().take(200).collect());
        let (index, issuer) =
            index.and_then(|index| self.issuers.get(index).map(|issuer| (index, issuer))).ok_or_else(unknown)?;
        if !issuer.config.algorithms.contains(&jws.algorithm()) {
            return Err(TokenError::Algorithm);
        }
        let (key, generation) = issuer.keys.key(jws.key_id(), jws.algorithm()).await?;
        let claims = issuer.config.rules.check(&jws.verify(&key)?, now)?;
        Ok((index, generation, claims))
    }

    fn is_current(&self, known: &CachedToken) -> bool {
        self.issuers.get(known.issuer).and_then(|issuer| issuer.keys.generation()) == Some(known.generation)
    }
}

async fn keep_fresh(issuers: &[Issuer]) -> anyhow::Result<()> {
    let first: Vec<_> = issuers
        .iter()
        .map(|issuer| {
            let keys = Arc::clone(&issuer.keys);
            tokio::spawn(async move { keys.refresh().await })
        })
        .collect();
    for (issuer, first) in issuers.iter().zip(first) {
        let name = issuer.keys.name();
        let pause = match first.await.context("fetching keys")? {
            Ok(pause) => Some(pause),
            Err(error @ (KeySourceError::OtherIssuer(_) | KeySourceError::File(_))) => {
                bail!("issuer '{name}': {error}")
            }
            Err(error) => {
                warn!(issuer = name, "tokens are refused until the keys can be fetched: {error}");
                None
            }
        };
        let keys = Arc::clone(&issuer.keys);
        tokio::spawn(async move { keys.keep_fresh(pause).await });
    }
    Ok(())
}

fn follow_assignments(
    files: Files<1>,
    live: Arc<Live<Assignments>>,
    roles: assignments::Roles,
    issuers: &[Issuer],
) -> anyhow::Result<()> {
    let names: Vec<Vec<String>> = issuers.iter().map(|issuer| issuer.config.names.clone()).collect();
    let make = move |files: &Files<1>| {
        let names: Vec<&[String]> = names.iter().map(Vec::as_slice).collect();
        Assignments::from_file(files, &roles, &names)
    };
    reload::follow("role assignments", files, live, make)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::roles::RequiredActions;
    use serde_json::{Value, json};
    use std::path::Path;
    use std::time::{Duration, UNIX_EPOCH};
    use test_support::minting::{KeyPair, header};

    const NOW: u64 = 1_931_069_730;
    const ONE: &str = "https://one.example/";

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn write_keys(path: &Path, pairs: &[&KeyPair]) {
        let keys: Vec<Value> = pairs.iter().map(|pair| pair.jwk()).collect();
        std::fs::write(path, json!({ "keys": keys }).to_string()).unwrap();
    }

    /// Creates an [`OAuth`] with two issuers: one with an alias and RS256, and one with ES256 and a separate audience
    /// for each account.
    async fn start(folder: &Path) -> OAuth {
        let (one, two) = (folder.join("one.json"), folder.join("two.json"));
        let text = format!(
            r#"
            [[issuers]]
            issuer = "{ONE}"
            aliases = ["https://one.example/v2.0"]
            jwks-file = {one:?}
            [[issuers]]
            issuer = "https://two.example"
            jwks-file = {two:?}
            algorithms = ["ES256"]
            audiences = ["api://{{account}}"]
            [[assignments]]
            principal = {{ issuer = "{ONE}", oid = "o" }}
            role = "reader"
            scope = "orchardacct"
            "#
        );
        OAuth::start(OAuthConfig::new(&toml::from_str(&text).unwrap()).unwrap()).await.unwrap()
    }

    fn claims(issuer: &str, audience: &str) -> Value {
        json!({ "iss": issuer, "aud": audience, "exp": NOW + 3600, "iat": NOW, "oid": "o" })
    }

    #[tokio::test]
    async fn tokens_of_two_issuers() {
        let folder = tempfile::tempdir().unwrap();
        let (rsa, ec) = (KeyPair::rsa("k"), KeyPair::p256("k"));
        write_keys(&folder.path().join("one.json"), &[&rsa]);
        write_keys(&folder.path().join("two.json"), &[&ec, &rsa]);
        let oauth = start(folder.path()).await;
        let storage = "https://storage.azure.com";
        let rs256 = |claims: &Value| rsa.sign(&header("RS256", &rsa), claims);
        let es256 = |claims: &Value| ec.sign(&header("ES256", &ec), claims);
        let other_issuer = |name: &str| TokenError::UnknownIssuer(name.to_owned());
        for (token, expected) in [
            (rs256(&claims(ONE, storage)), None),
            (rs256(&claims("https://one.example/v2.0", storage)), None),
            (rs256(&claims("https://one.example", storage)), Some(other_issuer("https://one.example"))),
            (rs256(&claims("https://one.example/x", storage)), Some(other_issuer("https://one.example/x"))),
            (rs256(&claims("https://two.example", "api://orchardacct")), Some(TokenError::Algorithm)),
            (es256(&claims(ONE, storage)), Some(TokenError::Algorithm)),
            (es256(&claims("https://two.example", "api://orchardacct")), None),
            (es256(&claims("https://two.example", "api://otheracct")), Some(TokenError::Audience)),
            (es256(&claims("https://two.example", storage)), Some(TokenError::Audience)),
        ] {
            // The second time the result comes from the cache.
            for _ in 0..2 {
                assert_eq!(oauth.verify(&token, "orchardacct", at(NOW)).await.err(), expected);
            }
        }
    }

    #[tokio::test]
    async fn a_known_token_is_still_bound_to_its_account_time_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        let (rsa, ec, new) = (KeyPair::rsa("k"), KeyPair::p256("k"), KeyPair::p256("new"));
        write_keys(&folder.path().join("one.json"), &[&rsa]);
        let two = folder.path().join("two.json");
        write_keys(&two, &[&ec]);
        let oauth = start(folder.path()).await;
        let token = ec.sign(&header("ES256", &ec), &claims("https://two.example", "api://orchardacct"));
        let verify = async |account, seconds| oauth.verify(&token, account, at(seconds)).await.err();
        assert_eq!(verify("orchardacct", NOW).await, None);
        assert_eq!(verify("otheracct", NOW).await, Some(TokenError::Audience));
        assert_eq!(verify("orchardacct", NOW + 3600 + 299).await, None);
        assert_eq!(verify("orchardacct", NOW + 3600 + 300).await, Some(TokenError::Expired));
        // A token with a new key causes a refresh, which removes the old key.
        write_keys(&two, &[&new]);
        let fresh = new.sign(&header("ES256", &new), &claims("https://two.example", "api://orchardacct"));
        assert!(oauth.verify(&fresh, "orchardacct", at(NOW)).await.is_ok());
        assert_eq!(verify("orchardacct", NOW).await, Some(TokenError::UnknownKey));
    }

    #[tokio::test]
    async fn roles_belong_to_an_account() {
        let folder = tempfile::tempdir().unwrap();
        let rsa = KeyPair::rsa("k");
        write_keys(&folder.path().join("one.json"), &[&rsa]);
        write_keys(&folder.path().join("two.json"), &[]);
        let oauth = start(folder.path()).await;
        let token = rsa.sign(&header("RS256", &rsa), &claims(ONE, "https://storage.azure.com"));
        let verified = oauth.verify(&token, "orchardacct", at(NOW)).await.unwrap();
        let may_read = |account| {
            oauth
                .roles(&verified, &AccountName::new(account).unwrap())
                .permits(RequiredActions::READ_ENTITIES, Some("harvest"))
        };
        assert!(may_read("orchardacct") && !may_read("otheracct"));
    }

    #[tokio::test]
    async fn an_unreadable_key_file_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[[issuers]]\nissuer = \"i\"\njwks-file = {:?}", folder.path().join("none.json"));
        let config = OAuthConfig::new(&toml::from_str(&text).unwrap()).unwrap();
        assert!(OAuth::start(config).await.is_err());
    }
}
