//! The commands of docs/getting-started.md. The conformance suites run its snippets.

use super::{Runbook, stop};
use std::fs;
use test_support::ReservedPort;

#[test]
fn a_server_is_started_with_and_without_tls() {
    let port = ReservedPort::new();
    let mut book = Runbook::open("getting-started.md", &[("0.0.0.0:443", &port.address())]);
    let server = book.start("rowhouse serve");
    let list = |options: &str| format!("rowhouse table list --endpoint {options}");
    book.run_own(0, &list("http://127.0.0.1:10002/devstoreaccount1"));
    stop(server);

    book.run_own(0, "rowhouse accounts new orchard --file accounts.toml");
    book.run_own(0, "rowhouse certificate");
    let server = book.start("rowhouse serve --listen 0.0.0.0:443 --accounts accounts.toml");
    let accounts = fs::read_to_string(book.path("accounts.toml")).unwrap();
    let key = accounts.lines().find_map(|line| line.strip_prefix("key1 = \"")?.strip_suffix('"')).unwrap();
    fs::write(book.path("orchard.key"), key).unwrap();
    let url = format!("https://localhost:{}/orchard --key-file orchard.key", port.number());
    book.run_own(0, &format!("SSL_CERT_FILE=cert.pem {}", list(&url)));
    book.run_own(1, &list(&url));
    stop(server);
    book.end();
}
