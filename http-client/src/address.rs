//! The URLs that requests can be sent to.
//!
//! This module must not know connections.

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use std::net::IpAddr;

/// Returns the host of a URL, without the brackets around an IPv6 address.
///
/// ```
/// # use rowhouse_http_client::bare_host;
/// let uri: http::Uri = "http://[::1]:10002/orchard".parse()?;
/// assert_eq!(bare_host(&uri), "::1");
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
pub fn bare_host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Returns whether the host of a URL is this machine.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = bare_host(uri);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns whether a token may be sent to a URL: over HTTPS, or to this machine. Whoever reads a token can use it.
///
/// ```
/// # use rowhouse_http_client::may_carry_token;
/// assert!(may_carry_token(&"https://tables.example.org".parse()?));
/// assert!(may_carry_token(&"http://localhost:10002".parse()?));
/// assert!(!may_carry_token(&"http://tables.example.org".parse()?));
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
pub fn may_carry_token(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS) || is_loopback(uri)
}

/// Returns the name for which the server's certificate must be valid.
pub(crate) fn server_name(uri: &Uri) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(bare_host(uri).to_owned())
}

/// Returns true if the URL is an `http` or `https` address with a valid host.
pub(crate) fn is_valid(uri: &Uri) -> bool {
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => server_name(uri).is_ok(),
        Some(scheme) if *scheme == Scheme::HTTP => !bare_host(uri).is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_no_brackets() {
        for (url, host) in
            [("http://[::1]:8/x", "::1"), ("https://a.example:1", "a.example"), ("http://1.2.3.4", "1.2.3.4")]
        {
            assert_eq!(bare_host(&url.parse().unwrap()), host);
        }
        assert_eq!(bare_host(&Uri::from_static("/x")), "");
    }

    #[test]
    fn tokens_are_sent_over_https_or_to_this_machine() {
        for (url, is_allowed) in [
            ("https://a.example:1", true),
            ("http://LocalHost:1", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:1", true),
            ("http://a.example", false),
            ("http://localhost.a.example", false),
            ("http://127.0.0.1.a.example", false),
            ("http://10.0.0.1:10002", false),
            ("http://[fe80::1]", false),
            ("http://127.0.0.1@a.example", false),
        ] {
            assert_eq!(may_carry_token(&url.parse().unwrap()), is_allowed, "{url}");
        }
    }
}
