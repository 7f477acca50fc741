use anyhow::{Context, bail, ensure};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

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
