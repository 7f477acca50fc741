//! What a trusted proxy says about the client: its address and whether it uses HTTPS (07 §3, 08 §5).

use crate::{Server, get, signature};
use rowhouse_server::TrustedProxies;

const PROTOCOL: &str = "X-Forwarded-Proto";
const ADDRESSES: &str = "X-Forwarded-For";

/// Starts a server with a table that trusts proxies at the given addresses. The tests connect from 127.0.0.1.
fn server_behind(proxies: &str) -> Server {
    let proxies = TrustedProxies::parse(proxies.split(',')).unwrap();
    let server = Server::with(|settings| settings.proxies = proxies);
    server.create(&["cars"]);
    server
}

#[test]
fn signatures_see_the_client_of_a_trusted_proxy_only() {
    let https = signature("r", |fields| fields.protocols = "https".into());
    let address = signature("r", |fields| fields.sources = "198.51.100.0-198.51.100.255".into());
    let (trusting, other) = (server_behind("10.0.0.1,127.0.0.0/8"), server_behind("127.0.0.2,2001:db8::/32"));
    let protocol = Some("AuthorizationProtocolMismatch");
    let source = Some("AuthorizationSourceIPMismatch");
    for (server, header, value, signature, expected) in [
        (&trusting, PROTOCOL, "https", &https, None),
        (&trusting, PROTOCOL, "http", &https, protocol),
        (&trusting, PROTOCOL, "https, http", &https, protocol),
        (&trusting, PROTOCOL, "ftp", &https, protocol),
        (&trusting, "Forwarded", "proto=https", &https, protocol),
        (&other, PROTOCOL, "https", &https, protocol),
        (&trusting, ADDRESSES, "198.51.100.7", &address, None),
        (&trusting, ADDRESSES, "203.0.113.9, 198.51.100.7, 10.0.0.1", &address, None),
        (&trusting, ADDRESSES, "198.51.100.7, 203.0.113.9", &address, source),
        (&trusting, ADDRESSES, "198.51.100.7, unknown", &address, source),
        (&other, ADDRESSES, "198.51.100.7", &address, source),
    ] {
        let response = get("/cars()").with(header, value).signed(signature).send(&mut server.client());
        let status = if expected.is_none() { 200 } else { 403 };
        assert_eq!((response.status, response.header("x-ms-error-code")), (status, expected), "{header}: {value}");
    }
}

#[test]
fn urls_in_responses_have_the_protocol_of_the_client() {
    for (proxies, scheme) in [("127.0.0.1", "https"), ("10.0.0.1", "http")] {
        let server = server_behind(proxies);
        let response = get("/Tables").with(PROTOCOL, "https").send(&mut server.client());
        let expected = format!("{scheme}://127.0.0.1/devstoreaccount1/$metadata#Tables");
        assert_eq!(response.json()["odata.metadata"], expected);
    }
}
