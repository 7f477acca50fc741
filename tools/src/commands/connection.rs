//! Which service the commands speak to, and as whom.

use crate::endpoints::{End, Location, location};
use anyhow::{Context, bail};
use clap::Args;
use client::{DEVELOPMENT_ENDPOINT, TableService};
use std::path::PathBuf;

/// How often a person waits for an operation that could not be done at once.
const ATTEMPTS_MAX: u32 = 3;

/// Variables that may hold a connection string, in the order in which they are looked at.
const CONNECTION_STRINGS: [&str; 2] = ["ROWHOUSE_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"];

/// What the help of every command ends with.
macro_rules! connection_help {
    () => {
        "\
Which service: --endpoint, else --connection-string-file, else the variables ROWHOUSE_CONNECTION_STRING and
AZURE_STORAGE_CONNECTION_STRING, else the development account on http://127.0.0.1:10002. The account key, or a shared
access signature, goes into ROWHOUSE_KEY or the file of --key-file, never onto the command line; a signature may stand in
the URL. The development account needs no key.

Exit codes: 0 done; 1 not done; 2 the command line is wrong; 4 the table or the entity is not there; 5 it is there
already, or its ETag is another one."
    };
}
pub(super) use connection_help;

/// The options of all these commands.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub(super) struct ConnectionArgs {
    /// URL of a service with its account, such as http://127.0.0.1:10002/ACCOUNT, https://ACCOUNT.table.core.windows.net
    /// or the URL of a shared access signature
    #[arg(
        long,
        env = "ROWHOUSE_ENDPOINT",
        value_name = "URL",
        hide_env_values = true,
        conflicts_with = "connection_string_file",
        global = true
    )]
    endpoint: Option<String>,

    /// File with a connection string
    #[arg(long, env = "ROWHOUSE_CONNECTION_STRING_FILE", value_name = "FILE", global = true)]
    connection_string_file: Option<PathBuf>,

    /// File with the account key or shared access signature; or put it in ROWHOUSE_KEY
    #[arg(long, env = "ROWHOUSE_KEY_FILE", value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
}

impl ConnectionArgs {
    /// The service; nothing is sent yet.
    pub(super) fn service(&self) -> anyhow::Result<TableService> {
        let text = match (&self.endpoint, &self.connection_string_file) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                text.with_context(|| format!("reading --connection-string-file {}", path.display()))?.trim().to_owned()
            }
            (None, None) => given(|name| std::env::var(name).ok()).unwrap_or_else(|| DEVELOPMENT_ENDPOINT.to_owned()),
        };
        match location(End::Endpoint, &text, self.key_file.as_deref())? {
            Location::Service { endpoint, credential } => {
                Ok(TableService::new(endpoint, credential).context("preparing TLS")?.with_attempts(ATTEMPTS_MAX))
            }
            other => bail!(
                "--endpoint {other} is no service: start one on it with 'rowhouse serve', or use export and import"
            ),
        }
    }
}

/// The first connection string that says something; one that is empty is not set.
fn given(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    CONNECTION_STRINGS.iter().filter_map(|name| variable(name)).find(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_hides_nothing() {
        let given = |one: &str, other: &str| {
            given(|name| Some(if name == CONNECTION_STRINGS[0] { one } else { other }.to_owned()))
        };
        assert_eq!(given("one", "other").as_deref(), Some("one"));
        assert_eq!(given(" ", "other").as_deref(), Some("other"));
        assert_eq!(given("", ""), None);
    }
}
