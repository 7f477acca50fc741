//! A request as it came in: its address and its head, before authentication.

use super::body::BodyFailure;
use super::{ConnectionInfo, Failure, Head, Layer};
use http::HeaderValue;
use http::request::Parts;
use model::limits::HOST_BYTES_MAX;
use model::{Grant, Scope};
use std::time::{Instant, SystemTime};
use wire::target::Target;
use wire::{ErrorCode, QueryOptions, Version};

/// A request whose body has not been read.
#[derive(Debug)]
pub(crate) struct IncomingRequest<'r> {
    pub(crate) parts: &'r Parts,
    pub(crate) head: Head<'r>,
    pub(crate) connection: ConnectionInfo,
    /// When the head had been read.
    pub(crate) started: Instant,
    /// The same moment as the time of day.
    pub(crate) now: SystemTime,
    /// The same moment by the clocks of clients, if a test moved that of the server.
    pub(crate) now_of_clients: Option<SystemTime>,
    /// The host that is addressed; empty if none is named.
    pub(crate) host: &'r str,
    pub(crate) raw_query: &'r str,
    pub(crate) options: QueryOptions<'r>,
    pub(crate) target: Target<'r>,
}

impl<'r> IncomingRequest<'r> {
    /// A request whose head was read at this instant, which is this time of day. `domains` are those under which accounts are
    /// addressed host style.
    pub(crate) fn new(
        parts: &'r Parts,
        connection: ConnectionInfo,
        (started, now): (Instant, SystemTime),
        domains: &[String],
    ) -> Self {
        let head = Head::of(&parts.headers);
        let (host, raw_query) = (host(parts, &head), parts.uri.query().unwrap_or_default());
        let options = QueryOptions::parse(raw_query);
        let target = Target::parse(host, parts.uri.path(), domains);
        Self { parts, head, connection, started, now, now_of_clients: None, host, raw_query, options, target }
    }

    /// Refuses a request that addresses no host; one whose host cannot be a name or an address with a port; and one that
    /// others on its way could understand differently: two hosts, or a body in another encoding than chunks alone. Where
    /// the next request begins is then not certain, so the connection ends.
    pub(crate) fn check_head(&self) -> Result<(), BodyFailure> {
        let head = &self.head;
        if self.host.is_empty() && !head.is_host_repeated {
            return Err(Failure::at(Layer::FrontEnd, ErrorCode::HostInformationNotPresent).into());
        }
        let is_in_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte);
        let is_host = self.host.len() <= HOST_BYTES_MAX && self.host.bytes().all(is_in_host);
        let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
        let is_framed = !head.is_transfer_encoding_repeated && head.transfer_encoding.is_none_or(is_chunked);
        if is_host && is_framed && !head.is_host_repeated {
            return Ok(());
        }
        Err(BodyFailure::FailedForGood(Failure::at(Layer::FrontEnd, ErrorCode::InvalidHeaderValue)))
    }

    /// The version that the request names; `None` if it names none.
    ///
    /// Where the credential stands in the address, so may the version, and the one of the signature is the last resort
    /// (08 §10, which goes before 02 §7: no signature binds a request to its own version).
    pub(crate) fn version(&self) -> Result<Option<Version>, Failure> {
        let (head, options) = (&self.head, &self.options);
        let is_signed = options.signature.is_some() && (head.authorization.is_none() || self.is_bound_to_user());
        if let Some(text) = options.api_version.as_deref().filter(|_| is_signed) {
            let version = Version::parse(text).map(Some);
            return version.ok_or_else(|| Failure::at(Layer::FrontEnd, ErrorCode::InvalidQueryParameterValue));
        }
        if is_signed && head.version.is_none() {
            return Ok(options.signed_version.as_deref().and_then(Version::parse));
        }
        let Some(value) = head.version else { return Ok(None) };
        let version = value.to_str().ok().and_then(|text| Version::parse(text.trim()));
        version.map(Some).ok_or_else(|| Failure::at(Layer::FrontEnd, ErrorCode::InvalidHeaderValue))
    }

    /// Whether the address has a signature that is bound to a user, so that the token in the header is not what allows the
    /// request (08 §11).
    pub(crate) fn is_bound_to_user(&self) -> bool {
        self.options.signature.is_some() && self.options.signed_user.as_deref().is_some_and(|user| !user.is_empty())
    }

    /// The signature or the principal of a token that granted this; `None` for the keys of the account.
    pub(crate) fn credential<'g>(&'g self, grant: &'g Grant) -> Option<&'g str> {
        match &grant.scope {
            Scope::Owner | Scope::Nothing(_) => None,
            Scope::Table { .. } | Scope::Account { .. } | Scope::Delegated { .. } => self.options.signature.as_deref(),
            Scope::Roles(roles) => Some(&roles.caller),
        }
    }

    /// Scheme, host and, in path style, account: what addresses in responses start with.
    pub(crate) fn base(&self) -> String {
        [self.connection.scheme(), "://", self.host, self.target.base_path].concat()
    }

    /// Whether the client reads JSON, as far as can be said before a format is negotiated.
    pub(crate) fn accepts_json(&self) -> bool {
        let accept = self.head.accept.map(HeaderValue::as_bytes).unwrap_or_default();
        accept.windows(b"application/json".len()).any(|w| w.eq_ignore_ascii_case(b"application/json"))
    }
}

/// The host that the client addressed: that of an absolute target, else that of the `Host` header.
fn host<'r>(parts: &'r Parts, head: &Head<'r>) -> &'r str {
    let header = || head.host.and_then(|value| value.to_str().ok());
    parts.uri.authority().map(http::uri::Authority::as_str).or_else(header).unwrap_or_default()
}
