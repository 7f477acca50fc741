//! The reasons for rejecting a token. The server logs them, and no client sees them.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenError {
    TooLarge,
    /// Not three parts in Base64 without padding, or a header or claim of the wrong type.
    Malformed(&'static str),
    Unsupported(&'static str),
    Algorithm,
    UnknownIssuer(String),
    UnknownKey,
    /// The issuer's keys could not be fetched, so the token could not be checked.
    KeysUnavailable,
    Signature,
    Expired,
    NotYetValid,
    IssuedInTheFuture,
    LivesTooLong,
    Audience,
    Directory,
    Client,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the token is too large"),
            Self::Malformed(what) => write!(f, "the token is malformed: {what}"),
            Self::Unsupported(what) => write!(f, "the token requires an unsupported feature: {what}"),
            Self::Algorithm => f.write_str("the token's algorithm is not allowed for its issuer"),
            // Quoted, because this value was not authenticated.
            Self::UnknownIssuer(issuer) => write!(f, "Issuer validation failed. Issuer did not match: {issuer:?}"),
            Self::UnknownKey => f.write_str("no key of the issuer fits the token"),
            Self::KeysUnavailable => {
                f.write_str("the keys of the token's issuer could not be fetched, so the token cannot be checked")
            }
            Self::Signature => f.write_str("the token's signature is invalid"),
            Self::Expired => f.write_str("Lifetime validation failed. The token is expired."),
            Self::NotYetValid => f.write_str("Lifetime validation failed. The token is not yet valid."),
            Self::IssuedInTheFuture => f.write_str("Lifetime validation failed. The token was issued in the future."),
            Self::LivesTooLong => {
                f.write_str("Lifetime validation failed. The token's lifetime is longer than allowed.")
            }
            Self::Audience => f.write_str("Audience validation failed. Audience did not match."),
            Self::Directory => f.write_str("the token's directory (tid) is not allowed"),
            Self::Client => f.write_str("the token's client application is not allowed"),
        }
    }
}

impl std::error::Error for TokenError {}
