//! Fetches documents of issuers over HTTPS, with limits on size, time and redirects.
//!
//! Plain HTTP is used only for issuers on this machine, and only if the configuration allows it. Uses no proxy and
//! sends no cookie or credential.

use crate::outgoing::{HttpClient, HttpError, HttpOptions, is_loopback, system_roots, tls_config, without_secrets};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, LOCATION};
use http::uri::Scheme;
use http::{HeaderMap, Request, StatusCode, Uri};
use std::fmt;
use std::time::Duration;
use tracing::warn;

/// The timeout for one document, including redirects (09 §6).
const FETCH_TIME: Duration = Duration::from_secs(5);
/// The maximum size of a document, in bytes: 1 MiB (09 §6).
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum number of redirects that are followed, all with the same scheme (09 §6).
const REDIRECTS_MAX: usize = 3;

pub(crate) struct IssuerClient {
    http: HttpClient,
    allow_http_on_loopback: bool,
}

#[derive(Debug)]
pub(crate) struct IssuerDocument {
    pub(crate) body: Bytes,
    /// The `max-age` that was sent with it.
    pub(crate) max_age: Option<Duration>,
}

#[derive(Debug)]
pub(crate) enum FetchError {
    /// The URL is neither HTTPS nor, with the option that allows it, plain HTTP to this machine.
    Address(Uri),
    Http(HttpError),
    Status(StatusCode),
    Redirect,
    TimedOut,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(uri) => write!(
                f,
                "{} is not an https URL (plain http needs allow-plain-http-issuer-on-loopback = true and a \
                 loopback address)",
                without_secrets(uri)
            ),
            Self::Http(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "the response was {status}"),
            Self::Redirect => write!(
                f,
                "the response redirects to a different scheme or an invalid URL, or there were too many redirects"
            ),
            Self::TimedOut => write!(f, "there was no response within {} s", FETCH_TIME.as_secs()),
        }
    }
}

impl std::error::Error for FetchError {}

enum FetchStep {
    Done(IssuerDocument),
    Redirect(Uri),
}

impl IssuerClient {
    pub(crate) fn new(allow_http_on_loopback: bool) -> Result<Self, rustls::Error> {
        let roots = system_roots();
        if roots.is_empty() {
            warn!(
                "the system has no certificate authorities, so no issuer can be reached over https: install them, or set SSL_CERT_FILE to a file"
            );
        }
        let options = HttpOptions {
            request_time_max: FETCH_TIME,
            connect_time_max: None,
            body_bytes_max: DOCUMENT_BYTES_MAX,
            keeps_connections: false,
        };
        Ok(Self { http: HttpClient::new(options, tls_config(roots)?), allow_http_on_loopback })
    }

    pub(crate) fn check(uri: &Uri, allow_http_on_loopback: bool) -> Result<(), FetchError> {
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        let is_http_here = uri.scheme() == Some(&Scheme::HTTP) && allow_http_on_loopback && is_loopback(uri);
        if (is_https || is_http_here) && uri.host().is_some_and(|host| !host.is_empty()) {
            Ok(())
        } else {
            Err(FetchError::Address(uri.clone()))
        }
    }

    pub(crate) async fn get(&self, uri: &Uri) -> Result<IssuerDocument, FetchError> {
        tokio::time::timeout(FETCH_TIME, self.follow(uri.clone())).await.map_err(|_| FetchError::TimedOut)?
    }

    async fn follow(&self, mut uri: Uri) -> Result<IssuerDocument, FetchError> {
        for _ in 0..=REDIRECTS_MAX {
            match self.request(&uri).await? {
                FetchStep::Done(document) => return Ok(document),
                FetchStep::Redirect(next) if next.scheme() == uri.scheme() => uri = next,
                FetchStep::Redirect(_) => return Err(FetchError::Redirect),
            }
        }
        Err(FetchError::Redirect)
    }

    async fn request(&self, uri: &Uri) -> Result<FetchStep, FetchError> {
        Self::check(uri, self.allow_http_on_loopback)?;
        let request = Request::get(uri).header(ACCEPT, "application/json").body(Bytes::new());
        let request = request.expect("the URL was parsed and the header is valid");
        let mut response = self.http.send(request).await.map_err(|error| match error {
            HttpError::Address => FetchError::Address(uri.clone()),
            error => FetchError::Http(error),
        })?;
        if response.status.is_redirection() {
            return redirect_target(uri, &response.headers).map(FetchStep::Redirect).ok_or(FetchError::Redirect);
        }
        if response.status != StatusCode::OK {
            return Err(FetchError::Status(response.status));
        }
        let max_age = max_age(&response.headers);
        let body = response.read_body().await.map_err(FetchError::Http)?;
        Ok(FetchStep::Done(IssuerDocument { body, max_age }))
    }
}

fn redirect_target(uri: &Uri, headers: &HeaderMap) -> Option<Uri> {
    let next: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    if next.scheme().is_some() {
        return Some(next);
    }
    let mut parts = next.into_parts();
    (parts.scheme, parts.authority) = (uri.scheme().cloned(), uri.authority().cloned());
    Uri::from_parts(parts).ok()
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let directives = headers.get(CACHE_CONTROL)?.to_str().ok()?;
    let age = directives.split(',').find_map(|directive| directive.trim().strip_prefix("max-age="))?;
    age.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn addresses_that_requests_may_be_sent_to() {
        for (address, plain, allowed) in [
            ("https://login.example/keys", false, true),
            ("http://login.example/keys", true, false),
            ("http://127.0.0.1:9/keys", false, false),
            ("http://127.0.0.1:9/keys", true, true),
            ("http://[::1]:9/keys", true, true),
            ("http://localhost/keys", true, true),
            ("http://localhost.example/keys", true, false),
            ("http://127.0.0.1.example/keys", true, false),
            ("ftp://127.0.0.1/keys", true, false),
            ("/keys", true, false),
        ] {
            assert_eq!(IssuerClient::check(&address.parse().unwrap(), plain).is_ok(), allowed, "{address} {plain}");
        }
    }

    #[test]
    fn an_address_is_shown_without_credentials() {
        let address = "http://me:S3CRET@login.example:81/keys?code=S3CRET".parse().unwrap();
        let shown = IssuerClient::check(&address, false).unwrap_err().to_string();
        assert!(shown.starts_with("http://login.example:81/keys is not an https URL"), "{shown}");
    }

    #[test]
    fn redirects_and_ages() {
        let uri: Uri = "https://login.example:8443/a?b".parse().unwrap();
        let to = |location: &'static str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
            redirect_target(&uri, &headers).map(|uri| uri.to_string())
        };
        assert_eq!(to("/keys?v=2").as_deref(), Some("https://login.example:8443/keys?v=2"));
        assert_eq!(to("https://other.example/keys").as_deref(), Some("https://other.example/keys"));
        assert_eq!(to(""), None);
        let age =
            |value: &'static str| max_age(&HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(value))]));
        assert_eq!(age("public, max-age=600, must-revalidate"), Some(Duration::from_mins(10)));
        assert_eq!(age("no-store"), None);
        assert_eq!(age("max-age=soon"), None);
    }
}
