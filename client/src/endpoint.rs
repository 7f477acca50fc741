//! The address of an account.

use crate::development::DEVELOPMENT_ACCOUNT;
use crate::http::bare_host;
use http::Uri;
use http::uri::Scheme;
use model::AccountName;
use std::fmt;
use std::net::IpAddr;

/// The address of an account's Table service, in path style or host style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    account: AccountName,
    is_https: bool,
    authority: String,
    /// Empty, or the path before the tables: in path style `/account`, possibly after the path of a proxy.
    path: String,
}

/// Why a text is not an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointError {
    /// It is not an `http` or `https` address with a host.
    Address,
    /// Neither the host nor the path names a valid account.
    Account,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => {
                "it is not an address such as http://127.0.0.1:10002/devstoreaccount1 or \
                 https://ACCOUNT.table.core.windows.net"
            }
            Self::Account => {
                "it names no account: that stands after the host, as in http://127.0.0.1:10002/ACCOUNT, or is the first \
                 part of it, as in https://ACCOUNT.table.core.windows.net"
            }
        })
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Parses a URL. Its query and fragment are ignored.
    ///
    /// The account is the one that the caller knows (from a connection string), else the last part of the path, else the
    /// first label of the host. An IP address or a host without a dot, without a path, means the development account.
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

    /// The scheme and the authority, as in `http://127.0.0.1:10002`.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The name of the account.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Whether requests are sent over TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The path before the tables: empty in host style, `/account` in path style.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Writes the URL without a trailing slash.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

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
        for bad in ["", "x", "/a", "ftp://h/a", "http://", "http://user@h/acct", "http:///acct"] {
            assert_eq!(Endpoint::parse(bad, None), Err(EndpointError::Address), "{bad}");
        }
        for bad in ["http://127.0.0.1/No", "https://ab.example.net"] {
            assert_eq!(Endpoint::parse(bad, None), Err(EndpointError::Account), "{bad}");
        }
    }
}
