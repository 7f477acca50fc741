use crate::terminal::escaped;
use anyhow::anyhow;
use client::{Error, ErrorKind, Refusal, TableService};

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
