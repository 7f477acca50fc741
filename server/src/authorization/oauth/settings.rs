//! The `[oauth]` section of the configuration file, and the checked configuration built from it (specification 09 §6).

use super::algorithm::Algorithm;
use super::assignments::{AssignmentSection, Assignments, Roles};
use super::audience::Audiences;
use super::challenge::challenge;
use super::claims::ClaimRules;
use super::fetch::IssuerClient;
use crate::reload::Files;
use anyhow::{Context, bail, ensure};
use http::{HeaderValue, Uri};
use model::limits::{BEARER_LEEWAY_SECONDS_DEFAULT, BEARER_LEEWAY_SECONDS_MAX};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

/// The `[oauth]` section, as written in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct OAuthSection {
    /// Where clients get tokens, for the challenge. Its path starts with a UUID.
    authorization_uri: Option<String>,
    /// The resource for which clients request tokens, for the challenge [default: `https://storage.azure.com`].
    resource_id: Option<String>,
    /// Also accept tokens over plain HTTP, for use behind a TLS proxy or in tests.
    allow_bearer_over_plain_http: bool,
    /// Fetch keys over plain HTTP from issuers on this machine, for tests.
    allow_plain_http_issuer_on_loopback: bool,
    issuers: Vec<IssuerSection>,
    /// Additional roles: a name and the actions it allows.
    roles: BTreeMap<String, Vec<String>>,
    assignments: Vec<AssignmentSection>,
    /// A file with more `[[assignments]]`, reloaded when it changes.
    assignments_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct IssuerSection {
    issuer: String,
    /// Other names of the same issuer, in tokens or in the discovery document.
    #[serde(default)]
    aliases: Vec<String>,
    /// Where the keys come from. At most one is set; if none is, the issuer's own discovery document is used.
    discovery_url: Option<String>,
    jwks_uri: Option<String>,
    jwks_file: Option<PathBuf>,
    /// The accepted audiences; `{account}` stands for the addressed account [default: the storage service].
    #[serde(default)]
    audiences: Vec<String>,
    /// [default: RS256]
    algorithms: Option<Vec<String>>,
    leeway_seconds: Option<u64>,
    lifetime_seconds_max: Option<u64>,
    /// Accept only tokens whose `tid` is one of these.
    #[serde(default)]
    tenant_ids: Vec<String>,
    /// Accept only tokens that were issued to one of these client applications.
    #[serde(default)]
    client_ids: Vec<String>,
    role_claim: Option<RoleClaimSection>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RoleClaimSection {
    /// The claim, or a path of members separated by dots [default: roles].
    path: Option<String>,
    /// The accounts, or tables of accounts, for which these roles are valid. If empty, only assignments use the roles.
    #[serde(default)]
    scopes: Vec<String>,
    /// The issuer's own role names, in addition to the built-in ones.
    #[serde(default)]
    values: BTreeMap<String, String>,
}

/// The checked settings for bearer tokens.
#[derive(Debug, Clone)]
pub struct OAuthConfig {
    pub(crate) challenge: Option<HeaderValue>,
    pub(crate) allow_plain_http: bool,
    pub(crate) allow_plain_http_issuer: bool,
    pub(crate) issuers: Vec<IssuerConfig>,
    pub(crate) roles: Roles,
    pub(crate) assignments: Assignments,
    pub(crate) assignments_file: Option<(Files<1>, Assignments)>,
}

#[derive(Debug, Clone)]
pub(crate) struct IssuerConfig {
    pub(crate) names: Vec<String>,
    pub(crate) source: KeyLocation,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) rules: ClaimRules,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    /// A discovery document, which contains the URL of the key set.
    Discovery(Uri),
    KeySet(Uri),
    File(PathBuf),
}

impl OAuthConfig {
    /// Checks the section and returns the configuration.
    pub fn new(section: &OAuthSection) -> anyhow::Result<Self> {
        ensure!(
            !section.issuers.is_empty(),
            "[oauth] names no issuer: add a section such as\n[[oauth.issuers]]\nissuer = \"https://login.example.net\""
        );
        let challenge = match (&section.authorization_uri, &section.resource_id) {
            (Some(uri), resource) => Some(challenge(uri, resource.as_deref())?),
            (None, Some(_)) => bail!("[oauth] resource-id has no effect without authorization-uri"),
            (None, None) => None,
        };
        let allow_plain_http_issuer = section.allow_plain_http_issuer_on_loopback;
        let issuers = section
            .issuers
            .iter()
            .map(|issuer| {
                IssuerConfig::new(issuer, allow_plain_http_issuer)
                    .with_context(|| format!("issuer '{}'", issuer.issuer))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut names = HashSet::new();
        for name in issuers.iter().flat_map(|issuer| &issuer.names) {
            ensure!(names.insert(name), "[oauth] the issuer '{name}' is given twice");
        }
        let roles = Roles::new(&section.roles)?;
        let issuer_names: Vec<_> = issuers.iter().map(|issuer| issuer.names.as_slice()).collect();
        let mut assignments = Assignments::new(&section.assignments, &roles, &issuer_names)?;
        let assignments_file = match &section.assignments_file {
            None => None,
            Some(path) => {
                let files = Files::read_public([path.clone()]).context("reading role assignments")?;
                let assignments = Assignments::from_file(&files, &roles, &issuer_names)?;
                Some((files, assignments))
            }
        };
        for (index, issuer) in section.issuers.iter().enumerate() {
            if let Some(claim) = &issuer.role_claim {
                let values = &claim.values;
                assignments
                    .assign_token_roles(index, &claim.scopes, values, &roles)
                    .with_context(|| format!("issuer '{}': role-claim", issuer.issuer))?;
            }
        }
        Ok(Self {
            challenge,
            allow_plain_http: section.allow_bearer_over_plain_http,
            allow_plain_http_issuer,
            issuers,
            roles,
            assignments,
            assignments_file,
        })
    }
}

impl IssuerConfig {
    fn new(section: &IssuerSection, allow_plain_http: bool) -> anyhow::Result<Self> {
        ensure!(!section.issuer.is_empty(), "the issuer has no name: give the value of iss in its tokens");
        let uri = |text: &str| -> anyhow::Result<Uri> {
            let uri = text.parse().with_context(|| format!("'{text}' is not a valid URL"))?;
            IssuerClient::check(&uri, allow_plain_http)?;
            Ok(uri)
        };
        let source = match (&section.discovery_url, &section.jwks_uri, &section.jwks_file) {
            (Some(url), None, None) => KeyLocation::Discovery(uri(url)?),
            (None, Some(url), None) => KeyLocation::KeySet(uri(url)?),
            (None, None, Some(path)) => KeyLocation::File(path.clone()),
            (None, None, None) => {
                let issuer = section.issuer.trim_end_matches('/');
                KeyLocation::Discovery(uri(&format!("{issuer}/.well-known/openid-configuration"))?)
            }
            _ => bail!(
                "the source of the keys is given more than once: give only one of discovery-url, jwks-uri and jwks-file"
            ),
        };
        let algorithms = match &section.algorithms {
            None => vec![Algorithm::Rs256],
            Some(names) => names
                .iter()
                .map(|name| {
                    Algorithm::parse(name).with_context(|| {
                        format!("the algorithm '{name}' is not supported: give one of {}", Algorithm::names())
                    })
                })
                .collect::<anyhow::Result<_>>()?,
        };
        ensure!(
            !algorithms.is_empty(),
            "algorithms is empty, so no token would be accepted: list at least one, or omit the setting to use RS256"
        );
        let leeway = section.leeway_seconds.unwrap_or(BEARER_LEEWAY_SECONDS_DEFAULT);
        ensure!(
            leeway <= BEARER_LEEWAY_SECONDS_MAX,
            "leeway-seconds is {leeway}: give 0 to {BEARER_LEEWAY_SECONDS_MAX}"
        );
        ensure!(section.lifetime_seconds_max != Some(0), "lifetime-seconds-max is 0: give at least 1");
        let role_claim = section.role_claim.as_ref().and_then(|claim| claim.path.clone());
        Ok(Self {
            names: std::iter::once(&section.issuer).chain(&section.aliases).cloned().collect(),
            source,
            algorithms,
            rules: ClaimRules {
                audiences: Audiences::new(&section.audiences),
                leeway: Duration::from_secs(leeway),
                lifetime_max: section.lifetime_seconds_max.map(Duration::from_secs),
                directories: section.tenant_ids.clone(),
                clients: section.client_ids.clone(),
                role_claim: role_claim.unwrap_or_else(|| "roles".to_owned()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration of specification 09 §6.
    const ENTRA: &str = r#"
        authorization-uri = "https://login.microsoftonline.com/66666666-7777-8888-9999-000000000000/oauth2/authorize"
        resource-id = "https://storage.azure.com"

        [[issuers]]
        issuer = "https://sts.windows.net/66666666-7777-8888-9999-000000000000/"
        aliases = ["https://login.microsoftonline.com/66666666-7777-8888-9999-000000000000/v2.0"]
        jwks-uri = "https://login.microsoftonline.com/66666666-7777-8888-9999-000000000000/discovery/v2.0/keys"
        audiences = ["https://storage.azure.com", "https://orchardacct.table.tables.example.net"]
        algorithms = ["RS256"]

        [roles]
        appender = ["tables/entities/add/action"]

        [[assignments]]
        principal = { oid = "bbbbbbbb-0000-4000-8000-000000000002" }
        role = "contributor"
        scope = "orchardacct/harvest"
    "#;

    fn read(text: &str) -> anyhow::Result<OAuthConfig> {
        OAuthConfig::new(&toml::from_str(text)?)
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", read(text).unwrap_err())
    }

    #[test]
    fn the_example_of_the_specification() {
        let config = read(ENTRA).unwrap();
        assert!(config.challenge.is_some() && !config.allow_plain_http);
        let [issuer] = config.issuers.as_slice() else { panic!("one issuer was expected") };
        assert_eq!(issuer.names.len(), 2);
        assert_eq!((issuer.algorithms.as_slice(), issuer.rules.leeway.as_secs()), (&[Algorithm::Rs256][..], 300));
        assert!(matches!(issuer.source, KeyLocation::KeySet(_)));
    }

    #[test]
    fn an_issuer_alone_is_discovered() {
        for name in ["https://login.example/realms/a", "https://login.example/realms/a/"] {
            let config = read(&format!("[[issuers]]\nissuer = \"{name}\"")).unwrap();
            let expected = "https://login.example/realms/a/.well-known/openid-configuration".parse().unwrap();
            assert_eq!(config.issuers[0].source, KeyLocation::Discovery(expected));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let issuer = |rest: &str| format!("[[issuers]]\nissuer = \"https://login.example\"\n{rest}");
        for (text, part) in [
            (String::new(), "names no issuer"),
            ("isuers = []".to_owned(), "isuers"),
            (format!("resource-id = \"r\"\n{}", issuer("")), "without authorization-uri"),
            (format!("authorization-uri = \"https://a/common\"\n{}", issuer("")), "UUID"),
            (issuer("jwks-uri = \"https://a/k\"\njwks-file = \"k\""), "one of discovery-url, jwks-uri and jwks-file"),
            (issuer("jwks-uri = \"http://a/k\""), "not an https URL"),
            (issuer("jwks-uri = \"http://127.0.0.1/k\""), "allow-plain-http-issuer-on-loopback"),
            (issuer("algorithms = [\"HS256\"]"), "HS256"),
            (issuer("algorithms = [\"none\"]"), "none"),
            (issuer("algorithms = []"), "no token would be accepted"),
            (issuer("leeway-seconds = 601"), "0 to 600"),
            (issuer("aliases = [\"https://login.example\"]"), "given twice"),
            (issuer("[issuers.role-claim]\nscopes = [\"a\"]"), "role-claim"),
            (issuer("[roles]\nreader = [\"tables/read\"]"), "reader"),
            (issuer("[roles]\nx = [\"tables/fly\"]"), "tables/fly"),
        ] {
            let message = refusal(&text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
