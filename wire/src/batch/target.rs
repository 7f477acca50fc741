//! The targets of the operations inside a batch (specification 05 §3).
//!
//! Invariant: a target belongs to the account of the batch.
//!
//! This module must not depend on resources: the path is not decoded.

use crate::target::account_label;
use model::AccountName;

/// The target of an operation inside a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartTarget<'a> {
    /// The percent-encoded path after the endpoint, without the separating slashes.
    pub path: &'a str,
    /// The raw query string.
    pub query: &'a str,
}

/// The error for an operation that refers to an account other than the account of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountMismatch;

impl<'a> PartTarget<'a> {
    /// Parses an absolute URL with any scheme and host, an absolute path with or without the account, or a relative
    /// path.
    ///
    /// Behind a proxy, the host names that clients use may differ from the server's. Therefore, only the account at the
    /// beginning of the host matters, and only if the path does not contain the account.
    ///
    /// A URL that ends with the account is the URL of the service if the host does not contain the account.
    pub fn parse(text: &'a str, account: &AccountName, domains: &[String]) -> Result<Self, AccountMismatch> {
        let (host, rest) = split_host(text);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.trim_start_matches('/');
        let own = path.strip_prefix(account.as_str());
        let own = own.map(|rest| rest.strip_prefix("-secondary").unwrap_or(rest));
        if let Some(rest) = own.filter(|rest| rest.starts_with('/')) {
            return Ok(Self { path: rest.trim_start_matches('/'), query });
        }
        let label = host.and_then(|host| account_label(host, domains));
        if own == Some("") && host.is_some() && label.is_none() {
            return Ok(Self { path: "", query });
        }
        let label = label.map(|label| label.strip_suffix("-secondary").unwrap_or(label));
        match label {
            Some(label) if label != account.as_str() => Err(AccountMismatch),
            _ if path.split_once('(').map_or(path, |(name, _)| name).contains('/') => Err(AccountMismatch),
            _ => Ok(Self { path, query }),
        }
    }
}

fn split_host(text: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = text.split_once("://") else { return (None, text) };
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme {
        return (None, text);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    rest.split_at_checked(end).map_or((None, text), |(host, path)| (Some(host), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_resolve_inside_the_account() {
        let account = AccountName::new("acct").unwrap();
        let parse = |text| PartTarget::parse(text, &account, &["tables.example.net".to_owned()]);
        for text in [
            "https://acct.table.core.example/cars(PartitionKey='a',RowKey='b')?x=y",
            "https://acct-secondary.table.core.example/cars(PartitionKey='a',RowKey='b')?x=y",
            "http://acct.tables.example.net:10002/cars(PartitionKey='a',RowKey='b')?x=y",
            "http://127.0.0.1:10002/acct/cars(PartitionKey='a',RowKey='b')?x=y",
            "http://127.0.0.1:10002/cars(PartitionKey='a',RowKey='b')?x=y",
            "https://proxy.table.internal/acct/cars(PartitionKey='a',RowKey='b')?x=y",
            "https://elsewhere.example/acct/cars(PartitionKey='a',RowKey='b')?x=y",
            "/acct/cars(PartitionKey='a',RowKey='b')?x=y",
            // The endpoint of the client ends with a slash.
            "http://127.0.0.1:10002/acct//cars(PartitionKey='a',RowKey='b')?x=y",
            "https://acct.table.core.example//cars(PartitionKey='a',RowKey='b')?x=y",
            "//acct//cars(PartitionKey='a',RowKey='b')?x=y",
            "/acct-secondary/cars(PartitionKey='a',RowKey='b')?x=y",
            "/cars(PartitionKey='a',RowKey='b')?x=y",
            "cars(PartitionKey='a',RowKey='b')?x=y",
        ] {
            let expected = PartTarget { path: "cars(PartitionKey='a',RowKey='b')", query: "x=y" };
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "https://acct.table.core.example",
            "https://acct.table.core.example/",
            "http://127.0.0.1:10002/acct",
            "http://127.0.0.1:10002/acct/",
            "http://127.0.0.1:10002/acct//",
            "http://127.0.0.1:10002",
            "/acct/",
        ] {
            assert_eq!(parse(text), Ok(PartTarget { path: "", query: "" }), "{text}");
        }
        // A table may have the same name as the account, and a key may look like a URL.
        let host = "https://acct.table.core.example/acct";
        assert_eq!(parse(host), Ok(PartTarget { path: "acct", query: "" }));
        for text in ["/acct", "acct()", "t(PartitionKey='http://x/y',RowKey='acct/')"] {
            assert_eq!(parse(text), Ok(PartTarget { path: text.trim_start_matches('/'), query: "" }), "{text}");
        }
    }

    #[test]
    fn other_accounts_are_refused() {
        let account = AccountName::new("acct").unwrap();
        for text in [
            "https://other.table.core.example/cars",
            "http://127.0.0.1:10002/other/cars",
            "/other/cars",
            "//other//cars",
            "other/cars",
            "/acct2/cars",
        ] {
            assert_eq!(PartTarget::parse(text, &account, &[]), Err(AccountMismatch), "{text}");
        }
    }
}
