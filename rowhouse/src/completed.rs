//! What is known of a request once it was answered, or given up: one value, made at one place (`service.rs`), from which
//! the access log, the metrics and the analytics of accounts are all fed.
//!
//! It is made only if one of them is there to be told, and it borrows everything. It never holds a credential, a
//! signature or the query part of the address, in which signatures stand.

use crate::operation_kind::OperationKind;
use http::HeaderValue;
use model::{AccountName, TableName};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use wire::ErrorCode;

/// Which kind of credential a request carries, whether it is good or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Credential {
    /// None, or none that was looked at: preflight requests have none.
    #[default]
    Anonymous,
    /// Shared Key or Shared Key Lite, or an `Authorization` header that is neither this nor another scheme in use.
    SharedKey,
    /// A shared access signature in the address.
    SharedAccessSignature,
    /// A bearer token.
    Bearer,
}

impl Credential {
    /// Every kind, each at the place of its number.
    pub(crate) const ALL: [Self; 4] = [Self::Anonymous, Self::SharedKey, Self::SharedAccessSignature, Self::Bearer];

    /// The name in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::SharedKey => "shared_key",
            Self::SharedAccessSignature => "shared_access_signature",
            Self::Bearer => "bearer",
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The client gets an answer.
    Answered {
        status: u16,
        /// The error code of the answer. A batch is answered with 202 whatever becomes of its operations; this is then the
        /// code of the one that failed it.
        code: Option<ErrorCode>,
    },
    /// The client stopped sending its body, or was too slow with it: the connection is closed without an answer.
    Aborted,
}

impl Outcome {
    /// The status that the client was told; 0 if it was told nothing.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Answered { status, .. } => status,
            Self::Aborted => 0,
        }
    }

    /// The error code that the client was told.
    pub(crate) fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Answered { code, .. } => code,
            Self::Aborted => None,
        }
    }
}

/// What is learned about a request on its way. It stays known when the request fails.
#[derive(Debug, Default)]
pub(crate) struct Learned<'r> {
    pub(crate) operation: OperationKind,
    /// The table that the address names.
    pub(crate) table: Option<Cow<'r, str>>,
    /// The table that the body names: the one to create, or that of the first operation of a batch.
    pub(crate) named: OnceLock<TableName>,
    pub(crate) credential: Credential,
    /// Whether the credential is good. What it allows is another matter.
    pub(crate) is_authenticated: bool,
    /// Whether the client gave the request less time than it would have had.
    pub(crate) has_own_timeout: bool,
    /// The size of the body that was read.
    pub(crate) request_bytes: usize,
    /// How long the body was waited for, if anybody wants to know.
    pub(crate) receiving: Duration,
}

impl Learned<'_> {
    /// The table that the request is about, wherever it is named.
    pub(crate) fn table(&self) -> Option<&str> {
        self.named.get().map(TableName::as_str).or(self.table.as_deref())
    }
}

/// A request that came to its end.
#[derive(Debug)]
pub(crate) struct Completed<'a> {
    /// When its head had been read, by the clock of the machine.
    pub(crate) began_at: SystemTime,
    /// From then until the answer was made. What it takes to send the answer comes on top.
    pub(crate) duration: Duration,
    /// How much of that was spent waiting for the client's body.
    pub(crate) receiving: Duration,
    pub(crate) operation: OperationKind,
    /// The account that is addressed, if this server has it.
    pub(crate) account: Option<&'a AccountName>,
    /// Whether the secondary endpoint of the account is addressed.
    pub(crate) is_secondary: bool,
    /// The table as the request names it, in whatever case; whether it exists is not said.
    pub(crate) table: Option<&'a str>,
    pub(crate) credential: Credential,
    /// Whether the credential is good. What it allows is another matter.
    pub(crate) is_authenticated: bool,
    /// Whether the client gave the request less time than it would have had.
    pub(crate) has_own_timeout: bool,
    pub(crate) outcome: Outcome,
    /// Bytes of the body that was read, without the head.
    pub(crate) request_bytes: u64,
    /// Bytes of the body of the answer, without the head.
    pub(crate) response_bytes: u64,
    pub(crate) method: &'a str,
    /// The path without the query part.
    pub(crate) path: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) client_request_id: Option<&'a HeaderValue>,
    pub(crate) user_agent: Option<&'a HeaderValue>,
    pub(crate) peer: SocketAddr,
    pub(crate) is_tls: bool,
}

/// What a header says, if it is visible text. It is looked at only by those who write it down.
pub(crate) fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}
