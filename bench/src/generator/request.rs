//! Writes signed requests. Each request is written into a single buffer, which is sent in one piece.
//!
//! This module must not depend on connections or workloads.

use anyhow::{Context, bail, ensure};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime};
use wire::signing::{AccountKey, Scheme, SignedRequest};

pub(crate) const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The publicly known key, which protects nothing.
pub(crate) const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Current client libraries send the same version.
const VERSION: &str = "2019-02-02";
/// The time after which the date in requests is updated.
const DATE_AGE_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// The encoded path without the account, such as `/Tables`.
    pub(crate) path: &'a [u8],
    /// The encoded query with its question mark. May be empty.
    pub(crate) query: &'a str,
    /// Additional header lines, each with its line ending.
    pub(crate) headers: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn get(path: &'a [u8], query: &'a str) -> Self {
        Self { method: "GET", path, query, headers: "", content_type: "", body: b"" }
    }

    pub(crate) fn with_json(method: &'a str, path: &'a [u8], headers: &'a str, body: &'a [u8]) -> Self {
        Self { method, path, query: "", headers, content_type: "application/json", body }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) endpoint: Endpoint,
    account: String,
    key: AccountKey,
    date: String,
    dated: Instant,
}

impl Signer {
    pub(crate) fn new(endpoint: Endpoint, account: &str, key: AccountKey) -> Self {
        Self { endpoint, account: account.to_owned(), key, date: date(), dated: Instant::now() }
    }

    /// Replaces the contents of the buffer.
    pub(crate) fn write_head(&mut self, out: &mut Vec<u8>, request: &Request<'_>) {
        if self.dated.elapsed() > DATE_AGE_MAX {
            (self.date, self.dated) = (date(), Instant::now());
        }
        out.clear();
        let Request { method, query, headers, content_type, body, .. } = request;
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        let path_at = out.len();
        out.extend_from_slice(self.endpoint.base_path.as_bytes());
        out.extend_from_slice(request.path);
        let path = std::str::from_utf8(out.get(path_at..).unwrap_or_default()).unwrap_or_default();
        let signed = SignedRequest {
            method,
            content_md5: "",
            content_type,
            date: &self.date,
            account: &self.account,
            path,
            comp: None,
        };
        let signature = self.key.sign(&signed.string_to_sign(Scheme::SharedKey));
        for part in [
            query,
            " HTTP/1.1\r\nHost: ",
            &self.endpoint.host,
            "\r\nAccept: application/json;odata=minimalmetadata\r\nx-ms-version: ",
            VERSION,
            "\r\nx-ms-date: ",
            &self.date,
            "\r\nAuthorization: SharedKey ",
            &self.account,
            ":",
            &signature,
            "\r\n",
            headers,
        ] {
            out.extend_from_slice(part.as_bytes());
        }
        if !content_type.is_empty() {
            let length = body.len();
            write!(out, "Content-Type: {content_type}\r\nContent-Length: {length}\r\n")
                .expect("writing to memory cannot fail");
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

pub(crate) fn continuation((partition, row): &(String, Option<String>)) -> String {
    let encode = |token: &str| utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
    let row = row.as_ref().map_or_else(String::new, |row| format!("&NextRowKey={}", encode(row)));
    format!("NextPartitionKey={}{row}", encode(partition))
}

pub(crate) fn filter_query(filter: &str) -> String {
    format!("?$filter={}", utf8_percent_encode(filter, NON_ALPHANUMERIC))
}

/// The equivalent of `TableEndpoint` in a connection string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    /// Either empty or `/account`.
    pub(crate) base_path: String,
}

impl Endpoint {
    /// Parses `http://HOST[:PORT][/ACCOUNT]`. If the host does not contain the account and there is no path, the
    /// account becomes the path. Without `allow_remote`, rejects hosts other than this machine, so that no one puts
    /// load on another server by mistake.
    pub(crate) fn parse(url: &str, account: &str, allow_remote: bool) -> anyhow::Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!("'{url}' is not a URL such as http://127.0.0.1:10002; https is not supported");
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let with_port = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
        let mut addresses = with_port.to_socket_addrs().with_context(|| format!("looking up '{host}'"))?;
        let address = addresses.next().with_context(|| format!("'{host}' has no address"))?;
        ensure!(
            allow_remote || address.ip().is_loopback(),
            "{address} is not on this machine; pass --allow-remote if you may put load on it"
        );
        let path = path.trim_end_matches('/');
        let base_path =
            if path.is_empty() && is_without_account(host, account) { format!("/{account}") } else { path.to_owned() };
        Ok(Self { address, host: host.to_owned(), base_path })
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_without_account(host: &str, account: &str) -> bool {
    let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
    is_address || !host.starts_with(&format!("{account}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_tokens_become_query_options() {
        let next = ("1!4!cA--".to_owned(), Some("1!4!cg--".to_owned()));
        assert_eq!(continuation(&next), "NextPartitionKey=1%214%21cA%2D%2D&NextRowKey=1%214%21cg%2D%2D");
        assert_eq!(continuation(&("p".to_owned(), None)), "NextPartitionKey=p");
    }

    #[test]
    fn endpoints() {
        for (url, address, base_path) in [
            ("http://127.0.0.1:10002", "127.0.0.1:10002", "/acct"),
            ("http://127.0.0.1:10002/", "127.0.0.1:10002", "/acct"),
            ("http://127.0.0.1:10002/other/", "127.0.0.1:10002", "/other"),
            ("http://127.0.0.1", "127.0.0.1:80", "/acct"),
            ("http://[::1]:7/acct", "[::1]:7", "/acct"),
        ] {
            let endpoint = Endpoint::parse(url, "acct", false).unwrap();
            assert_eq!((endpoint.address, endpoint.base_path.as_str()), (address.parse().unwrap(), base_path), "{url}");
        }
        for refused in ["https://127.0.0.1", "127.0.0.1:10002", "http://", "http://192.0.2.1:80"] {
            assert!(Endpoint::parse(refused, "acct", false).is_err(), "{refused}");
        }
        assert!(Endpoint::parse("http://192.0.2.1:80", "acct", true).is_ok());
    }
}
