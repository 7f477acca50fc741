//! One request, from the socket to the log.
//!
//! The steps of the request path fill it in, so that it is complete however the request ends. The headers of the response,
//! the log, metrics, analytics and traces are made from it.

use super::{CredentialKind, Failure, IncomingRequest, Layer, OperationKind, RequestId};
use http::HeaderValue;
use model::limits::CLIENT_REQUEST_ID_CHARS_MAX;
use model::{ServiceProperties, TableName};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::negotiation::Preference;
use wire::sas::user_delegation::Delegator;
use wire::target::Resource;
use wire::{ErrorCode, Format, Version};

/// A request, and what the steps of the request path have found out about it.
#[derive(Debug)]
pub(crate) struct RequestContext<'r> {
    /// The request as it came in.
    pub(crate) incoming: &'r IncomingRequest<'r>,
    /// The id of the request, new for each.
    pub(crate) id: RequestId,
    /// The id that the client gave the request, if it can be echoed.
    pub(crate) client_request_id: Option<HeaderValue>,
    /// The properties of the addressed account, if it has CORS rules, which every response follows.
    pub(crate) cors: Option<Arc<ServiceProperties>>,
    pub(crate) credential: CredentialKind,
    /// The principal of the token and what its user delegation key is made of, if the request asks for one.
    pub(crate) delegator: Option<Delegator>,
    /// Whether the credential is valid. What it allows is another matter.
    pub(crate) is_authenticated: bool,
    /// Where clients get tokens: the value of `WWW-Authenticate`.
    pub(crate) challenge: Option<HeaderValue>,
    /// Whether the response names the emulator's version, whatever the request says.
    pub(crate) names_emulator_version: bool,
    /// The version that the response names; set once the request is authenticated.
    pub(crate) version: Option<Version>,
    pub(crate) operation: OperationKind,
    /// The table that the address names.
    pub(crate) table: Option<Cow<'r, str>>,
    /// The table that the body names: the one to create, or that of the first operation of a batch.
    pub(crate) table_in_body: OnceLock<TableName>,
    /// Whether the front end responds, whose errors are XML: operations on the account and on policies, preflight requests.
    pub(crate) is_front_end: bool,
    /// The format of the response and of errors; set once it was negotiated.
    pub(crate) format: Option<Format>,
    /// What the `Prefer` header asked for; errors repeat it.
    pub(crate) preference: Option<Preference>,
    /// Whether the client gave the request less time than it would have had.
    pub(crate) has_own_timeout: bool,
    /// The size of the body that was read.
    pub(crate) request_bytes: usize,
    /// How long the request waited for its body, if that is measured.
    pub(crate) receiving: Duration,
    pub(crate) entities: EntityCounts,
}

/// How many entities an operation worked on, as far as it came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EntityCounts {
    /// Those that were looked at, matching a filter or not.
    pub(crate) examined: u64,
    /// Those that are in the response to a get or a query.
    pub(crate) returned: u64,
    /// Those that were inserted, changed or deleted.
    pub(crate) written: u64,
}

impl<'r> RequestContext<'r> {
    /// The context of a request of which only the head is known.
    pub(crate) fn new(incoming: &'r IncomingRequest<'r>) -> Self {
        Self {
            id: RequestId::new(),
            client_request_id: echoed_request_id(incoming.head.client_request_id),
            cors: None,
            credential: CredentialKind::default(),
            delegator: None,
            is_authenticated: false,
            challenge: None,
            names_emulator_version: false,
            version: None,
            operation: OperationKind::default(),
            table: None,
            table_in_body: OnceLock::new(),
            is_front_end: false,
            format: None,
            preference: None,
            has_own_timeout: false,
            request_bytes: 0,
            receiving: Duration::ZERO,
            entities: EntityCounts::default(),
            incoming,
        }
    }

    /// Refuses an id of the client that cannot be echoed (06 §5).
    pub(crate) fn check_client_request_id(&self) -> Result<(), Failure> {
        if self.incoming.head.client_request_id.is_some() && self.client_request_id.is_none() {
            return Err(Failure::at(Layer::FrontEnd, ErrorCode::InvalidHeaderValue));
        }
        Ok(())
    }

    /// The table that the request is about, whether the address names it or the body.
    pub(crate) fn table(&self) -> Option<&str> {
        self.table_in_body.get().map(TableName::as_str).or(self.table.as_deref())
    }
}

/// Whether the front end responds, in XML: operations on the account and on policies.
pub(crate) fn is_of_front_end(resource: &Resource<'_>, restype: Option<&str>, comp: Option<&str>) -> bool {
    match resource {
        // Service properties below a table, which a client asks for whose endpoint ends in the name of a table (recorded).
        Resource::Entities(_) | Resource::Nested { .. } if restype == Some("service") && comp.is_some() => true,
        Resource::Service => restype.is_some() || comp.is_some(),
        Resource::Entities(_) => comp == Some("acl"),
        _ => false,
    }
}

/// The id by which the client names its request, if it is one that is echoed: visible ASCII, not too long.
fn echoed_request_id(value: Option<&HeaderValue>) -> Option<HeaderValue> {
    let value = value?;
    let is_visible = value.as_bytes().iter().all(|b| (b' '..=b'~').contains(b));
    (is_visible && value.len() <= CLIENT_REQUEST_ID_CHARS_MAX).then(|| value.clone())
}
