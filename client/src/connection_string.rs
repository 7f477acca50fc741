//! Connection strings, as client libraries take them: `Name=value` pairs, separated by semicolons.

use crate::development::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
use std::fmt;

/// A parsed connection string. Its key and signature are never shown.
#[derive(Clone)]
pub struct ConnectionString {
    /// The account, if the string names it.
    pub account: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) sas: Option<String>,
    table_endpoint: Option<String>,
    protocol: Option<String>,
    suffix: Option<String>,
}

impl ConnectionString {
    /// Parses a text; `None` if it is not a connection string. Names are not case-sensitive. Unknown names, such as the
    /// endpoints of other services, are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts =
            Self { account: None, key: None, sas: None, table_endpoint: None, protocol: None, suffix: None };
        let mut is_known = false;
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let slot = match name.trim().to_ascii_lowercase().as_str() {
                "accountname" => &mut parts.account,
                "accountkey" => &mut parts.key,
                "sharedaccesssignature" => &mut parts.sas,
                "tableendpoint" => &mut parts.table_endpoint,
                "defaultendpointsprotocol" => &mut parts.protocol,
                "endpointsuffix" => &mut parts.suffix,
                "usedevelopmentstorage" if value.eq_ignore_ascii_case("true") => return Some(Self::development()),
                _ => continue,
            };
            is_known = true;
            *slot = Some(value.trim().to_owned());
        }
        is_known.then_some(parts)
    }

    fn development() -> Self {
        Self {
            account: Some(DEVELOPMENT_ACCOUNT.to_owned()),
            key: Some(DEVELOPMENT_KEY.to_owned()),
            sas: None,
            table_endpoint: Some(DEVELOPMENT_ENDPOINT.to_owned()),
            protocol: None,
            suffix: None,
        }
    }

    /// The URL of the Table service: the given one, or one built from account, protocol and suffix.
    pub fn endpoint(&self) -> Option<String> {
        if let Some(endpoint) = &self.table_endpoint {
            return Some(endpoint.clone());
        }
        let protocol = self.protocol.as_deref().unwrap_or("https");
        let suffix = self.suffix.as_deref().unwrap_or("core.windows.net");
        self.account.as_ref().map(|account| format!("{protocol}://{account}.table.{suffix}"))
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
