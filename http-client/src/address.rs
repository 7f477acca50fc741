//! The URLs that requests can be sent to.
//!
//! This module must not know connections.

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::{InvalidDnsNameError, ServerName};

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
}
