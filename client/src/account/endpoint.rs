//! The URL of an account's Table service.

use crate::http::bare_host;
use http::Uri;
use http::uri::Scheme;
use http_client::{is_loopback, may_carry_token};
use model::AccountName;
use std::fmt;
use std::net::IpAddr;

/// The URL of an account's Table service, in path style or host style.
///
/// ```
/// use rowhouse_client::Endpoint;
///
/// let endpoint = Endpoint::parse("https://orchard.table.core.windows.net/", None)?;
/// assert_eq!(endpoint.account().as_str(), "orchard");
/// assert_eq!(endpoint.secondary().to_string(), "https://orchard-secondary.table.core.windows.net");
/// # Ok::<(), rowhouse_client::EndpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    account: AccountName,
    is_https: bool,
    authority: String,
    /// The path before the tables. Empty in host style. In path style, `/account`, possibly after the path of a proxy.
    path: String,
}

/// The reason why a string is not an endpoint.
///
/// ```
/// use rowhouse_client::{Endpoint, EndpointError};
/// assert_eq!(Endpoint::parse("orchard", None), Err(EndpointError::Address));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// The string is not an `http` or `https` URL with a host.
    Address,
    /// Neither the host nor the path contains a valid account name.
    Account,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => {
                "the address must look like http://127.0.0.1:10002/devstoreaccount1 or \
                 https://ACCOUNT.table.core.windows.net"
            }
            Self::Account => {
                "the address contains no valid account name; put it after the host, as in \
                 http://127.0.0.1:10002/ACCOUNT, or at the start of the host name, as in https://ACCOUNT.table.core.windows.net"
            }
        })
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Parses a URL. Ignores its query and fragment.
    ///
    /// The account is `known_account` (from a connection string), otherwise the last segment of the path, otherwise the
    /// first label of the host. Without a path, an IP address or a host without a dot refers to the development
    /// account.
    ///
    /// ```
    /// # use rowhouse_client::Endpoint;
    /// let endpoint = Endpoint::parse("http://127.0.0.1:10002/orchard", None)?;
    /// assert_eq!(endpoint.account().as_str(), "orchard");
    /// # Ok::<(), rowhouse_client::EndpointError>(())
    /// ```
    pub fn parse(url: &str, known_account: Option<&str>) -> Result<Self, EndpointError> {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let uri: Uri = url.parse().map_err(|_| EndpointError::Address)?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(EndpointError::Address),
        };
        let authority = uri.authority().ok_or(EndpointError::Address)?;
        let host = authority.host();
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(EndpointError::Address);
        }
        // Without this check, a port that is no number up to 65535 would be ignored, and the default port used.
        let port = authority.as_str().strip_prefix(host).unwrap_or_default().trim_start_matches(':');
        if !port.is_empty() && authority.port_u16().is_none() {
            return Err(EndpointError::Address);
        }
        let mut path = uri.path().trim_end_matches('/').to_owned();
        let has_no_account = bare_host(&uri).parse::<IpAddr>().is_ok() || !host.contains('.');
        let account = match known_account {
            Some(account) => account,
            None if !path.is_empty() => path.rsplit('/').next().unwrap_or_default(),
            None if has_no_account => DEVELOPMENT_ACCOUNT,
            None => host.split('.').next().unwrap_or_default(),
        };
        let account = account.strip_suffix("-secondary").unwrap_or(account);
        let account = AccountName::new(account).ok_or(EndpointError::Account)?;
        if path.is_empty() && has_no_account {
            path = format!("/{account}");
        }
        Ok(Self { account, is_https, authority: authority.as_str().to_owned(), path })
    }

    /// Returns whether the host is this machine. Hidden: used by the commands of the workspace.
    #[doc(hidden)]
    pub fn is_loopback(&self) -> bool {
        self.origin().parse().is_ok_and(|uri| is_loopback(&uri))
    }

    pub(crate) fn may_carry_token(&self) -> bool {
        self.origin().parse().is_ok_and(|uri| may_carry_token(&uri))
    }

    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns the URL of the secondary, which serves reads of a replicated account. It has `-secondary` after each
    /// occurrence of the account name.
    ///
    /// ```
    /// # use rowhouse_client::Endpoint;
    /// let endpoint = Endpoint::parse("http://127.0.0.1:10002/orchard", None)?;
    /// assert_eq!(endpoint.secondary().to_string(), "http://127.0.0.1:10002/orchard-secondary");
    /// # Ok::<(), rowhouse_client::EndpointError>(())
    /// ```
    #[must_use]
    pub fn secondary(&self) -> Self {
        let mut secondary = self.clone();
        let (account, suffixed) = (self.account.as_str(), format!("{}-secondary", self.account));
        if self.path.ends_with(&suffixed) || self.authority.starts_with(&suffixed) {
            return secondary;
        }
        if let Some(before) = self.path.strip_suffix(account) {
            secondary.path = format!("{before}{suffixed}");
        } else if let Some(after) = self.authority.strip_prefix(account) {
            secondary.authority = format!("{suffixed}{after}");
        }
        secondary
    }

    /// Returns the name of the account.
    ///
    /// ```
    /// # use rowhouse_client::{DEVELOPMENT_ENDPOINT, Endpoint};
    /// assert_eq!(Endpoint::parse(DEVELOPMENT_ENDPOINT, None)?.account().as_str(), "devstoreaccount1");
    /// # Ok::<(), rowhouse_client::EndpointError>(())
    /// ```
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Returns true if requests are sent over TLS.
    ///
    /// ```
    /// # use rowhouse_client::{DEVELOPMENT_ENDPOINT, Endpoint};
    /// assert!(!Endpoint::parse(DEVELOPMENT_ENDPOINT, None)?.is_https());
    /// # Ok::<(), rowhouse_client::EndpointError>(())
    /// ```
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Returns the path before the tables. It is empty in host style and `/account` in path style.
    ///
    /// ```
    /// # use rowhouse_client::{DEVELOPMENT_ENDPOINT, Endpoint};
    /// assert_eq!(Endpoint::parse(DEVELOPMENT_ENDPOINT, None)?.path(), "/devstoreaccount1");
    /// # Ok::<(), rowhouse_client::EndpointError>(())
    /// ```
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Omits the trailing slash.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

/// The name of the development account.
///
/// ```
/// assert_eq!(rowhouse_client::DEVELOPMENT_ACCOUNT, "devstoreaccount1");
/// ```
pub const DEVELOPMENT_ACCOUNT: &str = wire::signing::DEVELOPMENT_ACCOUNT;
/// The key of the development account. It is public and protects nothing.
///
/// ```
/// assert!(rowhouse_client::Credential::shared_key(rowhouse_client::DEVELOPMENT_KEY).is_some());
/// ```
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The default endpoint of the development account.
///
/// ```
/// let endpoint = rowhouse_client::Endpoint::parse(rowhouse_client::DEVELOPMENT_ENDPOINT, None)?;
/// assert_eq!(endpoint.account().as_str(), rowhouse_client::DEVELOPMENT_ACCOUNT);
/// # Ok::<(), rowhouse_client::EndpointError>(())
/// ```
pub const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_in_every_style() {
        for (url, known, account, shown) in [
            ("http://127.0.0.1:10002/orchard", None, "orchard", "http://127.0.0.1:10002/orchard"),
            ("http://127.0.0.1:10002/orchard-secondary/", None, "orchard", "http://127.0.0.1:10002/orchard-secondary"),
            ("http://127.0.0.1:10002", None, DEVELOPMENT_ACCOUNT, "http://127.0.0.1:10002/devstoreaccount1"),
            ("http://localhost:1/", Some("acct"), "acct", "http://localhost:1/acct"),
            ("http://[::1]:7/acct", None, "acct", "http://[::1]:7/acct"),
            ("https://acct.table.core.windows.net/", None, "acct", "https://acct.table.core.windows.net"),
            ("https://acct-secondary.table.x.net", None, "acct", "https://acct-secondary.table.x.net"),
            ("https://tables.example.net/", Some("acct"), "acct", "https://tables.example.net"),
            ("https://proxy.example.net/tables/acct", None, "acct", "https://proxy.example.net/tables/acct"),
            ("https://acct.t.net/?sv=1&sig=2", None, "acct", "https://acct.t.net"),
        ] {
            let endpoint = Endpoint::parse(url, known).unwrap();
            assert_eq!((endpoint.account().as_str(), endpoint.to_string().as_str()), (account, shown), "{url}");
        }
        for (primary, secondary) in [
            ("http://127.0.0.1:10002/orchard", "http://127.0.0.1:10002/orchard-secondary"),
            ("https://acct.table.core.windows.net", "https://acct-secondary.table.core.windows.net"),
            ("https://acct-secondary.table.x.net", "https://acct-secondary.table.x.net"),
        ] {
            assert_eq!(Endpoint::parse(primary, None).unwrap().secondary().to_string(), secondary);
        }
        for bad in ["", "x", "/a", "ftp://h/a", "http://", "http://user@h/acct", "http:///acct", "http://h:99999"] {
            assert_eq!(Endpoint::parse(bad, None), Err(EndpointError::Address), "{bad}");
        }
        for bad in ["http://127.0.0.1/No", "https://ab.example.net"] {
            assert_eq!(Endpoint::parse(bad, None), Err(EndpointError::Account), "{bad}");
        }
    }
}
