//! By which name a request calls the admin listener.
//!
//! A web page may give its own name the address of this machine and then ask, through the browser of somebody who works
//! here, whatever listens on it: the browser takes the answers for the page's own. But it sends the name of the page, so
//! on an address that only this machine reaches no name is taken but `localhost`.

use http::Request;
use http::header::HOST;
use http::uri::Authority;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const REFUSAL: &str = "\
this address is for programs of this machine: the Host header is to be an IP address or localhost, and no other name
";

/// Whether all that the request says about its host is an IP address or `localhost`, with any port. Whoever says nothing is
/// no browser.
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
    fn no_name_but_localhost_is_taken() {
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
