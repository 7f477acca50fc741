//! Protects accounts with a publicly known key from web pages.
//!
//! A page that is open in a browser on the developer's machine can send requests to this machine and sign them with the
//! public key. Two rules keep such a page away from the data. The cloud service has neither rule, because its keys are
//! secret:
//!
//! - A request must name a host that only this machine has. A page could make its own name resolve to the address of
//!   this machine and then read responses as if they came from its own origin (DNS rebinding).
//! - A request that a browser sends without a preflight request, because its credential is in the URL, must not write
//!   unless a CORS rule allows the page.
//!
//! Both rules are checked after the credential was found valid, so they do not reveal which accounts exist. This module
//! must not depend on operations.

use crate::failure::{Failure, Layer};
use crate::request::IncomingRequest;
use http::header::ORIGIN;
use http::{HeaderName, HeaderValue, Method};
use model::{CorsRule, CorsRules};
use std::net::IpAddr;
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names by which containers reach the machine on which they run. No web page can be served under these names,
/// because the domain `internal` is reserved.
const NAMES_IN_CONTAINERS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];

/// Rejects a request for an account with the well-known key if its host does not name this machine. Valid hosts are
/// loopback addresses, `localhost` and names under it, and the configured domains and names under them.
///
/// The server has such an account only on a loopback address, unless a flag allows it on the network. With that flag,
/// every host is allowed.
pub(crate) fn check_host(host: &str, domains: &[String]) -> Result<(), Failure> {
    let name = without_port(host);
    let is_local = if let Ok(address) = name.parse::<IpAddr>() {
        address.to_canonical().is_loopback()
    } else {
        let is_container = NAMES_IN_CONTAINERS.iter().any(|known| known.eq_ignore_ascii_case(name));
        is_container || is_in_domain(name, "localhost") || domains.iter().any(|domain| is_in_domain(name, domain))
    };
    if is_local {
        return Ok(());
    }
    let message = "The Host header does not name this machine. A server with the development account's key responds only to \
                   127.0.0.1, localhost and its configured domains.";
    let error = ServiceError::new(ErrorCode::AuthorizationFailure, message);
    Err(Failure::at(Layer::Authentication, error.because(ReasonKind::HostNotLocal.because("").quoting(host))))
}

/// Rejects a write that a web page may have made without a preflight request (a "simple request"): its credential is
/// in the URL, it comes from another origin, and no CORS rule allows that origin and method.
///
/// Browsers send a preflight request before a request with an `Authorization` header.
pub(crate) fn check_origin(incoming: &IncomingRequest<'_>, rules: Option<&CorsRules>) -> Result<(), Failure> {
    let (method, headers) = (&incoming.parts.method, &incoming.parts.headers);
    if matches!(*method, Method::GET | Method::HEAD) || incoming.head.authorization.is_some() {
        return Ok(());
    }
    let origin = headers.get(ORIGIN);
    if !is_of_other_page(incoming, origin) || allowing_rule(rules, origin, method).is_some() {
        return Ok(());
    }
    let detail = format!("A web page of another origin tried to write ({method}) with the development account's key.");
    let origin = String::from_utf8_lossy(origin.map(HeaderValue::as_bytes).unwrap_or_default());
    let reason = ReasonKind::PageNotAllowed.because(detail).quoting(&origin);
    Err(Failure::at(Layer::Authentication, ServiceError::from(ErrorCode::AuthorizationFailure).because(reason)))
}

/// Returns true if, according to the browser, a page with a different origin made the request. A browser that does not
/// send `Sec-Fetch-Site` still sends the origin.
fn is_of_other_page(incoming: &IncomingRequest<'_>, origin: Option<&HeaderValue>) -> bool {
    match incoming.parts.headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => false,
        Some(_) => true,
        None => origin.is_some_and(|origin| {
            let own = [incoming.connection.scheme(), "://", incoming.host].concat();
            !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())
        }),
    }
}

fn allowing_rule<'r>(
    rules: Option<&'r CorsRules>,
    origin: Option<&HeaderValue>,
    method: &Method,
) -> Option<&'r CorsRule> {
    rules?.select(origin.map(|origin| origin.to_str().unwrap_or_default()), method.as_str())
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// Returns true if a name is a domain or a name under it, in any letter case and with or without a trailing dot.
fn is_in_domain(name: &str, domain: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let Some(start) = name.len().checked_sub(domain.len()) else { return false };
    let (before, end) = name.split_at_checked(start).unwrap_or((name, ""));
    end.eq_ignore_ascii_case(domain) && (before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ConnectionInfo;
    use std::net::Ipv4Addr;
    use std::time::SystemTime;

    #[test]
    fn only_names_of_this_machine_reach_a_public_key() {
        let domains = ["tables.example.net".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:10002",
            "127.8.9.1:1",
            "[::1]",
            "[::1]:10002",
            "[::ffff:127.0.0.1]:1",
            "localhost",
            "LocalHost:10002",
            "localhost.:10002",
            "devstoreaccount1.table.localhost:10002",
            "host.docker.internal:10002",
            "tables.example.net",
            "devstoreaccount1.Tables.example.net:10002",
        ] {
            assert!(check_host(host, &domains).is_ok(), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:10002",
            "devstoreaccount1.table.evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.example:10002",
            "evillocalhost",
            "eviltables.example.net",
            "10.1.2.3:10002",
            "0.0.0.0:10002",
            "[2001:db8::1]:10002",
            "[evil.example]",
            "::1",
            "x.host.docker.internal",
        ] {
            let failure = check_host(host, &domains).unwrap_err();
            assert_eq!(failure.error.code, ErrorCode::AuthorizationFailure, "{host}");
            let reason = failure.error.reason().unwrap().line(true);
            assert!(reason.contains("--domain") && reason.contains(&format!("'{host}'")), "{reason}");
        }
    }

    #[test]
    fn a_page_of_another_origin_does_not_write_without_a_rule() {
        let rule = CorsRule::new("https://app.example", "POST", "", "", 0).unwrap();
        let rules = CorsRules::new(vec![rule]).unwrap();
        let any = CorsRules::new(vec![CorsRule::new("*", "POST", "", "", 0).unwrap()]).unwrap();
        let check = |method: Method, headers: &[(&str, &str)], rules| {
            let request = http::Request::builder().method(method).uri("/acct/t").header("host", "127.0.0.1:10002");
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let connection = ConnectionInfo::direct((Ipv4Addr::LOCALHOST, 1024).into(), false);
            check_origin(
                &IncomingRequest::new(&parts, connection, (crate::clock::instant(), SystemTime::now()), &[]),
                rules,
            )
            .is_ok()
        };
        let (app, other) = (("origin", "https://app.example"), ("origin", "https://other.example"));
        let cross = ("sec-fetch-site", "cross-site");
        for (headers, rules, allowed) in [
            (&[][..], None, true),
            (&[other], None, false),
            (&[other, cross], None, false),
            (&[cross], None, false),
            (&[("origin", "null")], None, false),
            (&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], None, false),
            (&[other], Some(&rules), false),
            (&[app], Some(&rules), true),
            (&[app, cross], Some(&rules), true),
            (&[other, cross], Some(&any), true),
            // Same-origin requests, or requests without a page.
            (&[("origin", "http://127.0.0.1:10002")], None, true),
            (&[("origin", "http://localhost:5173"), ("sec-fetch-site", "same-origin")], None, true),
            (&[("sec-fetch-site", "none")], None, true),
            // The browser has sent a preflight request.
            (&[other, cross, ("authorization", "SharedKey a:b")], None, true),
        ] {
            assert_eq!(check(Method::POST, headers, rules), allowed, "{headers:?} {rules:?}");
            assert!(check(Method::GET, headers, rules), "{headers:?}");
        }
        assert!(!check(Method::DELETE, &[app], Some(&rules)), "the rule is for another method");
    }
}
