//! One log event for each request, with the target `rowhouse::access` and the level debug. `--log
//! info,rowhouse::access=debug` turns these events on. They are off by default to keep the log of a busy server
//! readable.
//!
//! An event contains only fields of a [`RequestSummary`], and therefore no credential, no signature and no query part
//! of a URL.

use crate::request::CredentialKind;
use crate::telemetry::summary::{RequestSummary, text};
use tracing::{Level, debug, enabled};

const TARGET: &str = "rowhouse::access";

pub(crate) fn is_on() -> bool {
    enabled!(target: TARGET, Level::DEBUG)
}

pub(crate) fn write(summary: &RequestSummary<'_>) {
    debug!(
        target: TARGET,
        method = summary.method,
        path = summary.path,
        operation = summary.operation.name(),
        account = summary.account.map(tracing::field::display),
        table = summary.table,
        status = summary.outcome.status(),
        code = summary.outcome.code().map(wire::ErrorCode::as_str),
        request_bytes = summary.request_bytes,
        response_bytes = summary.response_bytes,
        microseconds = microseconds(summary.duration),
        receiving_microseconds = microseconds(summary.body_wait),
        entities_examined = summary.entities.examined,
        entities_returned = summary.entities.returned,
        entities_written = summary.entities.written,
        request_id = summary.request_id,
        client_request_id = text(summary.client_request_id),
        peer = %summary.peer,
        client = %summary.client,
        tls = summary.is_tls,
        secondary = summary.is_secondary,
        user_agent = text(summary.user_agent),
        credential = CredentialKind::name(summary.credential),
        authenticated = summary.is_authenticated,
    );
}

fn microseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
