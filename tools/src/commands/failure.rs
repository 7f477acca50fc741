//! Errors as exit codes and words.

use anyhow::anyhow;
use client::{Error, TableService};
use std::io::ErrorKind;

/// Nothing is wrong but that the table or the entity is not there.
const NOT_FOUND: u8 = 4;
/// The table or the entity is there already, or has another version than was asked for.
const CONFLICT: u8 = 5;

/// Why a service did not do what it was asked for, with what may help.
#[derive(Debug)]
pub(super) struct ServiceFailure {
    endpoint: String,
    error: Error,
}

/// Says which service it was.
pub(super) fn on(service: &TableService) -> impl Fn(Error) -> anyhow::Error {
    let endpoint = service.endpoint().to_string();
    move |error| anyhow!(ServiceFailure { endpoint: endpoint.clone(), error })
}

impl ServiceFailure {
    fn exit_code(&self) -> u8 {
        match self.error.refusal() {
            Some((404, _)) => NOT_FOUND,
            Some((409 | 412, _)) => CONFLICT,
            _ => 1,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        let Some((status, code)) = self.error.refusal() else {
            let is_unreachable = matches!(self.error, Error::Unreachable { .. });
            return is_unreachable
                .then_some("is a server running there? 'rowhouse serve' starts one, and --endpoint names another one");
        };
        Some(match code {
            "TableNotFound" => {
                "'rowhouse table create' makes the table, and 'rowhouse table list' shows those there are"
            }
            "AuthenticationFailed" => {
                "the key or signature is not one of this account, has expired, or the clock of this machine is wrong"
            }
            _ if status == 403 => "the shared access signature or the address of this machine does not allow it",
            "EntityAlreadyExists" => "without --insert it is replaced, with --merge changed",
            "UpdateConditionNotSatisfied" => "somebody changed it: read it again for its new ETag",
            _ => return None,
        })
    }
}

impl std::fmt::Display for ServiceFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.endpoint)?;
        match &self.error {
            // The further lines of a message name the request and the time.
            Error::Refused { what, status, code, message, .. } => {
                write!(f, "{what} was refused: {status} {code}: {}", message.lines().next().unwrap_or_default())?;
            }
            other => write!(f, "{other}")?,
        }
        self.advice().map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

impl std::error::Error for ServiceFailure {}

/// What the program ends with.
pub(super) fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<ServiceFailure>().map_or(1, ServiceFailure::exit_code)
}

/// Whether it is a refusal because something is not there.
pub(super) fn is_not_found(error: &anyhow::Error) -> bool {
    exit_code(error) == NOT_FOUND
}

/// Whether the output has no reader any more.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let source = error.chain().find_map(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == ErrorKind::BrokenPipe)
}
