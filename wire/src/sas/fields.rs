//! The fields of a token as strings, and the strings to sign derived from them (specification 08 §1, §2, §8, §11).
//!
//! This module must not depend on what the fields mean.

use super::error::SasError;
use super::time::parse_time;
use super::user_delegation::KeyTerms;
use crate::query::pairs;
use crate::signing::AccountKey;
use crate::uri::{encode_component, form_decode, percent_decode};
use crate::version::Version;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::limits::USER_DELEGATION_FIELD_BYTES_MAX;
use std::borrow::Cow;

/// The decoded fields of a token. An absent field is empty, which is equivalent for signing (08 §1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields<'a> {
    /// `sv`: the version that determines how the token is signed.
    pub version: Cow<'a, str>,
    /// `tn`: the table.
    pub table: Cow<'a, str>,
    /// `st`: the start.
    pub start: Cow<'a, str>,
    /// `se`: the expiry.
    pub expiry: Cow<'a, str>,
    /// `sp`: the permissions.
    pub permissions: Cow<'a, str>,
    /// `spk`: the first partition key.
    pub start_partition: Cow<'a, str>,
    /// `srk`: the first row key in the first partition.
    pub start_row: Cow<'a, str>,
    /// `epk`: the last partition key.
    pub end_partition: Cow<'a, str>,
    /// `erk`: the last row key in the last partition.
    pub end_row: Cow<'a, str>,
    /// `si`: the identifier of a stored access policy.
    pub policy: Cow<'a, str>,
    /// `sip`: the IP addresses from which the token may be used.
    pub sources: Cow<'a, str>,
    /// `spr`: the protocols with which the token may be used.
    pub protocols: Cow<'a, str>,
    /// `ss`: the services.
    pub services: Cow<'a, str>,
    /// `srt`: the kinds of resources.
    pub resources: Cow<'a, str>,
    /// `ses`: the encryption scope, which has no meaning for tables.
    pub encryption_scope: Cow<'a, str>,
    /// `skoid`: the delegator. This field and those up to `user` occur only in a user delegation SAS.
    pub delegator: Cow<'a, str>,
    /// `sktid`: the tenant of the delegator.
    pub delegator_tenant: Cow<'a, str>,
    /// `skt`: the start of the user delegation key.
    pub key_start: Cow<'a, str>,
    /// `ske`: the expiry of the user delegation key.
    pub key_expiry: Cow<'a, str>,
    /// `sks`: the service of the user delegation key.
    pub key_service: Cow<'a, str>,
    /// `skv`: the version with which the user delegation key was created.
    pub key_version: Cow<'a, str>,
    /// `skdutid`: the tenant of the user to whom the token is bound.
    pub user_tenant: Cow<'a, str>,
    /// `sduoid`: the user to whom the token is bound. The request must also carry this user's bearer token.
    pub user: Cow<'a, str>,
    /// `sig`: the signature.
    pub signature: Cow<'a, str>,
}

/// The kinds of tokens (08 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A token for the entities of one table.
    Table,
    /// A token for resource types of the account.
    Account,
    /// A token for the entities of one table, signed with a user delegation key.
    UserDelegation,
}

impl<'a> Fields<'a> {
    /// Finds the fields in a raw query string and rejects duplicates. A raw `+` is interpreted as a space or as a plus,
    /// depending on `plus_is_space`. The second value is true if a signed field contains a raw `+`. UNVERIFIED (08 §1):
    /// names are case-insensitive, and a duplicate field is rejected.
    pub(super) fn parse(query: &'a str, plus_is_space: bool) -> Result<(Self, bool), SasError> {
        let (mut fields, mut has_plus, mut found) = (Self::default(), false, Vec::new());
        for (name, value) in pairs(query) {
            let Some((slot, known_as)) = name.and_then(|name| fields.slot(&name)) else { continue };
            if found.contains(&known_as) {
                return Err(SasError::Repeated(known_as));
            }
            found.push(known_as);
            if known_as == "sig" {
                // Base64 contains no spaces, so a space must have been a plus.
                let decoded = form_decode(value).ok_or(SasError::Field(known_as))?;
                *slot = Cow::Owned(decoded.replace(' ', "+"));
                continue;
            }
            has_plus |= value.contains('+');
            let decoded = if plus_is_space { form_decode(value) } else { percent_decode(value) };
            *slot = decoded.ok_or(SasError::Field(known_as))?;
        }
        fields.refuse_control_characters()?;
        Ok((fields, has_plus))
    }

    /// A line break would start a new line of the string to sign, so one signature would be valid for two tokens.
    /// Neither keys (01 §3) nor the other fields need control characters. UNVERIFIED (08 §2.1): how the service handles
    /// a control character.
    fn refuse_control_characters(&mut self) -> Result<(), SasError> {
        let mut named = self.named().into_iter();
        match named.find(|(_, text)| text.chars().any(char::is_control)) {
            Some((name, _)) => Err(SasError::ControlCharacter(name)),
            None => Ok(()),
        }
    }

    /// Returns the field with the given name, ignoring case, and the usual spelling of the name.
    fn slot(&mut self, name: &str) -> Option<(&mut Cow<'a, str>, &'static str)> {
        self.named().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(known, slot)| (slot, known))
    }

    /// Returns all fields with their names, in the order in which a token is written.
    pub(super) fn named(&mut self) -> [(&'static str, &mut Cow<'a, str>); 24] {
        [
            ("st", &mut self.start),
            ("se", &mut self.expiry),
            ("sp", &mut self.permissions),
            ("sip", &mut self.sources),
            ("spr", &mut self.protocols),
            ("sv", &mut self.version),
            ("ss", &mut self.services),
            ("srt", &mut self.resources),
            ("ses", &mut self.encryption_scope),
            ("si", &mut self.policy),
            ("tn", &mut self.table),
            ("spk", &mut self.start_partition),
            ("srk", &mut self.start_row),
            ("epk", &mut self.end_partition),
            ("erk", &mut self.end_row),
            ("skoid", &mut self.delegator),
            ("sktid", &mut self.delegator_tenant),
            ("skt", &mut self.key_start),
            ("ske", &mut self.key_expiry),
            ("sks", &mut self.key_service),
            ("skv", &mut self.key_version),
            ("skdutid", &mut self.user_tenant),
            ("sduoid", &mut self.user),
            ("sig", &mut self.signature),
        ]
    }

    /// Returns the kind of the token, or `None` if the fields match no kind. UNVERIFIED (08 §1): a token that has the
    /// fields of both an account SAS and another kind is an account SAS.
    pub fn kind(&self) -> Option<Kind> {
        if self.version.is_empty() || self.signature.is_empty() {
            return None;
        }
        match (self.services.is_empty(), self.resources.is_empty(), self.table.is_empty()) {
            (false, false, _) => Some(Kind::Account),
            (true, true, false) if self.delegator.is_empty() => Some(Kind::Table),
            (true, true, false) => Some(Kind::UserDelegation),
            _ => None,
        }
    }

    /// Returns the signature, or `None` if it is not 32 bytes in Base64 and therefore cannot be valid.
    pub(super) fn signature(&self) -> Option<[u8; 32]> {
        STANDARD.decode(&*self.signature).ok()?.try_into().ok()
    }

    /// Returns the version that determines how the token is signed. For a version newer than any that this server
    /// knows, the newest string to sign is used. UNVERIFIED (08 §9): how the service responds to an unknown version.
    pub(super) fn signed_version(&self, kind: Kind) -> Result<Version, SasError> {
        let oldest = match kind {
            Kind::Table => Version::TABLE_SAS,
            Kind::Account => Version::ACCOUNT_SAS,
            Kind::UserDelegation => Version::USER_DELEGATION,
        };
        Version::parse(&self.version).filter(|version| *version >= oldest).ok_or(SasError::Field("sv"))
    }

    /// Returns the possible strings to sign; the signature must match one of them.
    pub fn strings_to_sign(&self, account: &str) -> Result<Vec<String>, SasError> {
        let kind = self.kind().ok_or(SasError::Kind)?;
        let version = self.signed_version(kind)?;
        Ok(match kind {
            Kind::Table => vec![self.table_string(account, version)],
            Kind::Account => self.account_strings(account, version),
            Kind::UserDelegation => vec![self.delegated_string(account)],
        })
    }

    /// Returns the terms of the token's user delegation key. Returns `None` if the interval is missing or a field is
    /// too long for any key.
    pub(super) fn key_terms(&self) -> Option<KeyTerms<'a>> {
        let texts = [&self.delegator, &self.delegator_tenant, &self.key_service, &self.key_version, &self.user_tenant];
        if texts.iter().any(|text| text.len() > USER_DELEGATION_FIELD_BYTES_MAX) {
            return None;
        }
        Some(KeyTerms {
            delegator: self.delegator.clone(),
            tenant: self.delegator_tenant.clone(),
            start: parse_time(&self.key_start)?,
            expiry: parse_time(&self.key_expiry)?,
            service: self.key_service.clone(),
            version: self.key_version.clone(),
            delegated_tenant: self.user_tenant.clone(),
        })
    }

    /// Returns the string to sign of a table SAS (08 §2). UNVERIFIED (08 §2): the form in version 2012-02-12.
    fn table_string(&self, account: &str, version: Version) -> String {
        let prefix = if version >= Version::SERVICE_IN_SAS { "/table" } else { "" };
        let resource = self.resource(prefix, account);
        let mut lines: Vec<&str> = vec![&self.permissions, &self.start, &self.expiry, &resource, &self.policy];
        if version >= Version::ACCOUNT_SAS {
            lines.extend([&*self.sources, &*self.protocols]);
        }
        lines.extend([&*self.version, &*self.start_partition, &*self.start_row, &*self.end_partition, &*self.end_row]);
        lines.join("\n")
    }

    /// See 08 §11.
    fn delegated_string(&self, account: &str) -> String {
        let lines: [&str; 19] = [
            &self.permissions,
            &self.start,
            &self.expiry,
            &self.resource("/table", account),
            &self.delegator,
            &self.delegator_tenant,
            &self.key_start,
            &self.key_expiry,
            &self.key_service,
            &self.key_version,
            &self.user_tenant,
            &self.user,
            &self.sources,
            &self.protocols,
            &self.version,
            &self.start_partition,
            &self.start_row,
            &self.end_partition,
            &self.end_row,
        ];
        lines.join("\n")
    }

    /// See 08 §2.2.
    fn resource(&self, prefix: &str, account: &str) -> String {
        format!("{prefix}/{account}/{}", self.table.to_ascii_lowercase())
    }

    /// Returns the strings to sign of an account SAS (08 §8), the documented one first. UNVERIFIED (08 §8): without an
    /// encryption scope, newer versions also accept the older form, which the client libraries for tables produce.
    fn account_strings(&self, account: &str, version: Version) -> Vec<String> {
        let lines: [&str; 9] = [
            account,
            &self.permissions,
            &self.services,
            &self.resources,
            &self.start,
            &self.expiry,
            &self.sources,
            &self.protocols,
            &self.version,
        ];
        let short = lines.join("\n") + "\n";
        let long = format!("{short}{}\n", self.encryption_scope);
        match (version >= Version::ENCRYPTION_SCOPE, self.encryption_scope.is_empty()) {
            (false, _) => vec![short],
            (true, false) => vec![long],
            (true, true) => vec![long, short],
        }
    }

    /// Signs the fields with an account key or a user delegation key. Returns the token as a query string.
    pub fn sign(mut self, account: &str, key: &AccountKey) -> Result<String, SasError> {
        self.refuse_control_characters()?;
        // A token without a signature has no kind.
        self.signature = Cow::Borrowed("?");
        let text = self.strings_to_sign(account)?.into_iter().next().unwrap_or_default();
        self.signature = Cow::Owned(key.sign(&text));
        let present = self.named().into_iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> = present.map(|(name, value)| format!("{name}={}", encode_component(value))).collect();
        Ok(pairs.join("&"))
    }
}
