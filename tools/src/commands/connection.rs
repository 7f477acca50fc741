use crate::endpoints::{EndpointOption, Location, read_location};
use crate::terminal::escaped;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use client::{DEVELOPMENT_ENDPOINT, Error, ErrorKind, Refusal, RetryPolicy, TableService};
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
    /// Returns a client without sending anything.
    pub(crate) fn service(&self) -> anyhow::Result<TableService> {
        let variable = |name: &str| std::env::var(name).ok();
        let (origin, text) = match (&self.endpoint, &self.connection_string_file) {
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
        };
        match read_location(EndpointOption::Endpoint(origin), &text, self.key_file.as_deref())? {
            Location::Service { endpoint, credential } => {
                let retry = RetryPolicy::exponential().attempts(INTERACTIVE_ATTEMPTS_MAX);
                Ok(TableService::builder(endpoint, *credential).retry(retry).build()?)
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

const EXIT_NOT_FOUND: u8 = 4;
const EXIT_CONFLICT: u8 = 5;
const EXIT_POSITION_EXPIRED: u8 = 6;

/// The message names the service and gives advice.
#[derive(Debug)]
pub(super) struct ServiceError {
    endpoint: String,
    error: Error,
}

pub(crate) fn from_service(service: &TableService) -> impl Fn(Error) -> anyhow::Error {
    let endpoint = service.endpoint().to_string();
    move |error| anyhow!(ServiceError { endpoint: endpoint.clone(), error })
}

impl ServiceError {
    fn exit_code(&self) -> u8 {
        match self.error.kind() {
            ErrorKind::NotFound => EXIT_NOT_FOUND,
            ErrorKind::Conflict | ErrorKind::PreconditionFailed => EXIT_CONFLICT,
            ErrorKind::PositionExpired => EXIT_POSITION_EXPIRED,
            _ => 1,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        let Some(refusal) = self.error.refusal() else {
            let is_unreachable = matches!(self.error, Error::Unreachable { .. });
            return is_unreachable.then_some(
                "is a server running there? Start one with 'rowhouse serve', or choose a different server with --endpoint",
            );
        };
        Some(match refusal.code.as_str() {
            "TableNotFound" => {
                "create it with 'rowhouse table create', or list the existing tables with 'rowhouse table list'"
            }
            "InvalidResourceName" if refusal.what.starts_with("reading the change feed") => {
                "the server has no change feed: start it with 'rowhouse serve --keep-log 24h'"
            }
            "PositionExpired" => {
                "the log was dropped or began again, so changes are missing: see exit code 6 in 'rowhouse follow --help'"
            }
            "InvalidQueryParameterValue"
                if refusal.what.contains(" the retention of ") || refusal.what.contains(" the indexes of ") =>
            {
                "only a Rowhouse server with extensions has it: start the server with 'rowhouse serve --extensions'"
            }
            "InvalidResourceName" if refusal.what.starts_with("querying the table '$By") => {
                "ordered views need a Rowhouse server with extensions: start it with 'rowhouse serve --extensions'"
            }
            "NotImplemented" if refusal.what.starts_with("querying the table") => {
                "startswith, endswith, contains and substringof in filters need a Rowhouse server with extensions: start it \
                 with 'rowhouse serve --extensions'; no server has other functions"
            }
            "AccountRequiresHttps" => "the server uses HTTPS on this port: start the URL with https://",
            "AuthenticationFailed" => {
                "the key or signature does not belong to this account or has expired, or the clock of this machine is wrong"
            }
            // The message says why the server cannot be written.
            "InsufficientAccountPermissions" => return None,
            _ if refusal.status == 403 => {
                "the shared access signature or the address of this machine does not allow it"
            }
            "EntityAlreadyExists" => "omit --insert to replace it, or use --merge to change it",
            "UpdateConditionNotSatisfied" => "the entity has changed: read it to get its new ETag",
            _ => return None,
        })
    }
}

impl std::fmt::Display for ServiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.endpoint)?;
        match &self.error {
            Error::Refused(refusal) | Error::PositionExpired { refusal, .. } => {
                let Refusal { what, status, code, message, .. } = refusal.as_ref();
                let code = escaped(code);
                if let Some(reason) = refusal.unexpected_reason() {
                    return write!(f, "{what} was refused: {} ({status} {code}: {message})", escaped(&reason));
                }
                write!(f, "{what} was refused: {status} {code}: {message}")?;
            }
            other => write!(f, "{other}")?,
        }
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl std::error::Error for ServiceError {}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<ServiceError>().map_or(1, ServiceError::exit_code)
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
