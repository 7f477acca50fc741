//! Which host names a request to the admin listener may use.
//!
//! A web page may let its own host name resolve to the address of this machine and then, from a browser that runs here, read
//! what is served on it as if it were the page's own (DNS rebinding). The browser sends the host name of the page, so
//! a listener that only this machine reaches refuses every name except `localhost`.

use http::Request;
use http::header::HOST;
use http::uri::Authority;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const REFUSAL: &str = "\
this address is for programs of this machine: send an IP address or localhost in the Host header
";

/// Whether every host that the request names is an IP address or `localhost`, with any port. Browsers always name a host, so
/// a request without one is allowed.
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
