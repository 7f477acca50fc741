use crate::endpoints::{EndpointOption, Location, ServiceError, connect, read_location};
use anyhow::{Context, bail};
use clap::Args;
use client::{DEVELOPMENT_ENDPOINT, Error, ErrorKind, TableService};
use std::path::PathBuf;

/// The number is low because a person is waiting for the result.
const INTERACTIVE_ATTEMPTS_MAX: u32 = 3;

const ENDPOINT_VARIABLE: &str = "ROWHOUSE_ENDPOINT";

/// The first variable that is set is used.
const CONNECTION_STRING_VARIABLES: [&str; 2] = ["ROWHOUSE_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"];

/// The macro's text ends the help of every command.
macro_rules! connection_help {
    () => {
        "\
The service is given by the first of these: --endpoint, --connection-string-file, ROWHOUSE_CONNECTION_STRING, \
AZURE_STORAGE_CONNECTION_STRING. Otherwise, it is the development account on http://127.0.0.1:10002. Put the account key or a \
shared access signature into ROWHOUSE_KEY or into a file for --key-file, never on the command line; a signature may be part \
of the URL. The development account needs no key.

Exit codes: 0 success; 1 failure; 2 invalid command line; 4 the table or the entity does not exist; 5 it already exists, \
or has a different ETag."
    };
}

pub(crate) use connection_help;

/// The options that these commands share.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub(crate) struct ConnectionArgs {
    /// URL of a service with its account
    ///
    /// For example, http://127.0.0.1:10002/ACCOUNT, https://ACCOUNT.table.core.windows.net or the URL of a shared
    /// access signature.
    #[arg(
        long,
        env = ENDPOINT_VARIABLE,
        value_name = "URL",
        hide_env_values = true,
        conflicts_with = "connection_string_file",
        global = true
    )]
    endpoint: Option<String>,

    /// File with a connection string
    #[arg(long, env = "ROWHOUSE_CONNECTION_STRING_FILE", value_name = "FILE", global = true)]
    connection_string_file: Option<PathBuf>,

    /// File with the account key or shared access signature; alternatively, set ROWHOUSE_KEY
    #[arg(long, env = "ROWHOUSE_KEY_FILE", value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
}

impl ConnectionArgs {
    /// Returns the option or variable that selects the service, and its value.
    fn address(&self) -> anyhow::Result<(&'static str, String)> {
        let variable = |name: &str| std::env::var(name).ok();
        Ok(match (&self.endpoint, &self.connection_string_file) {
            (Some(endpoint), _) if variable(ENDPOINT_VARIABLE).as_ref() == Some(endpoint) => {
                (ENDPOINT_VARIABLE, endpoint.clone())
            }
            (Some(endpoint), _) => ("--endpoint", endpoint.clone()),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("reading --connection-string-file {}", path.display()))?;
                ("--connection-string-file", text.trim().to_owned())
            }
            (None, None) => {
                connection_string(variable).unwrap_or_else(|| ("--endpoint", DEVELOPMENT_ENDPOINT.to_owned()))
            }
        })
    }

    pub(super) fn origin(&self) -> anyhow::Result<&'static str> {
        Ok(self.address()?.0)
    }

    /// Returns a client without sending anything.
    pub(crate) fn service(&self) -> anyhow::Result<TableService> {
        let (origin, text) = self.address()?;
        match read_location(EndpointOption::Endpoint(origin), &text, self.key_file.as_deref())? {
            Location::Service { endpoint, credential } => {
                connect(endpoint.to_string(), endpoint, *credential, INTERACTIVE_ATTEMPTS_MAX)
            }
            other => bail!(
                "{origin} is set to {other}, which is not a service: start a server for it with 'rowhouse serve', or use \
                 export and import"
            ),
        }
    }
}

fn connection_string(variable: impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    let found = CONNECTION_STRING_VARIABLES.into_iter().filter_map(|name| Some((name, variable(name)?)));
    found.into_iter().find(|(_, text)| !text.trim().is_empty())
}

pub(crate) fn from_service(service: &TableService) -> impl Fn(Error) -> anyhow::Error {
    let name = service.endpoint().to_string();
    move |error| ServiceError::new(name.clone(), "--endpoint", error).into()
}

const EXIT_NOT_FOUND: u8 = 4;
const EXIT_CONFLICT: u8 = 5;
const EXIT_POSITION_EXPIRED: u8 = 6;

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let Some(error) = error.downcast_ref::<ServiceError>() else { return 1 };
    match error.kind() {
        ErrorKind::NotFound => EXIT_NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::PreconditionFailed => EXIT_CONFLICT,
        ErrorKind::PositionExpired => EXIT_POSITION_EXPIRED,
        _ => 1,
    }
}

pub(super) fn is_not_found(error: &anyhow::Error) -> bool {
    exit_code(error) == EXIT_NOT_FOUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_does_not_count() {
        let chosen = |one: &str, other: &str| {
            connection_string(|name| Some(if name == CONNECTION_STRING_VARIABLES[0] { one } else { other }.to_owned()))
        };
        let [first, second] = CONNECTION_STRING_VARIABLES;
        assert_eq!(chosen("one", "other"), Some((first, "one".to_owned())));
        assert_eq!(chosen(" ", "other"), Some((second, "other".to_owned())));
        assert_eq!(chosen("", ""), None);
    }
}
