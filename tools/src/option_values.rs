//! Values of options: names, durations, and URLs of databases.

use anyhow::{Context, anyhow};
use model::{AccountName, EdmType, TableName};
use serde::Deserialize;
use std::time::Duration;
use std::{env, fmt};

/// Parses the name of an account from the command line.
pub fn parse_account(name: &str) -> anyhow::Result<AccountName> {
    AccountName::new(name)
        .with_context(|| format!("'{name}' is not a valid account name: use 3 to 24 lowercase letters and digits"))
}

pub(crate) fn parse_table(name: &str) -> anyhow::Result<TableName> {
    TableName::new(name).map_err(|_| {
        anyhow!("'{name}' is not a valid table name: use 3 to 63 letters and digits, beginning with a letter")
    })
}

/// `Edm.` is optional, because only some versions of Azure Storage Explorer write it.
pub(crate) fn parse_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}

/// Parses a duration such as `90m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let count: u32 = text.get(..text.len() - 1)?.parse().ok()?;
    Some(Duration::from_secs(u64::from(count) * unit))
}

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
