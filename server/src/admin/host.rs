//! The check of the host name in requests to the admin listener.
//!
//! A malicious web page can make its own host name resolve to this machine (DNS rebinding). A browser on this machine
//! then lets the page read what this listener serves as if it came from the page's own origin. The browser sends the
//! page's host name, so a listener that is reachable only from this machine rejects every name except `localhost`.

use http::Request;
use http::header::HOST;
use http::uri::Authority;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const REFUSAL: &str = "\
this address is for programs on this machine: send an IP address or localhost in the Host header
";

/// Returns true if every host that the request names is an IP address or `localhost`, with any port. A request without
/// a host is allowed, because browsers always name one.
pub(super) fn is_local<B>(request: &Request<B>) -> bool {
    let is_named_locally = |host: &http::HeaderValue| {
        host.to_str().ok().and_then(|host| host.parse().ok()).is_some_and(|authority| is_local_name(&authority))
    };
    request.headers().get_all(HOST).iter().all(is_named_locally) && request.uri().authority().is_none_or(is_local_name)
}

fn is_local_name(authority: &Authority) -> bool {
    let host = authority.host();
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_except_localhost_is_refused() {
        let with = |hosts: &[&str]| {
            let request = hosts.iter().fold(Request::get("/log"), |request, host| request.header(HOST, *host));
            is_local(&request.body(()).unwrap())
        };
        for host in ["127.0.0.1", "127.0.0.1:10003", "10.1.2.3:1", "[::1]", "[::1]:10003", "localhost", "LocalHost:80"]
        {
            assert!(with(&[host]), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:10003",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1",
            "::1",
            "[evil]",
        ] {
            assert!(!with(&[host]), "{host}");
        }
        assert!(with(&[]) && !with(&["localhost", "evil.example"]));
        assert!(!is_local(&Request::get("http://evil.example/log").body(()).unwrap()));
    }
}
