//! Errors of a service, as messages that name the service and give advice.

use crate::terminal::escaped;
use client::{Error, ErrorKind, Refusal};
use engine::TableKey;
use model::EntityKey;
use std::fmt;

/// An entity that the target does not accept, because the target has narrower limits than the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityTooLarge {
    pub(crate) table: TableKey,
    pub(crate) key: EntityKey,
}

impl fmt::Display for EntityTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, row) = (self.key.partition.as_str(), self.key.row.as_str());
        let table = &self.table.name;
        write!(
            f,
            "the target accepts no entity as large as the one with partition {partition:?} and row {row:?} in table \
             '{table}'"
        )
    }
}

/// An error of a service. The message names the service and gives advice.
#[derive(Debug)]
pub(crate) struct ServiceError {
    /// The name of the service in messages.
    service: String,
    /// The option that selects a different service.
    option: &'static str,
    error: Error,
}

impl ServiceError {
    /// `option` selects a different service.
    pub(crate) fn new(service: String, option: &'static str, error: Error) -> Self {
        Self { service, option, error }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.error.status()
    }

    fn advice(&self) -> Option<String> {
        let Some(refusal) = self.error.refusal() else {
            let is_refused = matches!(&self.error, Error::Unreachable { source, .. } if source.is_refused());
            return is_refused.then(|| {
                format!(
                    "is a server running there? Start one with 'rowhouse serve', or choose a different server with {}",
                    self.option
                )
            });
        };
        let advice = match refusal.code.as_str() {
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
        };
        Some(advice.to_owned())
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.service)?;
        match &self.error {
            Error::Refused(refusal) | Error::PositionExpired { refusal, .. } => {
                let Refusal { what, status, code, message, .. } = refusal.as_ref();
                let code = escaped(code);
                match refusal.unexpected_reason() {
                    Some(reason) => {
                        write!(f, "{what} was refused: {} ({status} {code}: {message})", escaped(&reason))?;
                    }
                    None if code.is_empty() => write!(
                        f,
                        "{what} was refused: {status}, without an error code of a Table service (is the address right?)"
                    )?,
                    None if message.is_empty() => write!(f, "{what} was refused: {status} {code}")?,
                    None => write!(f, "{what} was refused: {status} {code}: {message}")?,
                }
            }
            other => write!(f, "{other}")?,
        }
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl std::error::Error for ServiceError {}
