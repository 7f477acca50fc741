//! Shared access signatures: reading, verifying and making them (specification 08).
//!
//! A token is part of the query string. [`verify`] finds its fields there, checks the signature against the keys of the
//! account or, with [`verify_delegated`], against user delegation keys, and returns a [`Sas`]; [`Sas::scope`] is what it
//! allows in a request. [`Fields::sign`] makes a token.
//!
//! Invariants:
//!
//! 1. Nothing about a token's content is disclosed before its signature is verified: all earlier errors look alike.
//! 2. What was signed is what is used: the decoded texts for which the signature is right are interpreted.
//! 3. Keys of the account and user delegation keys each sign tokens of their own kinds, and no others.
//! 4. A string to sign belongs to one token: no field holds a control character, so none reaches into the next line.

mod fields;
mod terms;
#[cfg(test)]
mod tests;
pub mod user_delegation;

pub use fields::{Fields, Kind};
pub use terms::{Delegation, Sas, SasContext, parse_time};

use crate::signing::{AccountKey, any_verifies};
use std::fmt;
use user_delegation::KeyTerms;

/// Why a token is not accepted. This is for the log and never sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SasError {
    /// The parameters are not a token of a kind that this service has.
    Kind,
    /// A field is malformed, or not allowed in this kind of token or at this signed version.
    Field(&'static str),
    /// A field is given twice.
    Repeated(&'static str),
    /// A field holds a control character. A line break would move the fields after it in the string to sign.
    ControlCharacter(&'static str),
    /// Neither the token nor its policy has this field.
    Missing(&'static str),
    /// The signature is not that of any key; the text is what the server signed.
    Signature(String),
    /// The token refers to a policy that the table does not have.
    UnknownPolicy,
    /// Both the token and its policy have this field.
    PolicyClash(&'static str),
    /// It is too early or too late.
    Time {
        /// The start in the token or its policy, or an empty text.
        start: String,
        /// The expiry in the token or its policy.
        expiry: String,
        /// The time of the check.
        now: String,
    },
    /// The user delegation key is not valid yet, or no longer.
    KeyTime {
        /// When the key begins.
        start: String,
        /// When it ends.
        expiry: String,
        /// The time of the check.
        now: String,
    },
}

impl fmt::Display for SasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => f.write_str("the query string holds no complete shared access signature"),
            Self::Field(name) => write!(f, "the field {name} of the shared access signature is malformed or misplaced"),
            Self::Repeated(name) => {
                write!(f, "the field {name} of the shared access signature is given twice: give it once")
            }
            Self::ControlCharacter(name) => write!(
                f,
                "the field {name} of the shared access signature has a control character, such as a line break: make a \
                 signature without it"
            ),
            Self::Missing(name) => write!(f, "{name} is mandatory. Cannot be empty"),
            Self::Signature(text) => write!(f, "Signature did not match. String to sign used was {text:?}"),
            Self::UnknownPolicy => f.write_str("the table has no stored access policy with the id of the signature"),
            Self::PolicyClash(name) => write!(
                f,
                "Access policy fields can be associated with signature or SAS identifier but not both: {name}"
            ),
            Self::Time { start, expiry, now } => write!(
                f,
                "Signature not valid in the specified time frame: Start [{start}] - Expiry [{expiry}] - Current [{now}]"
            ),
            Self::KeyTime { start, expiry, now } => write!(
                f,
                "Signature not valid in the specified key time frame: Key start [{start}] - Key expiry [{expiry}] - \
                 Current [{now}]"
            ),
        }
    }
}

impl std::error::Error for SasError {}

/// Finds the token of a raw query string and checks that a key of the account signed it. No user delegation SAS is.
pub fn verify<'q>(query: &'q str, account: &str, keys: &[AccountKey]) -> Result<Sas<'q>, SasError> {
    verify_delegated(query, account, keys, |_| Vec::new())
}

/// Finds the token of a raw query string and checks that a key of the account signed it, or, if it is a user delegation
/// SAS, one of the keys that the account has for these terms: `delegation_keys` makes them.
pub fn verify_delegated<'q>(
    query: &'q str,
    account: &str,
    keys: &[AccountKey],
    delegation_keys: impl Fn(&KeyTerms<'_>) -> Vec<AccountKey>,
) -> Result<Sas<'q>, SasError> {
    let mut refusal = SasError::Kind;
    for fields in readings(query)? {
        let signature = fields.signature().unwrap_or_default();
        let texts = fields.strings_to_sign(account)?;
        // A signature that cannot be read is checked too, so that the time does not depend on it.
        let delegated = match fields.kind() {
            Some(Kind::UserDelegation) => {
                Some(fields.key_terms().map(|terms| delegation_keys(&terms)).unwrap_or_default())
            }
            _ => None,
        };
        let signer = signer(delegated.as_deref().unwrap_or(keys), &texts, &signature);
        if let Some(signer) = signer.filter(|_| fields.signature().is_some()) {
            return Sas::read(fields, signer);
        }
        refusal = SasError::Signature(texts.into_iter().next().unwrap_or_default());
    }
    Err(refusal)
}

/// The index of the key that made the signature of one of the texts. Every key is tried.
fn signer(keys: &[AccountKey], texts: &[String], signature: &[u8; 32]) -> Option<usize> {
    keys.iter().enumerate().fold(None, |known, (index, key)| {
        let verified = texts.iter().fold(false, |known, text| any_verifies([key], text, signature) | known);
        known.or(verified.then_some(index))
    })
}

/// The possible readings of the fields. A raw `+` is a space for some encoders and a plus for others; the signature decides.
///
/// UNVERIFIED (08 §1): what the service does with a raw `+`.
fn readings(query: &str) -> Result<Vec<Fields<'_>>, SasError> {
    let (as_space, has_plus) = Fields::parse(query, true)?;
    let mut readings = vec![as_space];
    if has_plus {
        readings.push(Fields::parse(query, false)?.0);
    }
    Ok(readings)
}
