//! The option for the URL of a database.

use serde::Deserialize;
use std::env;
use std::fmt;

/// The URL of a database. It may contain a password, so it is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct StoreUrl(pub String);

impl From<String> for StoreUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(…)")
    }
}

/// Returns true if the URL of a database contains a password. Any user who can list the processes of this machine can
/// read such a password.
pub fn shows_password(url: &str) -> bool {
    engine_postgres::has_password(url) && env::args().any(|argument| argument.contains(url))
}
