//! One event in the log for each request: target `rowhouse::access`, level debug, so that the log of a busy server stays
//! readable unless somebody asks for it with `--log info,rowhouse::access=debug`.
//!
//! It says nothing that a [`Completed`] does not hold, so no credential, no signature and no query part of an address.

use crate::completed::{Completed, Credential, text};
use tracing::{Level, debug, enabled};

const TARGET: &str = "rowhouse::access";

/// Whether somebody wants the events.
pub(crate) fn is_on() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

/// Writes the event, if somebody wants it.
pub(crate) fn write(completed: &Completed<'_>) {
    debug!(
        target: TARGET,
        method = completed.method,
        path = completed.path,
        operation = completed.operation.name(),
        account = completed.account.map(tracing::field::display),
        table = completed.table,
        status = completed.outcome.status(),
        code = completed.outcome.code().map(wire::ErrorCode::as_str),
        request_bytes = completed.request_bytes,
        response_bytes = completed.response_bytes,
        microseconds = microseconds(completed.duration),
        receiving_microseconds = microseconds(completed.receiving),
        request_id = completed.request_id,
        client_request_id = text(completed.client_request_id),
        peer = %completed.peer,
        tls = completed.is_tls,
        secondary = completed.is_secondary,
        user_agent = text(completed.user_agent),
        credential = Credential::name(completed.credential),
        authenticated = completed.is_authenticated,
    );
}

fn microseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
