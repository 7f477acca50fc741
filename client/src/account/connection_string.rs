//! Connection strings of the Azure Storage client libraries: `Name=value` pairs, separated by semicolons.

use super::endpoint::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
use std::fmt;

/// A parsed connection string. Its `Debug` output hides the key and the signature.
///
/// All documented forms are supported:
///
/// - an account with a key, and either endpoints or an endpoint suffix;
/// - a shared access signature with an endpoint;
/// - `UseDevelopmentStorage=true`, optionally with `DevelopmentStorageProxyUri`, the URL of the machine on which the
///   emulator runs.
///
/// ```
/// use rowhouse_client::ConnectionString;
///
/// let text = "DefaultEndpointsProtocol=https;AccountName=orchard;AccountKey=AAECAwQFBgcICQoLDA0ODw==";
/// let parts = ConnectionString::parse(text).ok_or("not a connection string")?;
/// assert_eq!(parts.endpoint().as_deref(), Some("https://orchard.table.core.windows.net"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct ConnectionString {
    /// The account, if the string contains it.
    pub account: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) sas: Option<String>,
    table_endpoint: Option<String>,
    secondary_endpoint: Option<String>,
    protocol: Option<String>,
    suffix: Option<String>,
}

impl ConnectionString {
    /// Parses a connection string. Returns `None` if the input is not a connection string. Names are not
    /// case-sensitive. Unknown names, such as the endpoints of other services, are ignored.
    ///
    /// ```
    /// # use rowhouse_client::ConnectionString;
    /// assert!(ConnectionString::parse("UseDevelopmentStorage=true").is_some());
    /// assert!(ConnectionString::parse("orchard").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Self {
            account: None,
            key: None,
            sas: None,
            table_endpoint: None,
            secondary_endpoint: None,
            protocol: None,
            suffix: None,
        };
        let (mut is_known, mut is_development, mut proxy) = (false, false, None);
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let slot = match name.trim().to_ascii_lowercase().as_str() {
                "accountname" => &mut parts.account,
                "accountkey" => &mut parts.key,
                "sharedaccesssignature" => &mut parts.sas,
                "tableendpoint" => &mut parts.table_endpoint,
                "tablesecondaryendpoint" => &mut parts.secondary_endpoint,
                "defaultendpointsprotocol" => &mut parts.protocol,
                "endpointsuffix" => &mut parts.suffix,
                "usedevelopmentstorage" => {
                    is_development = value.trim().eq_ignore_ascii_case("true");
                    continue;
                }
                "developmentstorageproxyuri" => &mut proxy,
                _ => continue,
            };
            is_known = true;
            *slot = Some(value.trim().to_owned());
        }
        if is_development { Some(Self::development(proxy.as_deref())) } else { is_known.then_some(parts) }
    }

    /// Returns the settings of the emulator on this machine, or on the host of the proxy URL. Ignores the port of that
    /// URL.
    fn development(proxy: Option<&str>) -> Self {
        let endpoint = match proxy {
            Some(proxy) => format!("{}:10002/{DEVELOPMENT_ACCOUNT}", without_port(proxy.trim_end_matches('/'))),
            None => DEVELOPMENT_ENDPOINT.to_owned(),
        };
        Self {
            account: Some(DEVELOPMENT_ACCOUNT.to_owned()),
            key: Some(DEVELOPMENT_KEY.to_owned()),
            sas: None,
            table_endpoint: Some(endpoint),
            secondary_endpoint: None,
            protocol: None,
            suffix: None,
        }
    }

    /// Returns the URL of the Table service: either the one in the string, or a URL built from the account, the
    /// protocol and the suffix.
    ///
    /// ```
    /// # use rowhouse_client::ConnectionString;
    /// let parts = ConnectionString::parse("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://build7");
    /// assert_eq!(parts.and_then(|parts| parts.endpoint()).as_deref(), Some("http://build7:10002/devstoreaccount1"));
    /// ```
    pub fn endpoint(&self) -> Option<String> {
        if let Some(endpoint) = &self.table_endpoint {
            return Some(endpoint.clone());
        }
        let protocol = self.protocol.as_deref().unwrap_or("https");
        let suffix = self.suffix.as_deref().unwrap_or("core.windows.net");
        self.account.as_ref().map(|account| format!("{protocol}://{account}.table.{suffix}"))
    }

    /// Returns the URL of the secondary of the Table service if the string contains one. Otherwise, use
    /// [`Endpoint::secondary`](crate::Endpoint::secondary) to derive it from the primary.
    ///
    /// ```
    /// # use rowhouse_client::ConnectionString;
    /// let text = "AccountName=orchard;TableEndpoint=https://t1.example.net;TableSecondaryEndpoint=https://t2.example.net";
    /// let parts = ConnectionString::parse(text);
    /// assert_eq!(parts.as_ref().and_then(|parts| parts.secondary_endpoint()), Some("https://t2.example.net"));
    /// ```
    pub fn secondary_endpoint(&self) -> Option<&str> {
        self.secondary_endpoint.as_deref()
    }
}

/// Each emulated service has its own port, which does not depend on the port of the proxy.
fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((before, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => before,
        _ => address,
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString").field("account", &self.account).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_connection_strings() {
        for (text, endpoint) in [
            (
                "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=x;EndpointSuffix=core.example.net",
                Some("https://acct.table.core.example.net"),
            ),
            ("AccountName=acct;AccountKey=x", Some("https://acct.table.core.windows.net")),
            ("accountname=acct;TABLEENDPOINT=http://h:1/acct;", Some("http://h:1/acct")),
            ("BlobEndpoint=http://h/;TableEndpoint=http://t/a;SharedAccessSignature=sv=1&sig=2", Some("http://t/a")),
            ("UseDevelopmentStorage=true", Some(DEVELOPMENT_ENDPOINT)),
            (
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://build7/",
                Some("http://build7:10002/devstoreaccount1"),
            ),
            (
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[::1]:8888",
                Some("http://[::1]:10002/devstoreaccount1"),
            ),
            ("SharedAccessSignature=sig=2", None),
        ] {
            assert_eq!(ConnectionString::parse(text).unwrap().endpoint().as_deref(), endpoint, "{text}");
        }
        for other in ["", "x", "./folder", "http://h/a", "A=b;C=d", "UseDevelopmentStorage=false"] {
            assert!(ConnectionString::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let parts = ConnectionString::parse(&format!("AccountName=a;AccountKey={DEVELOPMENT_KEY}")).unwrap();
        assert!(parts.credential().is_some());
        assert!(!format!("{parts:?}").contains("Eby8"));
    }
}
