//! One request, from the socket to the log.
//!
//! The steps of the request path fill in the context, so it is complete no matter how the request ends. The response
//! headers, the log, metrics, analytics and traces are derived from it.

use super::incoming::invalid_header;
use super::{CredentialKind, IncomingRequest, OperationKind, RequestId};
use crate::failure::Failure;
use http::HeaderValue;
use model::limits::CLIENT_REQUEST_ID_CHARS_MAX;
use model::{DateTime, Dialect, ServiceProperties, TableName};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use wire::error::ErrorOrigin;
use wire::negotiation::Preference;
use wire::reason::ReasonKind;
use wire::sas::user_delegation::Delegator;
use wire::target::Resource;
use wire::{Format, Version};

#[derive(Debug)]
pub(crate) struct RequestContext<'r> {
    pub(crate) incoming: &'r IncomingRequest<'r>,
    /// The service that the server answers like.
    pub(crate) dialect: Dialect,
    pub(crate) id: RequestId,
    pub(crate) client_request_id: Option<HeaderValue>,
    /// The properties of the addressed account, if it has CORS rules. These rules apply to every response.
    pub(crate) cors: Option<Arc<ServiceProperties>>,
    pub(crate) credential: CredentialKind,
    /// The principal of the token and the inputs for its user delegation key, if it is requested.
    pub(crate) delegator: Option<Delegator>,
    pub(crate) is_authenticated: bool,
    /// When the credential expires; `None` if it does not.
    pub(crate) expires: Option<SystemTime>,
    /// Where clients get tokens: the value of `WWW-Authenticate`.
    pub(crate) challenge: Option<HeaderValue>,
    /// Whether the response names the emulator's version, whatever version the request names.
    pub(crate) names_emulator_version: bool,
    /// The version in the response; set after the request is authenticated.
    pub(crate) version: Option<Version>,
    /// The version that determines the form of the response: the newest one until the request's version is known.
    pub(crate) form_version: Version,
    pub(crate) operation: OperationKind,
    pub(crate) table: Option<Cow<'r, str>>,
    /// The table in the body: the one to create, or the one of the first operation of a batch.
    pub(crate) table_in_body: OnceLock<TableName>,
    /// Whether the front end responds, and errors are therefore XML. It responds to operations on the account, on
    /// policies and on indexes, and to preflight requests.
    pub(crate) is_front_end: bool,
    pub(crate) format: Option<Format>,
    /// The preference in the `Prefer` header; error responses repeat it.
    pub(crate) preference: Option<Preference>,
    /// Whether the client set a timeout shorter than the default.
    pub(crate) has_own_timeout: bool,
    pub(crate) request_bytes: usize,
    /// How long the request waited for its body, if that is measured.
    pub(crate) body_wait: Duration,
    pub(crate) entities: EntityCounts,
}

/// Entities count even if the operation failed partway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EntityCounts {
    pub(crate) examined: u64,
    /// Entities in the response to a get or a query.
    pub(crate) returned: u64,
    /// Entities that were inserted, changed or deleted.
    pub(crate) written: u64,
}

impl<'r> RequestContext<'r> {
    pub(crate) fn new(incoming: &'r IncomingRequest<'r>) -> Self {
        Self {
            dialect: Dialect::default(),
            id: RequestId::new(),
            client_request_id: echoed_request_id(incoming.head.client_request_id),
            cors: None,
            credential: CredentialKind::default(),
            delegator: None,
            is_authenticated: false,
            expires: None,
            challenge: None,
            names_emulator_version: false,
            version: None,
            form_version: Version::USER_DELEGATION,
            operation: OperationKind::default(),
            table: None,
            table_in_body: OnceLock::new(),
            is_front_end: false,
            format: None,
            preference: None,
            has_own_timeout: false,
            request_bytes: 0,
            body_wait: Duration::ZERO,
            entities: EntityCounts::default(),
            incoming,
        }
    }

    /// Rejects a client request ID that cannot be echoed (06 §5).
    pub(crate) fn check_client_request_id(&self) -> Result<(), Failure> {
        if self.incoming.head.client_request_id.is_some() && self.client_request_id.is_none() {
            return Err(invalid_header(ReasonKind::ClientRequestId.because("")));
        }
        Ok(())
    }

    /// Returns what an error body says about the request.
    pub(crate) fn error_origin(&self, now: DateTime) -> ErrorOrigin<'_> {
        let client_request_id = self.client_request_id.as_ref().and_then(|id| id.to_str().ok());
        ErrorOrigin { request_id: self.id.as_str(), client_request_id, now }
    }

    /// Returns the time until the credential expires, counted from the beginning of the request.
    pub(crate) fn time_left(&self) -> Duration {
        let left = |expires: SystemTime| expires.duration_since(self.incoming.now).unwrap_or_default();
        self.expires.map_or(Duration::MAX, left)
    }

    pub(crate) fn table(&self) -> Option<&str> {
        self.table_in_body.get().map(TableName::as_str).or(self.table.as_deref())
    }
}

/// Returns true if the front end responds, in XML: for operations on the account, and on policies and settings of
/// tables.
pub(crate) fn is_of_front_end(
    resource: &Resource<'_>,
    restype: Option<&str>,
    comp: Option<&str>,
    extensions: bool,
) -> bool {
    match resource {
        // Service properties below a table. A client whose endpoint URL ends with the name of a table requests them
        // (recorded).
        Resource::Entities(_) | Resource::Nested(_) if restype == Some("service") && comp.is_some() => true,
        Resource::Service => restype.is_some() || comp.is_some(),
        Resource::Entities(_) => comp == Some("acl") || (extensions && matches!(comp, Some("indexes" | "retention"))),
        _ => false,
    }
}

/// Returns the client request ID if it can be echoed: visible ASCII, not too long.
fn echoed_request_id(value: Option<&HeaderValue>) -> Option<HeaderValue> {
    let value = value?;
    let is_visible = value.as_bytes().iter().all(|b| (b' '..=b'~').contains(b));
    (is_visible && value.len() <= CLIENT_REQUEST_ID_CHARS_MAX).then(|| value.clone())
}
