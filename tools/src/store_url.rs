//! The option for the URL of a database.

use anyhow::Context;
use serde::Deserialize;
use std::env;
use std::fmt;
use std::path::Path;

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

/// Reads the password in a file.
pub fn read_password(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("reading the password in {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns true if the URL of a database contains a password. Any user who can list the processes of this machine can
/// read such a password.
pub fn shows_password(url: &str) -> bool {
    engine_postgres::has_password(url) && env::args().any(|argument| argument.contains(url))
}
