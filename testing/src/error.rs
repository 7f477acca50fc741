//! The error type of this crate.

use std::fmt;

/// The reason why a server did not start or did not shut down cleanly. The message includes the chain of causes.
///
/// ```
/// use rowhouse_testing::TestServer;
///
/// let error = TestServer::builder().account("orchard", "not Base64").start_blocking().unwrap_err();
/// assert_eq!(error.to_string(), "a key of account 'orchard' is invalid: give at least 16 bytes in Base64");
/// ```
pub struct Error(anyhow::Error);

impl Error {
    pub(crate) fn new(cause: impl Into<anyhow::Error>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// Same as [`fmt::Display`], because a failing test prints its error in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// There is no source, because the message contains the cause.
impl std::error::Error for Error {}
