//! The reasons for which a token is rejected.

use std::fmt;

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
