//! The proxies of a program, and which requests go through them.
//!
//! The matcher of `hyper-util` defines the rules. This module adds what the matcher lacks: it rejects an address
//! that the matcher would ignore, and names the environment variable that contains it.
//!
//! Invariant: the credentials of a proxy appear in no error and no `Debug` output.
//!
//! This module must not know connections.

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use std::ffi::OsString;
use std::fmt;

/// The local machine, in the form of `no_proxy`. It is always reached directly, because bearer tokens may be sent to it
/// over plain HTTP.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1,::ffff:127.0.0.0/104";

/// The proxies that requests go through, and the hosts that are reached directly.
///
/// A proxy receives complete requests to `http` addresses. For `https` addresses, it only opens a tunnel, so it sees
/// neither keys nor data.
///
/// ```
/// # use rowhouse_http_client::{HttpClient, HttpOptions, Proxies, system_roots, tls_config};
/// let proxies = Proxies::all("http://user:secret@proxy.example.net:3128")?.except("10.0.0.0/8, .example.net");
/// let client = HttpClient::with_proxies(HttpOptions::default(), tls_config(system_roots())?, &proxies);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Proxies {
    /// The proxy for `http` addresses, perhaps with credentials; empty if there is none.
    http: String,
    /// The proxy for `https` addresses, in the same form.
    https: String,
    /// Other hosts that are reached directly, each after a comma.
    direct: String,
}

/// The error for an address that is not the address of an HTTP proxy. It does not contain the address, because the
/// address may contain a password.
///
/// ```
/// # use rowhouse_http_client::Proxies;
/// let error = Proxies::all("socks5://proxy.example.net").unwrap_err();
/// assert_eq!(error.to_string(), "the proxy must be an address such as http://proxy.example.net:3128");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedProxy {
    /// The environment variable that contains the address.
    variable: Option<&'static str>,
}

impl Proxies {
    /// Returns no proxies: all hosts are reached directly.
    ///
    /// ```
    /// # use rowhouse_http_client::{HttpClient, HttpOptions, Proxies, system_roots, tls_config};
    /// let tls = tls_config(system_roots())?;
    /// let client = HttpClient::with_proxies(HttpOptions::default(), tls, &Proxies::none());
    /// # Ok::<(), rustls::Error>(())
    /// ```
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a proxy for all requests except those to the local machine: an `http` address, which may contain a user
    /// name and a password.
    ///
    /// ```
    /// # use rowhouse_http_client::Proxies;
    /// assert!(Proxies::all("http://user:secret@proxy.example.net:3128").is_ok());
    /// assert!(Proxies::all("proxy.example.net:3128").is_ok());
    /// assert!(Proxies::all("https://proxy.example.net").is_err());
    /// ```
    pub fn all(address: &str) -> Result<Self, MalformedProxy> {
        let proxy = check(address, None)?;
        Ok(Self { http: proxy.clone(), https: proxy, ..Self::default() })
    }

    /// Returns the proxies in the environment variables `http_proxy` and `https_proxy`, for all hosts except those in
    /// `no_proxy` and the local machine. If a variable is not set, its name in upper case is tried.
    ///
    /// `HTTP_PROXY` is ignored in a CGI program, because a client can set it with a header.
    ///
    /// ```
    /// # use rowhouse_http_client::Proxies;
    /// let proxies = Proxies::from_environment()?;
    /// # Ok::<(), rowhouse_http_client::MalformedProxy>(())
    /// ```
    pub fn from_environment() -> Result<Self, MalformedProxy> {
        Self::from_variables(std::env::var_os)
    }

    /// Adds hosts that are reached directly, in the form of `no_proxy`: a comma-separated list of domains, which
    /// include their subdomains, of IP addresses, and of networks such as `10.0.0.0/8`. `*` stands for all hosts.
    ///
    /// ```
    /// # use rowhouse_http_client::Proxies;
    /// let proxies = Proxies::all("http://proxy.example.net")?.except("core.windows.net, 192.168.0.0/16");
    /// # Ok::<(), rowhouse_http_client::MalformedProxy>(())
    /// ```
    #[must_use]
    pub fn except(mut self, hosts: &str) -> Self {
        self.direct.push(',');
        // The matcher knows the form `.example.net` only.
        self.direct.push_str(&hosts.replace("*.", "."));
        self
    }

    fn from_variables(variable: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, MalformedProxy> {
        let first = |names: &[&'static str]| {
            names
                .iter()
                .find_map(|name| variable(name).map(|value| (*name, value)))
                .filter(|(_, value)| !value.is_empty())
        };
        let proxy = |names| match first(names) {
            None => Ok(String::new()),
            Some((name, value)) => check(&value.to_string_lossy(), Some(name)),
        };
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let http = proxy(if is_cgi { &["http_proxy"] } else { &["http_proxy", "HTTP_PROXY"] })?;
        let https = proxy(&["https_proxy", "HTTPS_PROXY"])?;
        let direct = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value).unwrap_or_default();
        Ok(Self { http, https, ..Self::default() }.except(&direct.to_string_lossy()))
    }

    /// Returns `None` if there are no proxies, so that requests need no comparison with the exceptions.
    pub(crate) fn matcher(&self) -> Option<Matcher> {
        if self.http.is_empty() && self.https.is_empty() {
            return None;
        }
        let exceptions = format!("{LOOPBACK}{}", self.direct);
        Some(Matcher::builder().http(&self.http).https(&self.https).no(exceptions).build())
    }
}

/// Returns the address without surrounding spaces. Fails if it is not the address of an HTTP proxy.
fn check(address: &str, variable: Option<&'static str>) -> Result<String, MalformedProxy> {
    let address = address.trim();
    let proxy = Matcher::builder().all(address).build().intercept(&Uri::from_static("http://any"));
    let is_valid = proxy.is_some_and(|proxy| {
        let uri = proxy.uri();
        uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if is_valid { Ok(address.to_owned()) } else { Err(MalformedProxy { variable }) }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output of the matcher contains no credentials.
        f.debug_tuple("Proxies").field(&self.matcher()).finish()
    }
}

impl fmt::Display for MalformedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable {
            Some(name) => write!(f, "the proxy in {name}"),
            None => f.write_str("the proxy"),
        }?;
        f.write_str(" must be an address such as http://proxy.example.net:3128")
    }
}

impl std::error::Error for MalformedProxy {}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_variables(variables: &[(&str, &str)]) -> Result<Proxies, MalformedProxy> {
        Proxies::from_variables(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        })
    }

    /// Returns the address of the proxy for a URL.
    fn proxy_for(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.matcher()?.intercept(&url.parse().unwrap()).map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_environment_names_a_proxy_for_each_scheme() {
        let both = [("HTTP_PROXY", "http://one:80"), ("https_proxy", " two:3128 "), ("HTTPS_PROXY", "three:1")];
        let proxies = from_variables(&both).unwrap();
        assert_eq!(proxy_for(&proxies, "http://a.example/x").as_deref(), Some("http://one:80/"));
        assert_eq!(proxy_for(&proxies, "https://a.example/x").as_deref(), Some("http://two:3128/"));
        for variables in [
            [("HTTP_PROXY", "http://one"), ("REQUEST_METHOD", "GET")],
            [("http_proxy", ""), ("HTTP_PROXY", "http://one")],
        ] {
            let proxies = from_variables(&variables).unwrap();
            assert_eq!(proxy_for(&proxies, "http://a.example/"), None, "{variables:?}");
        }
    }

    #[test]
    fn the_local_machine_is_reached_directly() {
        let environment = from_variables(&[("http_proxy", "proxy"), ("https_proxy", "proxy")]).unwrap();
        for url in [
            "http://localhost:1/",
            "http://LOCALHOST/",
            "http://devstoreaccount1.table.localhost:10002/",
            "http://127.0.0.1:10002/devstoreaccount1",
            "http://127.9.9.9/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
        ] {
            for proxies in [&environment, &Proxies::all("proxy").unwrap()] {
                assert_eq!(proxy_for(proxies, url), None, "{url}");
            }
        }
    }

    #[test]
    fn malformed_variables_are_named_and_their_values_hidden() {
        for value in ["socks5://user:secret@one", "https://secret", "http://", "http://:80", "/secret", "a secret"] {
            for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"] {
                let error = from_variables(&[(name, value)]).unwrap_err();
                let expected = format!("the proxy in {name} must be an address such as http://proxy.example.net:3128");
                assert_eq!(error.to_string(), expected, "{value}");
                assert!(!format!("{error:?}").contains("secret"), "{error:?}");
            }
            assert!(Proxies::all(value).is_err(), "{value}");
        }
        assert!(Proxies::all("").is_err());
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStringExt as _;
            let not_unicode = |name| (name == "http_proxy").then(|| OsString::from_vec(vec![b'a', 0xFF]));
            assert!(Proxies::from_variables(not_unicode).is_err());
        }
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let list = "core.windows.net, .Example.org,*.example.com,10.0.0.0/8,fe80::/10,192.0.2.7,,";
        let proxies = from_variables(&[("http_proxy", "proxy"), ("NO_PROXY", list)]).unwrap();
        for url in [
            "http://core.windows.net/",
            "http://a.table.CORE.windows.net/",
            "http://example.org/",
            "http://x.example.com/",
            "http://10.255.0.1/",
            "http://[febf::1]/",
            "http://192.0.2.7:8080/",
        ] {
            assert_eq!(proxy_for(&proxies, url), None, "{url}");
        }
        for url in ["http://notcore.windows.net/", "http://11.0.0.1/", "http://[fec0::1]/", "http://192.0.2.8/"] {
            assert_eq!(proxy_for(&proxies, url).as_deref(), Some("http://proxy/"), "{url}");
        }
        assert_eq!(proxy_for(&Proxies::all("proxy").unwrap().except("*"), "http://a.example/"), None);
        assert_eq!(proxy_for(&Proxies::none(), "https://a.example/"), None);
    }

    #[test]
    fn credentials_are_decoded_and_hidden() {
        let proxies = Proxies::all("http://user:p%40ss%3A@proxy:3128/").unwrap();
        let proxy = proxies.matcher().unwrap().intercept(&Uri::from_static("https://a.example/")).unwrap();
        assert_eq!(proxy.basic_auth().unwrap(), "Basic dXNlcjpwQHNzOg==");
        assert_eq!(proxy.uri(), "http://proxy:3128/");
        let shown = format!("{proxies:?} {proxy:?}");
        assert!(!shown.contains("user") && !shown.contains("ss%3A") && shown.contains("proxy:3128"), "{shown}");
    }
}
