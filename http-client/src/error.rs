//! The reasons why no complete response arrived, in words for users.
//!
//! This module must not know requests.

use crate::cause::root_cause;
use crate::connector::ProxyError;
use crate::tls_failure;
use hyper_util::client::legacy;
use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

/// The reason why no complete response arrived. The message includes the cause.
///
/// ```
/// # use rowhouse_http_client::HttpError;
/// use std::time::Duration;
///
/// let error = HttpError::TimedOut(Duration::from_secs(60));
/// assert_eq!(error.to_string(), "the response was not complete after 60 s");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is not an `http` or `https` address with a valid host.
    Address,
    /// The TCP connection could not be opened.
    Connect(Box<dyn StdError + Send + Sync>),
    /// The proxy requires a user name and a password, or rejects those in its address.
    ProxyAuthorization,
    /// The TLS handshake failed, for example because the certificate is not trusted. The message says what to do about
    /// it.
    Tls(Box<dyn StdError + Send + Sync>),
    /// The connection broke before the head of the response arrived, or the head is not HTTP/1.1.
    Exchange(Box<dyn StdError + Send + Sync>),
    /// The connection broke within the body of the response, or the body is malformed.
    Body(Box<dyn StdError + Send + Sync>),
    /// The body of the response exceeds this limit, in bytes.
    BodyTooLarge(usize),
    /// The request exceeded this timeout.
    TimedOut(Duration),
}

/// Returns true if every further attempt would fail in the same way until someone changes something.
pub fn is_permanent(error: &HttpError) -> bool {
    match error {
        HttpError::Address | HttpError::ProxyAuthorization => true,
        HttpError::Tls(error) => tls_failure::find(error.as_ref()).is_some_and(tls_failure::is_permanent),
        _ => false,
    }
}

impl HttpError {
    /// Returns true if nothing listens at the address of the URL: the TCP connection was refused.
    ///
    /// ```
    /// # use rowhouse_http_client::HttpError;
    /// # use std::io::{Error, ErrorKind};
    /// assert!(HttpError::Connect(Error::from(ErrorKind::ConnectionRefused).into()).is_refused());
    /// assert!(!HttpError::Connect(Error::from(ErrorKind::TimedOut).into()).is_refused());
    /// ```
    pub fn is_refused(&self) -> bool {
        let Self::Connect(error) = self else { return false };
        // An unreachable proxy is a `ProxyError`, which has no source.
        let cause = root_cause(error.as_ref()).downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    }

    pub(crate) fn from_hyper(error: legacy::Error) -> Self {
        // The connector wraps TCP errors in its own type; TLS errors are plain I/O errors.
        let is_tls = matches!(error.source(), Some(source) if source.is::<io::Error>());
        let proxy_error = error.source().and_then(|source| source.downcast_ref::<ProxyError>());
        match error.is_connect() {
            true if proxy_error.is_some_and(ProxyError::requires_authorization) => Self::ProxyAuthorization,
            true if is_tls => Self::Tls(error.into()),
            true => Self::Connect(error.into()),
            false => Self::Exchange(error.into()),
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("the URL must be an http or https address with a valid host"),
            Self::ProxyAuthorization => f.write_str("the proxy requires a valid user name and password in its address"),
            Self::Connect(error) => write!(f, "connecting failed: {}", root_cause(error.as_ref())),
            Self::Tls(error) => {
                f.write_str("the TLS handshake failed: ")?;
                match tls_failure::find(error.as_ref()) {
                    Some(failure) => tls_failure::explain(failure, f),
                    None => write!(f, "{}", root_cause(error.as_ref())),
                }
            }
            Self::Exchange(error) => write!(f, "the response was not valid: {}", root_cause(error.as_ref())),
            Self::Body(error) => {
                write!(f, "the body of the response could not be read: {}", root_cause(error.as_ref()))
            }
            Self::BodyTooLarge(bytes_max) => write!(f, "the body of the response is larger than {bytes_max} bytes"),
            Self::TimedOut(time_max) => write!(f, "the response was not complete after {} s", time_max.as_secs_f64()),
        }
    }
}

impl StdError for HttpError {}
