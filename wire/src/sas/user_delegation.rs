//! User delegation keys: the XML of Get User Delegation Key, and the keys themselves (specification 08 §11).
//!
//! Keys are not stored. A key is derived from an account key and from its terms, so every server that has the account
//! computes the same key, both when issuing it and when verifying a signature made with it.
//!
//! Invariants:
//!
//! 1. A key is bound to one account, one principal of one issuer and one interval; changing any of them requires a
//!    different key.
//! 2. No signature made with an account key for other purposes reveals a user delegation key: the text from which keys
//!    are derived starts with a character that cannot start a string to sign.
//!
//! This module must not depend on tokens, roles or accounts.

use super::time::parse_time;
use crate::error::{ErrorCode, ServiceError};
use crate::reason::{Reason, ReasonKind};
use crate::signing::AccountKey;
use crate::version::Version;
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element, escape};
use model::datetime::TICKS_PER_SECOND;
use model::limits::{USER_DELEGATION_FIELD_BYTES_MAX, USER_DELEGATION_KEY_SECONDS_MAX};
use model::{AccountName, DateTime};
use std::borrow::Cow;

/// The text from which an account key derives the key of all user delegation keys. A string to sign starts with a
/// method, a date, an account or permissions, so no string to sign can equal this text.
const PURPOSE: &str = "\0user delegation keys, form 1";
/// The service that keys are valid for.
const SERVICE: &str = "t";

/// The body of Get User Delegation Key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The start of the key, in whole seconds.
    pub start: DateTime,
    /// The expiry of the key, in whole seconds.
    pub expiry: DateTime,
    /// The tenant of the users to whom signatures may be bound. Empty if it is the delegator's tenant.
    pub delegated_tenant: String,
}

/// The terms of a key that every signature made with it repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTerms<'a> {
    /// The principal that requested the key.
    pub delegator: Cow<'a, str>,
    /// The tenant of the delegator.
    pub tenant: Cow<'a, str>,
    /// The start of the key.
    pub start: DateTime,
    /// The expiry of the key.
    pub expiry: DateTime,
    /// The service that the key is valid for.
    pub service: Cow<'a, str>,
    /// The version of the request for the key.
    pub version: Cow<'a, str>,
    /// The tenant of the users to whom signatures may be bound; empty for the delegator's tenant.
    pub delegated_tenant: Cow<'a, str>,
}

/// The terms of a key that signatures do not repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOwner<'a> {
    /// The account.
    pub account: &'a str,
    /// The issuer of the delegator's token. The same identifier from a different issuer is a different principal.
    pub issuer: &'a str,
    /// The claim that contains the delegator's identifier.
    pub claim: SubjectClaim,
}

/// A principal that requests a key, and the account key from which the key is derived.
#[derive(Debug, Clone)]
pub struct Delegator {
    /// The key of the account.
    pub account_key: AccountKey,
    /// The account.
    pub account: AccountName,
    /// The issuer of the principal's token.
    pub issuer: String,
    /// The claim that contains the principal's identifier.
    pub claim: SubjectClaim,
    /// The principal's identifier.
    pub id: String,
    /// The principal's tenant.
    pub tenant: String,
}

impl Delegator {
    /// Derives the key for a request with the given version, and writes it as the service does.
    pub fn issue(&self, info: &KeyInfo, version: Version) -> Vec<u8> {
        let owner = KeyOwner { account: self.account.as_str(), issuer: &self.issuer, claim: self.claim };
        let terms = KeyTerms {
            delegator: self.id.as_str().into(),
            tenant: self.tenant.as_str().into(),
            start: info.start,
            expiry: info.expiry,
            service: SERVICE.into(),
            version: version.to_string().into(),
            delegated_tenant: info.delegated_tenant.as_str().into(),
        };
        terms.write(&self.account_key, owner)
    }
}

/// The claim of a token that identifies its principal (09 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectClaim {
    /// `oid`
    Oid,
    /// `sub`, used for tokens without `oid`
    Sub,
}

impl SubjectClaim {
    /// Both claims.
    pub const ALL: [Self; 2] = [Self::Oid, Self::Sub];

    fn name(self) -> &'static str {
        match self {
            Self::Oid => "oid",
            Self::Sub => "sub",
        }
    }
}

impl KeyInfo {
    /// Parses the request body. `now` is the time of the request. UNVERIFIED (08 §11.1): all error codes except the one
    /// for an expiry too far in the future, and that an unknown element is rejected.
    pub fn read(document: &[u8], now: DateTime) -> Result<Self, ServiceError> {
        let root = Element::parse(document).map_err(|error| malformed(error.into()))?;
        root.check_list("KeyInfo").map_err(malformed)?;
        let fields = root.children_by_name(["Start", "Expiry", "DelegatedUserTid"]);
        let [start, expiry, tenant] = fields.map_err(|child| malformed(child.into()))?.map(text);
        let start = start?.map_or(Ok(now), |text| time("Start", text))?;
        let expiry = expiry?.map_or_else(
            || {
                let reason = ReasonKind::XmlElement.because("The element Expiry is missing.");
                Err(ServiceError::from(ErrorCode::MissingRequiredXmlNode).because(reason))
            },
            |text| time("Expiry", text),
        )?;
        let delegated_tenant = tenant?.unwrap_or_default().to_owned();
        if delegated_tenant.contains(char::is_control) || delegated_tenant.len() > USER_DELEGATION_FIELD_BYTES_MAX {
            return Err(invalid("The value of DelegatedUserTid is too long or contains control characters."));
        }
        let info = Self { start: whole_seconds(start), expiry: whole_seconds(expiry), delegated_tenant };
        if info.is_within_limits(now) { Ok(info) } else { Err(invalid(LIMITS)) }
    }

    /// UNVERIFIED (08 §11.1): a start more than 7 days ago is rejected. Recorded: an expiry more than 7 days in the
    /// future is rejected.
    fn is_within_limits(&self, now: DateTime) -> bool {
        const TICKS_MAX: i64 = USER_DELEGATION_KEY_SECONDS_MAX.cast_signed() * TICKS_PER_SECOND;
        let from_now = |time: DateTime| time.ticks() - now.ticks();
        self.start < self.expiry
            && (1..=TICKS_MAX).contains(&from_now(self.expiry))
            && from_now(self.start) >= -(TICKS_MAX + TICKS_PER_SECOND)
    }
}

/// Returns `None` if the element is absent. The element must not have children.
fn text(element: Option<&Element>) -> Result<Option<&str>, ServiceError> {
    let text = element.map(Element::plain_text).transpose().map_err(malformed)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn time(name: &str, text: &str) -> Result<DateTime, ServiceError> {
    let detail = || format!("The value of {name} must be a time in UTC, such as 2031-03-14T08:15:30Z.");
    parse_time(text).ok_or_else(|| invalid(detail()))
}

const LIMITS: &str =
    "Start must be before Expiry and at most 7 days ago; Expiry must be in the future, by at most 7 days.";

fn malformed(reason: Reason) -> ServiceError {
    ServiceError::from(ErrorCode::InvalidXmlDocument).because(reason)
}

fn invalid(detail: impl Into<Cow<'static, str>>) -> ServiceError {
    ServiceError::from(ErrorCode::InvalidXmlNodeValue).because(ReasonKind::XmlValue.because(detail))
}

/// Truncates a time to whole seconds, because clients parse the times of a key and write them again in whole seconds.
fn whole_seconds(time: DateTime) -> DateTime {
    DateTime::from_ticks(time.ticks() / TICKS_PER_SECOND * TICKS_PER_SECOND).unwrap_or(DateTime::MIN)
}

impl KeyTerms<'_> {
    /// Derives the key from an account key.
    pub fn key(&self, account_key: &AccountKey, owner: KeyOwner<'_>) -> AccountKey {
        account_key.derived(PURPOSE).derived(&self.text(owner))
    }

    /// Returns everything that the key is bound to, one value per line. The result is unambiguous, because no field of
    /// a signature contains a line break.
    fn text(&self, owner: KeyOwner<'_>) -> String {
        let (start, expiry) = (self.start.to_string(), self.expiry.to_string());
        let lines: [&str; 10] = [
            owner.account,
            owner.issuer,
            owner.claim.name(),
            &self.delegator,
            &self.tenant,
            &start,
            &expiry,
            &self.service,
            &self.version,
            &self.delegated_tenant,
        ];
        lines.join("\n")
    }

    fn write(&self, account_key: &AccountKey, owner: KeyOwner<'_>) -> Vec<u8> {
        let mut out = format!("{BYTE_ORDER_MARK}{DECLARATION}<UserDelegationKey>");
        let mut element = |name: &str, value: &str| out.extend(["<", name, ">", &escape(value), "</", name, ">"]);
        element("SignedOid", &self.delegator);
        element("SignedTid", &self.tenant);
        element("SignedStart", &self.start.to_string());
        element("SignedExpiry", &self.expiry.to_string());
        element("SignedService", &self.service);
        element("SignedVersion", &self.version);
        if !self.delegated_tenant.is_empty() {
            element("SignedDelegatedUserTid", &self.delegated_tenant);
        }
        element("Value", &account_key.derived(PURPOSE).sign(&self.text(owner)));
        out.push_str("</UserDelegationKey>");
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    const OWNER: KeyOwner<'_> =
        KeyOwner { account: "orchardacct", issuer: "https://one.example", claim: SubjectClaim::Oid };

    fn at(text: &str) -> DateTime {
        parse_time(text).unwrap()
    }

    fn read(body: &str) -> Result<KeyInfo, ErrorCode> {
        KeyInfo::read(body.as_bytes(), at("2031-03-01T06:30:00.5Z")).map_err(|error| {
            assert!(error.reason().unwrap().line(false).starts_with("xml-"), "{body}");
            error.code
        })
    }

    fn terms() -> KeyTerms<'static> {
        KeyTerms {
            delegator: "11111111-2222-3333-4444-555555555555".into(),
            tenant: "66666666-7777-8888-9999-000000000000".into(),
            start: at("2031-03-01"),
            expiry: at("2031-03-02"),
            service: "t".into(),
            version: "2025-07-05".into(),
            delegated_tenant: "".into(),
        }
    }

    #[test]
    fn requests() {
        let info = |start, expiry, tenant: &str| {
            Ok(KeyInfo { start: at(start), expiry: at(expiry), delegated_tenant: tenant.into() })
        };
        let wrong = |code| Err(code);
        for (content, expected) in [
            (
                "<Start>2031-03-01T00:00:00Z</Start><Expiry>2031-03-02T00:00:00Z</Expiry>",
                info("2031-03-01", "2031-03-02", ""),
            ),
            (
                "<Expiry>2031-03-02T00:00:00.9Z</Expiry><DelegatedUserTid> t </DelegatedUserTid><Start>2031-03-01</Start>",
                info("2031-03-01", "2031-03-02", "t"),
            ),
            ("<Expiry>2031-03-02</Expiry>", info("2031-03-01T06:30:00Z", "2031-03-02", "")),
            ("<Start/><Expiry>2031-03-02</Expiry>", info("2031-03-01T06:30:00Z", "2031-03-02", "")),
            ("<Expiry>2031-03-08T06:30:00Z</Expiry>", info("2031-03-01T06:30:00Z", "2031-03-08T06:30:00Z", "")),
            (
                "<Start>2031-02-22T06:30:00Z</Start><Expiry>2031-03-02</Expiry>",
                info("2031-02-22T06:30:00Z", "2031-03-02", ""),
            ),
            ("", wrong(ErrorCode::MissingRequiredXmlNode)),
            ("<Start>2031-03-01</Start>", wrong(ErrorCode::MissingRequiredXmlNode)),
            ("<Start>2031-03-01</Start><Expiry/>", wrong(ErrorCode::MissingRequiredXmlNode)),
            ("<Expiry>tomorrow</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            ("<Start>now</Start><Expiry>2031-03-02</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            ("<Start>2031-03-02</Start><Expiry>2031-03-02</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            ("<Start>2031-02-20</Start><Expiry>2031-03-02</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            ("<Start>2031-02-27</Start><Expiry>2031-02-28</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            ("<Expiry>2031-03-08T06:30:01Z</Expiry>", wrong(ErrorCode::InvalidXmlNodeValue)),
            (
                "<Expiry>2031-03-02</Expiry><DelegatedUserTid>a\nb</DelegatedUserTid>",
                wrong(ErrorCode::InvalidXmlNodeValue),
            ),
            ("<Expiry>2031-03-02</Expiry><Other/>", wrong(ErrorCode::InvalidXmlDocument)),
            ("<Expiry>2031-03-02</Expiry><Expiry>2031-03-02</Expiry>", wrong(ErrorCode::InvalidXmlDocument)),
            ("<Expiry>2031-03-02<x/></Expiry>", wrong(ErrorCode::InvalidXmlDocument)),
            ("x<Expiry>2031-03-02</Expiry>", wrong(ErrorCode::InvalidXmlDocument)),
            ("<Expiry>2031-03-02", wrong(ErrorCode::InvalidXmlDocument)),
        ] {
            assert_eq!(read(&format!("<KeyInfo>{content}</KeyInfo>")), expected, "{content}");
        }
        for body in ["", "<Other><Expiry>2031-03-02</Expiry></Other>"] {
            assert_eq!(read(body), wrong(ErrorCode::InvalidXmlDocument), "{body}");
        }
    }

    #[test]
    fn the_key_to_the_byte() {
        let key = AccountKey::parse(KEY).unwrap();
        let document = String::from_utf8(terms().write(&key, OWNER)).unwrap();
        let value = key.derived(PURPOSE).sign(
            "orchardacct\nhttps://one.example\noid\n11111111-2222-3333-4444-555555555555\n\
             66666666-7777-8888-9999-000000000000\n2031-03-01T00:00:00Z\n2031-03-02T00:00:00Z\nt\n2025-07-05\n",
        );
        assert_eq!(
            document,
            format!(
                "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey>\
                 <SignedOid>11111111-2222-3333-4444-555555555555</SignedOid>\
                 <SignedTid>66666666-7777-8888-9999-000000000000</SignedTid>\
                 <SignedStart>2031-03-01T00:00:00Z</SignedStart><SignedExpiry>2031-03-02T00:00:00Z</SignedExpiry>\
                 <SignedService>t</SignedService><SignedVersion>2025-07-05</SignedVersion><Value>{value}</Value>\
                 </UserDelegationKey>"
            )
        );
        // A change to this value would invalidate all issued keys.
        assert_eq!(value, "RcDJ619Bt32SM9TQs5fRftV4tXKnQsjTPj9L7CoSC3E=");
        // The client receives the key with which the server verifies signatures.
        assert_eq!(AccountKey::parse(&value).unwrap().sign("x"), terms().key(&key, OWNER).sign("x"));
        let abroad = KeyTerms { delegated_tenant: "a & b".into(), ..terms() };
        let document = String::from_utf8(abroad.write(&key, OWNER)).unwrap();
        assert!(document.contains("<SignedDelegatedUserTid>a &amp; b</SignedDelegatedUserTid><Value>"), "{document}");
    }

    #[test]
    fn whatever_a_key_is_bound_to_makes_it_another_key() {
        let (key, other) = (AccountKey::parse(KEY).unwrap(), AccountKey::parse(&KEY.replace("AAEC", "BBEC")).unwrap());
        let signed = |terms: KeyTerms<'_>, owner| terms.key(&key, owner).sign("x");
        let all = [
            terms().key(&other, OWNER).sign("x"),
            key.sign("x"),
            key.derived(PURPOSE).sign("x"),
            signed(terms(), OWNER),
            signed(terms(), KeyOwner { account: "otheracct", ..OWNER }),
            signed(terms(), KeyOwner { issuer: "https://two.example", ..OWNER }),
            signed(terms(), KeyOwner { claim: SubjectClaim::Sub, ..OWNER }),
            signed(KeyTerms { delegator: "x".into(), ..terms() }, OWNER),
            signed(KeyTerms { tenant: "x".into(), ..terms() }, OWNER),
            signed(KeyTerms { start: at("2031-03-01T00:00:01Z"), ..terms() }, OWNER),
            signed(KeyTerms { expiry: at("2031-03-02T00:00:01Z"), ..terms() }, OWNER),
            signed(KeyTerms { service: "q".into(), ..terms() }, OWNER),
            signed(KeyTerms { version: "2025-11-05".into(), ..terms() }, OWNER),
            signed(KeyTerms { delegated_tenant: "x".into(), ..terms() }, OWNER),
        ];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(all.iter().filter(|other| one == *other).count(), 1, "{index}");
        }
    }
}
