//! The error of all operations.

use crate::http::HttpError;
use model::control_characters::is_control_character;
use std::fmt;

/// Why an operation failed, after all attempts.
#[derive(Debug)]
pub enum Error {
    /// The service refused the request.
    Refused {
        /// The operation, in words.
        what: String,
        /// The HTTP status of the response.
        status: u16,
        /// The error code of the service; may be empty.
        code: String,
        /// The error message of the service; may be empty.
        message: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// There was no response.
    Unreachable {
        /// The operation, in words.
        what: String,
        /// Why the last attempt failed.
        source: HttpError,
        /// The number of attempts.
        attempts: u32,
    },
    /// The response is larger than [`RESPONSE_BODY_BYTES_MAX`](crate::limits::RESPONSE_BODY_BYTES_MAX).
    ResponseTooLarge {
        /// The operation, in words.
        what: String,
    },
    /// The response does not follow the protocol.
    Unreadable {
        /// The operation, in words.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The status and error code if the service refused the request; `None` for all other errors.
    pub fn refusal(&self) -> Option<(u16, &str)> {
        match self {
            Self::Refused { status, code, .. } => Some((*status, code)),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { what, status, code, message, attempts } => {
                write!(f, "{what} was refused: {status}")?;
                let details = [code, message].map(|text| in_one_line(text));
                details.iter().filter(|text| !text.is_empty()).try_for_each(|text| write!(f, " {text}"))?;
                if *attempts > 1 { write!(f, " (after {attempts} attempts)") } else { Ok(()) }
            }
            Self::Unreachable { what, source, attempts } => {
                write!(f, "{what} had no answer after {attempts} attempts: {source}")
            }
            Self::ResponseTooLarge { what } => write!(f, "the answer to {what} is too large"),
            Self::Unreadable { what, why } => write!(f, "the answer to {what} cannot be read: {}", in_one_line(why)),
        }
    }
}

impl std::error::Error for Error {}

/// A text that a service sent, without what could look like another message or control a terminal.
fn in_one_line(text: &str) -> String {
    text.replace(is_control_character, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_cannot_write_messages_of_its_own() {
        let message = "no\r\nrowhouse: all is well\u{1b}[2J\u{9b}\u{2028}".to_owned();
        let error = Error::Refused { what: "a query".into(), status: 400, code: "X\u{7}".into(), message, attempts: 1 };
        assert_eq!(error.to_string(), "a query was refused: 400 X  no  rowhouse: all is well [2J  ");
        let error = Error::Unreadable { what: "a query".into(), why: "a\nb".into() };
        assert_eq!(error.to_string(), "the answer to a query cannot be read: a b");
    }
}
