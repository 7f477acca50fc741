//! The summary of a completed request, for log, metrics, analytics and traces.
//!
//! The summary is created in one place (`service.rs`), only if at least one of these is on. It borrows everything from
//! the context of the request. It never contains a credential, a signature, or the query part of the URL, which may
//! contain a signature.

use crate::clock;
use crate::request::{CredentialKind, EntityCounts, OperationKind, RequestContext};
use http::HeaderValue;
use model::AccountName;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};
use wire::ErrorCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Responded {
        status: u16,
        /// The error code of the response. The response to a batch is 202 even if an operation failed; in that case,
        /// this is the code of that operation.
        code: Option<ErrorCode>,
    },
    /// The client stopped sending its body or was too slow. The connection is closed without a response.
    Aborted,
}

impl Outcome {
    /// Returns 0 if there is no response.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Responded { status, .. } => status,
            Self::Aborted => 0,
        }
    }

    pub(crate) fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Responded { code, .. } => code,
            Self::Aborted => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct RequestSummary<'a> {
    /// The time at which the head of the request had been read.
    pub(crate) began_at: SystemTime,
    /// The time from then until the response was ready, excluding the time to send it.
    pub(crate) duration: Duration,
    /// The part of the duration spent waiting for the client's body.
    pub(crate) body_wait: Duration,
    pub(crate) operation: OperationKind,
    pub(crate) account: Option<&'a AccountName>,
    pub(crate) is_secondary: bool,
    /// The table as the request spells it; it may not exist.
    pub(crate) table: Option<&'a str>,
    pub(crate) credential: CredentialKind,
    /// Whether the credential is valid, regardless of what it allows.
    pub(crate) is_authenticated: bool,
    /// Whether the client set a timeout shorter than the default.
    pub(crate) has_own_timeout: bool,
    pub(crate) outcome: Outcome,
    /// The number of bytes of the request body that were read, excluding the head.
    pub(crate) request_bytes: u64,
    /// The size of the response body in bytes, excluding the head.
    pub(crate) response_bytes: u64,
    pub(crate) entities: EntityCounts,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) client_request_id: Option<&'a HeaderValue>,
    pub(crate) user_agent: Option<&'a HeaderValue>,
    pub(crate) peer: SocketAddr,
    /// The client's address, which differs from the peer's behind a trusted proxy.
    pub(crate) client: IpAddr,
    pub(crate) is_tls: bool,
}

impl<'a> RequestSummary<'a> {
    /// Summarizes a request with the given outcome and response size in bytes. `account` is the addressed account, if
    /// this server has it.
    pub(crate) fn new(
        context: &'a RequestContext<'_>,
        account: Option<&'a AccountName>,
        outcome: Outcome,
        response_bytes: u64,
    ) -> Self {
        let incoming = context.incoming;
        Self {
            began_at: incoming.now,
            duration: clock::elapsed_since(incoming.started),
            body_wait: context.body_wait,
            operation: context.operation,
            account,
            is_secondary: incoming.target.secondary,
            table: context.table(),
            credential: context.credential,
            is_authenticated: context.is_authenticated,
            has_own_timeout: context.has_own_timeout,
            outcome,
            request_bytes: context.request_bytes as u64,
            response_bytes,
            entities: context.entities,
            method: incoming.parts.method.as_str(),
            path: incoming.parts.uri.path(),
            request_id: context.id.as_str(),
            client_request_id: context.client_request_id.as_ref(),
            user_agent: incoming.parts.headers.get(http::header::USER_AGENT),
            peer: incoming.connection.peer,
            client: incoming.connection.client,
            is_tls: incoming.connection.is_tls,
        }
    }
}

/// Returns the value of a header if it is visible text. It is checked only where the value is written.
pub(crate) fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}
