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

mod defect;
mod error;
mod fields;
mod terms;
#[cfg(test)]
mod tests;
mod time;
pub mod user_delegation;

pub use defect::defect;
pub use error::SasError;
pub use fields::{Fields, Kind};
pub use terms::{Delegation, Sas, SasContext};
pub use time::parse_time;

use crate::signing::{AccountKey, any_verifies};
use user_delegation::KeyTerms;

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
