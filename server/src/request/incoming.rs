//! A received request: its URL and its head, before authentication.

use super::Head;
use super::body::BodyFailure;
use crate::failure::{Failure, Layer};
use http::HeaderValue;
use http::request::Parts;
use model::limits::HOST_BYTES_MAX;
use model::{Grant, Scope};
use std::net::{IpAddr, SocketAddr};
use std::time::{Instant, SystemTime};
use wire::reason::{Reason, ReasonKind};
use wire::target::Target;
use wire::{ErrorCode, QueryOptions, ServiceError, Version};

#[derive(Debug)]
pub(crate) struct IncomingRequest<'r> {
    pub(crate) parts: &'r Parts,
    pub(crate) head: Head<'r>,
    pub(crate) connection: ConnectionInfo,
    /// The time at which the complete head had been read.
    pub(crate) started: Instant,
    /// The same moment as a time of day.
    pub(crate) now: SystemTime,
    /// The same moment as a time of day by the clients' clocks, if a test moved the server's clock.
    pub(crate) now_of_clients: Option<SystemTime>,
    pub(crate) host: &'r str,
    pub(crate) raw_query: &'r str,
    pub(crate) options: QueryOptions<'r>,
    pub(crate) target: Target<'r>,
}

impl<'r> IncomingRequest<'r> {
    /// Creates a request whose head was read at the given instant and time of day. `domains` are the domains under
    /// which accounts are addressed in host style.
    pub(crate) fn new(
        parts: &'r Parts,
        connection: ConnectionInfo,
        (started, now): (Instant, SystemTime),
        domains: &[String],
    ) -> Self {
        let head = Head::from_headers(&parts.headers);
        let (host, raw_query) = (host(parts, &head), parts.uri.query().unwrap_or_default());
        let options = QueryOptions::parse(raw_query);
        let target = Target::parse(host, parts.uri.path(), domains);
        Self { parts, head, connection, started, now, now_of_clients: None, host, raw_query, options, target }
    }

    /// Rejects a request without a host, or with a host that cannot be a name or an address with a port. Also rejects
    /// requests that intermediaries could interpret differently: those with two hosts, or with a transfer encoding
    /// other than `chunked` alone. In these cases it is uncertain where the next request begins, so the connection is
    /// closed.
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
        let reason = if !is_framed {
            ReasonKind::TransferEncoding.because("")
        } else if head.is_host_repeated {
            ReasonKind::HostInvalid.because("The Host header is given twice.")
        } else {
            let detail = "The Host header contains characters that no host has, or is too long.";
            ReasonKind::HostInvalid.because(detail).quoting(self.host)
        };
        Err(BodyFailure::FailedAndClose(invalid_header(reason)))
    }

    /// Returns the version that the request names.
    ///
    /// If the credential is in the URL, the version may also be in the URL. If the request names no version, the
    /// version of the signature is used (08 §10, which takes precedence over 02 §7: no signature binds a request to
    /// the version of the signature).
    pub(crate) fn version(&self) -> Result<Option<Version>, Failure> {
        let (head, options) = (&self.head, &self.options);
        let is_signed = options.signature.is_some() && (head.authorization.is_none() || self.is_bound_to_user());
        if let Some(text) = options.api_version.as_deref().filter(|_| is_signed) {
            let version = Version::parse(text).map(Some);
            return version.ok_or_else(|| {
                let error = ServiceError::from(ErrorCode::InvalidQueryParameterValue);
                Failure::at(Layer::FrontEnd, error.because(Version::unknown(text)))
            });
        }
        if is_signed && head.version.is_none() {
            return Ok(options.signed_version.as_deref().and_then(Version::parse));
        }
        let Some(value) = head.version else { return Ok(None) };
        let text = value.to_str().unwrap_or_default().trim();
        Version::parse(text).map(Some).ok_or_else(|| invalid_header(Version::unknown(text)))
    }

    /// Returns true if the URL has a signature that is bound to a user. In that case, the signature authorizes the
    /// request, and the token in the header does not (08 §11).
    pub(crate) fn is_bound_to_user(&self) -> bool {
        self.options.signature.is_some() && self.options.signed_user.as_deref().is_some_and(|user| !user.is_empty())
    }

    /// Returns the signature, or the principal of the token, on which the grant is based; `None` for the account's
    /// keys.
    pub(crate) fn credential<'g>(&'g self, grant: &'g Grant) -> Option<&'g str> {
        match &grant.scope {
            Scope::Owner | Scope::Nothing(_) => None,
            Scope::Table { .. } | Scope::Account { .. } | Scope::Delegated { .. } => self.options.signature.as_deref(),
            Scope::Roles(roles) => Some(&roles.caller),
        }
    }

    /// Returns scheme, host and, in path style, account: the start of URLs in responses.
    pub(crate) fn base(&self) -> String {
        [self.connection.scheme(), "://", self.host, self.target.base_path].concat()
    }

    /// Guesses whether the client reads JSON. The guess is used before a format is negotiated.
    pub(crate) fn accepts_json(&self) -> bool {
        let accept = self.head.accept.map(HeaderValue::as_bytes).unwrap_or_default();
        accept.windows(b"application/json".len()).any(|w| w.eq_ignore_ascii_case(b"application/json"))
    }
}

/// Returns the failure for a header that the front end refuses.
pub(super) fn invalid_header(reason: Reason) -> Failure {
    Failure::at(Layer::FrontEnd, ServiceError::from(ErrorCode::InvalidHeaderValue).because(reason))
}

/// Returns the host that the client addressed: the host of an absolute target, or else the value of the `Host` header.
fn host<'r>(parts: &'r Parts, head: &Head<'r>) -> &'r str {
    let header = || head.host.and_then(|value| value.to_str().ok());
    parts.uri.authority().map(http::uri::Authority::as_str).or_else(header).unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionInfo {
    /// The other end of the connection: the client, or the last proxy before this server.
    pub(crate) peer: SocketAddr,
    /// The address of the client: the peer's, or the one that a trusted proxy names.
    pub(crate) client: IpAddr,
    /// Whether the client uses HTTPS: towards this server, or towards a trusted proxy that says so.
    pub(crate) is_tls: bool,
}

impl ConnectionInfo {
    /// Describes a connection without a proxy.
    pub(crate) fn direct(peer: SocketAddr, is_tls: bool) -> Self {
        Self { peer, client: peer.ip().to_canonical(), is_tls }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

/// The kind of a credential, whether it is valid or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// No credential, or none that was read. Preflight requests have none.
    #[default]
    Anonymous,
    /// Shared Key or Shared Key Lite, or an `Authorization` header with an unsupported scheme.
    SharedKey,
    SharedAccessSignature,
    Bearer,
}

impl CredentialKind {
    /// All kinds, in the order of their discriminants.
    pub(crate) const ALL: [Self; 4] = [Self::Anonymous, Self::SharedKey, Self::SharedAccessSignature, Self::Bearer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::SharedKey => "shared_key",
            Self::SharedAccessSignature => "shared_access_signature",
            Self::Bearer => "bearer",
        }
    }
}
