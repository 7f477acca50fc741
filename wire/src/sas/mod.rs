//! Shared access signatures: parsing, verifying and creating them (specification 08).
//!
//! Invariants:
//!
//! 1. No information about a token's content is disclosed before its signature is verified: all errors before that are
//!    indistinguishable.
//! 2. The fields that are interpreted are exactly the decoded fields whose signature was verified.
//! 3. Account keys and user delegation keys each sign only certain kinds of tokens, and no kind is signed by both.
//! 4. A string to sign belongs to exactly one token: no field contains a control character, so no field can extend into
//!    the next line.

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

/// The reason why a token is rejected. It is for the log and is never sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SasError {
    /// The parameters are not a token of a kind that this service supports.
    Kind,
    /// A field is malformed, or not allowed in this kind of token or at this signed version.
    Field(&'static str),
    /// A field occurs twice.
    Repeated(&'static str),
    /// A field contains a control character. A line break would shift the fields after it in the string to sign.
    ControlCharacter(&'static str),
    /// Neither the token nor its policy has this field.
    Missing(&'static str),
    /// The signature does not match any key. Contains the string that the server signed.
    Signature(String),
    /// The token refers to a policy that the table does not have.
    UnknownPolicy,
    /// Both the token and its policy have this field.
    PolicyClash(&'static str),
    /// The token is not yet valid or has expired.
    Time {
        /// The start in the token or its policy, or an empty string.
        start: String,
        /// The expiry in the token or its policy.
        expiry: String,
        /// The time of the check.
        now: String,
    },
    /// The user delegation key is not yet valid or has expired.
    KeyTime {
        /// The start of the key.
        start: String,
        /// The expiry of the key.
        expiry: String,
        /// The time of the check.
        now: String,
    },
}

impl fmt::Display for SasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => f.write_str("the query string does not contain a complete shared access signature"),
            Self::Field(name) => write!(f, "the field {name} of the shared access signature is malformed or misplaced"),
            Self::Repeated(name) => {
                write!(f, "the field {name} of the shared access signature is given twice; specify it only once")
            }
            Self::ControlCharacter(name) => write!(
                f,
                "the field {name} of the shared access signature contains a control character, such as a line break; create \
                 a signature without it"
            ),
            Self::Missing(name) => write!(f, "{name} is mandatory. Cannot be empty"),
            Self::Signature(text) => write!(f, "Signature did not match. String to sign used was {text:?}"),
            Self::UnknownPolicy => {
                f.write_str("the table has no stored access policy with the identifier in the signature")
            }
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

/// Finds the token in a raw query string and checks that an account key signed it. Rejects user delegation SAS.
pub fn verify<'q>(query: &'q str, account: &str, keys: &[AccountKey]) -> Result<Sas<'q>, SasError> {
    verify_delegated(query, account, keys, |_| Vec::new())
}

/// Finds the token in a raw query string and checks that an account key signed it. For a user delegation SAS, checks
/// the keys that `delegation_keys` returns for its terms.
pub fn verify_delegated<'q>(
    query: &'q str,
    account: &str,
    keys: &[AccountKey],
    delegation_keys: impl Fn(&KeyTerms<'_>) -> Vec<AccountKey>,
) -> Result<Sas<'q>, SasError> {
    let mut refusal = SasError::Kind;
    for fields in interpretations(query)? {
        let signature = fields.signature().unwrap_or_default();
        let texts = fields.strings_to_sign(account)?;
        // Even an unreadable signature is checked, so the duration does not depend on whether it is readable.
        let delegated = match fields.kind() {
            Some(Kind::UserDelegation) => {
                Some(fields.key_terms().map(|terms| delegation_keys(&terms)).unwrap_or_default())
            }
            _ => None,
        };
        let signer = signing_key_index(delegated.as_deref().unwrap_or(keys), &texts, &signature);
        if let Some(signer) = signer.filter(|_| fields.signature().is_some()) {
            return Sas::read(fields, signer);
        }
        refusal = SasError::Signature(texts.into_iter().next().unwrap_or_default());
    }
    Err(refusal)
}

/// Returns the index of the key that signed one of the texts. Always tries every key.
fn signing_key_index(keys: &[AccountKey], texts: &[String], signature: &[u8; 32]) -> Option<usize> {
    keys.iter().enumerate().fold(None, |known, (index, key)| {
        let verified = texts.iter().fold(false, |known, text| any_verifies([key], text, signature) | known);
        known.or(verified.then_some(index))
    })
}

/// Returns the possible interpretations of the fields. Some encoders write a space as `+`, and others do not encode a
/// plus. The signature determines which interpretation is right. UNVERIFIED (08 §1): how the service handles a raw `+`.
fn interpretations(query: &str) -> Result<Vec<Fields<'_>>, SasError> {
    let (as_space, has_plus) = Fields::parse(query, true)?;
    let mut readings = vec![as_space];
    if has_plus {
        readings.push(Fields::parse(query, false)?.0);
    }
    Ok(readings)
}
