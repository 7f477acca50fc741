//! The meaning of a verified token's fields, and the scope that it grants in a request (specification 08 §3 to §9).
//!
//! This module must not depend on signatures.

use super::error::SasError;
use super::fields::{Fields, Kind};
use super::time::parse_time;
use super::user_delegation::KeyTerms;
use crate::version::Version;
use model::grant::ResourceTypes;
use model::roles::RoleScope;
use model::{DateTime, Denial, KeyRange, Permissions, Scope, StoredAccessPolicies};
use std::borrow::Cow;
use std::net::IpAddr;

/// A token whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sas<'a> {
    terms: Terms,
    coverage: Coverage<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Terms {
    start: Option<DateTime>,
    expiry: Option<DateTime>,
    permissions: Option<Permissions>,
    sources: Option<AddressRange>,
    https_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Coverage<'a> {
    Table { table: Cow<'a, str>, policy: Cow<'a, str>, range: KeyRange },
    Account { covers_tables: bool, resources: ResourceTypes },
    Delegated { table: Cow<'a, str>, range: KeyRange, delegation: Delegation<'a> },
}

/// The key of a user delegation SAS and the user to whom the SAS is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation<'a> {
    /// The terms of the key.
    pub key: KeyTerms<'a>,
    /// The index of the signing key among the keys derived for these terms.
    pub signer: usize,
    /// The user whose bearer token the request must also carry; empty if the signature is not bound to a user.
    pub user: Cow<'a, str>,
}

/// The time, the client's IP address and the protocol with which a token is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SasContext {
    /// The current time.
    pub now: DateTime,
    /// The IP address of the client.
    pub source: IpAddr,
    /// Whether the request came over HTTPS.
    pub is_https: bool,
}

/// The range includes both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AddressRange {
    from: IpAddr,
    to: IpAddr,
}

impl<'a> Sas<'a> {
    pub(super) fn read(fields: Fields<'a>, signer: usize) -> Result<Self, SasError> {
        let kind = fields.kind().ok_or(SasError::Kind)?;
        let version = fields.signed_version(kind)?;
        // Tokens of older versions do not sign these fields, so anyone may have added them.
        if version < Version::ACCOUNT_SAS && !(fields.sources.is_empty() && fields.protocols.is_empty()) {
            return Err(SasError::Field(if fields.sources.is_empty() { "spr" } else { "sip" }));
        }
        let permissions = match kind {
            Kind::Table | Kind::UserDelegation => Permissions::parse_table,
            Kind::Account => Permissions::parse_account,
        };
        let terms = Terms {
            start: optional("st", &fields.start, parse_time)?,
            expiry: optional("se", &fields.expiry, parse_time)?,
            permissions: optional("sp", &fields.permissions, permissions)?,
            sources: optional("sip", &fields.sources, AddressRange::parse)?,
            https_only: optional("spr", &fields.protocols, https_only)?.unwrap_or(false),
        };
        let coverage = match kind {
            Kind::Table => {
                let range = key_range(&fields)?;
                Coverage::Table { table: fields.table, policy: fields.policy, range }
            }
            Kind::Account => {
                refuse_in_account_sas(&fields, version)?;
                let covers_tables = letters("ss", &fields.services, "bqtf")?.contains('t');
                let types = letters("srt", &fields.resources, "sco")?;
                let has = |letter| types.contains(letter);
                let resources = ResourceTypes { service: has('s'), container: has('c'), object: has('o') };
                Coverage::Account { covers_tables, resources }
            }
            Kind::UserDelegation => {
                refuse_policy(&fields)?;
                let range = key_range(&fields)?;
                let key = fields.key_terms().ok_or(SasError::Field("ske"))?;
                Coverage::Delegated {
                    table: fields.table,
                    range,
                    delegation: Delegation { key, signer, user: fields.user },
                }
            }
        };
        Ok(Self { terms, coverage })
    }

    /// Returns the table whose policies [`Self::scope`] needs, if the token refers to a policy.
    pub fn policy_table(&self) -> Option<&str> {
        match &self.coverage {
            Coverage::Table { table, policy, .. } if !policy.is_empty() => Some(table),
            _ => None,
        }
    }

    /// Returns when the token expires, given the policies of its table.
    pub fn expiry(&self, policies: &StoredAccessPolicies) -> Option<DateTime> {
        let (policy, key) = match &self.coverage {
            Coverage::Table { policy, .. } => (policies.get(policy).and_then(|policy| policy.expiry), None),
            Coverage::Delegated { delegation, .. } => (None, Some(delegation.key.expiry)),
            Coverage::Account { .. } => (None, None),
        };
        [self.terms.expiry, policy, key].into_iter().flatten().min()
    }

    /// Returns what is wrong with the token's own fields at this time, whatever its policy contains.
    pub(super) fn own_defect(&self, now: DateTime) -> Option<SasError> {
        let Terms { start, expiry, permissions, .. } = self.terms;
        if self.policy_table().is_none() {
            match (expiry, permissions) {
                (None, _) => return Some(SasError::Missing("se")),
                (_, None) => return Some(SasError::Missing("sp")),
                _ => {}
            }
        }
        let key = self.delegation().map_or(Ok(()), |delegation| check_key_time(&delegation.key, now));
        check_time(start, expiry.unwrap_or(DateTime::MAX), now).and(key).err()
    }

    /// Returns the delegation if the token is a user delegation SAS.
    pub fn delegation(&self) -> Option<&Delegation<'a>> {
        match &self.coverage {
            Coverage::Delegated { delegation, .. } => Some(delegation),
            Coverage::Table { .. } | Coverage::Account { .. } => None,
        }
    }

    /// Returns what the token allows in this context, given the policies of its table.
    ///
    /// The scope of a user delegation SAS has no roles yet, so it allows nothing until the caller adds the delegator's
    /// roles.
    ///
    /// If a genuine token must not be used in this context, the scope allows nothing and contains the reason.
    pub fn scope(mut self, policies: &StoredAccessPolicies, used: SasContext) -> Result<Scope, SasError> {
        if let Coverage::Table { policy, .. } = &self.coverage
            && !policy.is_empty()
        {
            let policy = policies.get(policy).ok_or(SasError::UnknownPolicy)?;
            self.terms.start = merged("st", self.terms.start, policy.start)?;
            self.terms.expiry = merged("se", self.terms.expiry, policy.expiry)?;
            self.terms.permissions = merged("sp", self.terms.permissions, policy.permissions)?;
        }
        let Terms { start, expiry, permissions, sources, https_only } = self.terms;
        let expiry = expiry.ok_or(SasError::Missing("se"))?;
        let permissions = permissions.ok_or(SasError::Missing("sp"))?;
        check_time(start, expiry, used.now)?;
        if let Coverage::Delegated { delegation, .. } = &self.coverage {
            check_key_time(&delegation.key, used.now)?;
        }
        if sources.is_some_and(|sources| !sources.contains(used.source)) {
            return Ok(Scope::Nothing(Denial::Source(used.source.to_canonical())));
        }
        if https_only && !used.is_https {
            return Ok(Scope::Nothing(Denial::Protocol));
        }
        Ok(match self.coverage {
            Coverage::Table { table, range, .. } => Scope::Table { table: table.into(), permissions, range },
            Coverage::Account { covers_tables: false, .. } => Scope::Nothing(Denial::Service),
            Coverage::Account { resources, .. } => Scope::Account { resources, permissions },
            Coverage::Delegated { table, range, .. } => {
                Scope::Delegated { table: table.into(), permissions, range, roles: RoleScope::default() }
            }
        })
    }
}

/// Checks that a token is valid at the current time.
///
/// UNVERIFIED (08 §4): both ends are included, and no clock skew is allowed.
fn check_time(start: Option<DateTime>, expiry: DateTime, now: DateTime) -> Result<(), SasError> {
    let has_begun = start.is_none_or(|start| start <= now && start < expiry);
    if has_begun && now <= expiry {
        return Ok(());
    }
    let start = start.map(|start| start.to_string()).unwrap_or_default();
    Err(SasError::Time { start, expiry: expiry.to_string(), now: now.to_string() })
}

/// UNVERIFIED (08 §11.4): both ends are included.
fn check_key_time(key: &KeyTerms<'_>, now: DateTime) -> Result<(), SasError> {
    if key.start <= now && now <= key.expiry {
        return Ok(());
    }
    let (start, expiry) = (key.start.to_string(), key.expiry.to_string());
    Err(SasError::KeyTime { start, expiry, now: now.to_string() })
}

/// Returns the key range of a table SAS (08 §6). UNVERIFIED (08 §6): the error code for a row key without its partition
/// key.
fn key_range(fields: &Fields<'_>) -> Result<KeyRange, SasError> {
    fn bound<'f>(
        partition: &'f str,
        row: &'f str,
        name: &'static str,
    ) -> Result<Option<(&'f str, Option<&'f str>)>, SasError> {
        match (partition.is_empty(), row.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Err(SasError::Field(name)),
            (false, _) => Ok(Some((partition, Some(row).filter(|row| !row.is_empty())))),
        }
    }
    let from = bound(&fields.start_partition, &fields.start_row, "srk")?;
    let to = bound(&fields.end_partition, &fields.end_row, "erk")?;
    Ok(KeyRange::pairs(from, to))
}

/// Some kinds of tokens cannot have a policy identifier. UNVERIFIED (08 §8, §11.2): the service rejects such a token
/// instead of ignoring the identifier.
fn refuse_policy(fields: &Fields<'_>) -> Result<(), SasError> {
    if fields.policy.is_empty() { Ok(()) } else { Err(SasError::Field("si")) }
}

fn refuse_in_account_sas(fields: &Fields<'_>, version: Version) -> Result<(), SasError> {
    refuse_policy(fields)?;
    if version < Version::ENCRYPTION_SCOPE && !fields.encryption_scope.is_empty() {
        return Err(SasError::Field("ses"));
    }
    Ok(())
}

/// Returns whether `spr` requires HTTPS, or `None` for an invalid value. UNVERIFIED (08 §5): how the service handles
/// other values.
fn https_only(protocols: &str) -> Option<bool> {
    match protocols {
        "https" => Some(true),
        "https,http" | "http,https" => Some(false),
        _ => None,
    }
}

impl AddressRange {
    /// Parses one IP address, or two separated by a dash. UNVERIFIED (08 §5): whether the service accepts IPv6
    /// addresses.
    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (from.parse::<IpAddr>().ok()?, to.parse::<IpAddr>().ok()?);
        (from.is_ipv4() == to.is_ipv4()).then_some(Self { from, to })
    }

    /// An IPv4-mapped IPv6 address counts as its IPv4 address.
    fn contains(self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        source.is_ipv4() == self.from.is_ipv4() && self.from <= source && source <= self.to
    }
}

fn optional<T>(name: &'static str, text: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, SasError> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some).ok_or(SasError::Field(name)) }
}

fn letters<'t>(name: &'static str, text: &'t str, known: &str) -> Result<&'t str, SasError> {
    if text.chars().all(|letter| known.contains(letter)) { Ok(text) } else { Err(SasError::Field(name)) }
}

/// It is an error if both the token and the policy have the field (08 §7).
fn merged<T>(name: &'static str, token: Option<T>, policy: Option<T>) -> Result<Option<T>, SasError> {
    match (token, policy) {
        (Some(_), Some(_)) => Err(SasError::PolicyClash(name)),
        (token, policy) => Ok(token.or(policy)),
    }
}
