//! Why an operation did not happen.

use std::fmt;

/// Why an operation failed for good.
#[derive(Debug)]
pub enum Error {
    /// The service refused the request.
    Refused {
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The code of the error, or nothing.
        code: String,
        /// The message of the error, or nothing.
        message: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// There was no answer.
    Unreachable {
        /// What was asked for.
        what: String,
        /// The last reason.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// How often it was tried.
        attempts: u32,
    },
    /// The answer is larger than any that is read.
    AnswerTooLarge {
        /// What was asked for.
        what: String,
    },
    /// The answer is not one that the service gives.
    Unreadable {
        /// What was asked for.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The status and code with which the service refused; `None` for everything else.
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
                let told = [code.as_str(), message.as_str()];
                told.iter().filter(|text| !text.is_empty()).try_for_each(|text| write!(f, " {text}"))?;
                if *attempts > 1 { write!(f, " (after {attempts} attempts)") } else { Ok(()) }
            }
            Self::Unreachable { what, source, attempts } => {
                write!(f, "{what} had no answer after {attempts} attempts: {source}")?;
                let mut cause = source.source();
                while let Some(deeper) = cause {
                    write!(f, ": {deeper}")?;
                    cause = deeper.source();
                }
                Ok(())
            }
            Self::AnswerTooLarge { what } => write!(f, "the answer to {what} is too large"),
            Self::Unreadable { what, why } => write!(f, "the answer to {what} cannot be read: {why}"),
        }
    }
}

impl std::error::Error for Error {}
