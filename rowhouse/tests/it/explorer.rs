//! Tests of the explorer: which servers provide it, and what they serve. `explorer/tests` tests the page itself in a
//! browser.

use crate::PROGRAM;
use crate::black_box::{Folder, account_file, exchange, key, list, tls};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use test_support::{ACCOUNT, Client, KEY, Response, Server, eventually};
use wire::sas::Fields;
use wire::signing::AccountKey;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

fn get(server: &Server, path: &str) -> Response {
    send(&mut server.client(), "GET", path, "")
}

/// `headers` are complete lines.
fn send(client: &mut Client, method: &str, path: &str, headers: &str) -> Response {
    let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    client.send(format!("{method} {path} HTTP/1.1\r\n{host}{headers}\r\n").as_bytes()).unwrap();
    let mut response = if method == "HEAD" { client.receive_head() } else { client.receive() }.unwrap();
    response.headers.retain(|(name, _)| name != "date");
    response
}

fn check_common_headers(response: &Response, path: &str) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(response.header(name), Some(value), "{path}: {name}");
        assert_eq!(response.headers.iter().filter(|(known, _)| known == name).count(), 1, "{path}: {name}");
    }
    for name in ["set-cookie", "access-control-allow-origin", "x-ms-version", "www-authenticate"] {
        assert_eq!(response.header(name), None, "{path}: {name}");
    }
}

fn server() -> Server {
    PROGRAM.start(&["--in-memory"])
}

#[test]
fn every_file_is_served_without_a_credential() {
    let server = server();
    let mut client = server.client();
    for (name, media_type) in [
        ("", "text/html"),
        ("index.html", "text/html"),
        ("explorer.js", "text/javascript"),
        ("views.js", "text/javascript"),
        ("patterns.md", "text/plain"),
    ] {
        let path = format!("/_rowhouse/{name}");
        let response = send(&mut client, "GET", &path, "");
        assert_eq!(response.status, 200, "{path}");
        assert!(!response.body.is_empty(), "{path}");
        check_common_headers(&response, &path);
        let media_type = format!("{media_type}; charset=utf-8");
        assert_eq!(response.header("content-type"), Some(&*media_type), "{path}");
    }
    let page = send(&mut client, "GET", "/_rowhouse/", "");
    let index = send(&mut client, "GET", "/_rowhouse/index.html", "");
    assert_eq!((&page.body, page.header("etag")), (&index.body, index.header("etag")));
    let guide = send(&mut client, "GET", "/_rowhouse/patterns.md", "");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/patterns.md");
    assert!(guide.body == std::fs::read(source).unwrap());
}

#[test]
fn files_are_compressed_for_clients_that_accept_it() {
    let server = server();
    let mut client = server.client();
    for name in ["", "explorer.js", "views.js", "patterns.md"] {
        let path = format!("/_rowhouse/{name}");
        let plain = send(&mut client, "GET", &path, "Accept-Encoding: gzip;q=0, br\r\n");
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{path}");
        let gzip = send(&mut client, "GET", &path, "Accept-Encoding: gzip, deflate, br, zstd\r\n");
        assert_eq!((gzip.status, gzip.header("content-encoding")), (200, Some("gzip")), "{path}");
        assert!(gzip.body.starts_with(&[0x1F, 0x8B]) && gzip.body.len() < plain.body.len(), "{path}");
        assert_eq!(gzip.header("content-type"), plain.header("content-type"), "{path}");
        // Caches must not confuse the two forms.
        assert_ne!(gzip.header("etag"), plain.header("etag"), "{path}");
        for response in [&plain, &gzip] {
            assert_eq!(response.header("vary"), Some("Accept-Encoding"), "{path}");
            check_common_headers(response, &path);
        }
        let tag = gzip.header("etag").unwrap();
        let headers = format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n");
        let known = send(&mut client, "GET", &path, &headers);
        assert_eq!(
            (known.status, known.header("etag"), known.header("vary")),
            (304, Some(tag), Some("Accept-Encoding"))
        );
        let other_form = send(&mut client, "GET", &path, &format!("If-None-Match: {tag}\r\n"));
        assert!((other_form.status, &other_form.body) == (200, &plain.body), "{path}");
    }
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let server = server();
    let mut client = server.client();
    let whole = send(&mut client, "GET", "/_rowhouse/", "");
    let tag = whole.header("etag").unwrap().to_owned();
    for headers in [format!("If-None-Match: W/{tag}\r\n"), format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n")]
    {
        for method in ["GET", "HEAD"] {
            let response = send(&mut client, method, "/_rowhouse/", &headers);
            assert_eq!((response.status, response.header("etag")), (304, Some(&*tag)), "{headers}");
            assert_eq!((response.header("content-length"), response.header("content-type")), (None, None), "{headers}");
            check_common_headers(&response, &headers);
        }
    }
    let other = send(&mut client, "GET", "/_rowhouse/", "If-None-Match: \"another\"\r\n");
    assert!((other.status, &other.body) == (200, &whole.body));
    // Settings are made for each request.
    let settings = send(&mut client, "GET", "/_rowhouse/settings.json", "If-None-Match: *\r\n");
    assert_eq!((settings.status, settings.header("etag")), (200, None));
}

#[test]
fn a_head_request_gets_the_headers_alone() {
    let server = server();
    let mut client = server.client();
    for path in ["/_rowhouse/", "/_rowhouse/settings.json", "/_rowhouse/nothing.js", "/_rowhouse"] {
        let whole = send(&mut client, "GET", path, "");
        let head = send(&mut client, "HEAD", path, "");
        let without_id = |headers: Vec<(String, String)>| -> Vec<_> {
            headers.into_iter().filter(|(name, _)| name != "x-ms-request-id").collect()
        };
        assert_eq!(head.status, whole.status, "{path}");
        assert_eq!(without_id(head.headers), without_id(whole.headers), "{path}");
    }
}

#[test]
fn the_address_without_the_slash_leads_to_the_page() {
    let server = server();
    for path in ["/_rowhouse", "/_rowhouse?filter=x"] {
        let response = get(&server, path);
        assert_eq!((response.status, response.header("location")), (308, Some("/_rowhouse/")), "{path}");
        check_common_headers(&response, path);
    }
}

/// What a browser sends for an address that a user types.
const TYPED: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

#[test]
fn a_browser_that_opens_the_server_is_led_to_the_page() {
    let server = server();
    for host in ["", "Host: devstoreaccount1.table.localhost\r\n"] {
        let response = send(&mut server.client(), "GET", "/", &format!("{TYPED}{host}"));
        assert_eq!((response.status, response.header("location")), (307, Some("/_rowhouse/")), "{response:?}");
        check_common_headers(&response, "/");
    }
    // All other requests get the response of a server without the explorer.
    let off = PROGRAM.start(&["--in-memory", "--explorer=false"]);
    let signed = format!("{TYPED}Authorization: SharedKey devstoreaccount1:AAAA\r\n");
    let preflight = format!("{TYPED}Origin: https://stranger.example\r\nAccess-Control-Request-Method: GET\r\n");
    for (method, path, headers) in [
        ("GET", "/", "Accept: */*\r\n"),
        ("GET", "/", ""),
        ("HEAD", "/", TYPED),
        ("OPTIONS", "/", &preflight),
        ("GET", "/", &signed),
        ("GET", "/?comp=list", TYPED),
        ("GET", "/devstoreaccount1", TYPED),
        ("GET", "/devstoreaccount1/", TYPED),
    ] {
        let expected = answer(&off, method, path, headers);
        assert!((400..405).contains(&expected.0), "{expected:?}");
        assert_eq!(answer(&server, method, path, headers), expected, "{method} {path} {headers}");
    }
    assert_eq!(answer(&off, "GET", "/", TYPED), answer(&off, "GET", "/", "Accept: */*\r\n"));
}

#[test]
fn no_other_path_leads_to_a_file() {
    let server = server();
    let mut client = server.client();
    let long = format!("/_rowhouse/{}", "a/".repeat(20_000));
    for path in [
        "/_rowhouse/nothing.js",
        "/_rowhouse/../devstoreaccount1/Tables",
        "/_rowhouse/%2e%2e/%2e%2e/etc/passwd",
        "/_rowhouse//etc/passwd",
        "/_rowhouse/index%2ehtml",
        "/_rowhouse/%F0%28%8C%BC",
        &long,
    ] {
        let response = send(&mut client, "GET", path, "");
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
        assert_eq!(response.body, b"There is no such file in the explorer.\n", "{path}");
        check_common_headers(&response, path);
    }
    for path in ["/_rowhouses/", "/devstoreaccount1/_rowhouse/"] {
        let response = send(&mut client, "GET", path, "");
        assert_eq!(response.header("x-ms-error-code"), Some("AuthenticationFailed"), "{path}: {response:?}");
    }
}

#[test]
fn query_options_and_credentials_change_nothing() {
    let server = server();
    let mut client = server.client();
    let page = send(&mut client, "GET", "/_rowhouse/", "").body;
    let huge = "a".repeat(60_000);
    let wrong = format!("Authorization: SharedKey devstoreaccount1:{}=\r\n", "A".repeat(43));
    for (query, headers) in [
        (huge.as_str(), ""),
        ("restype=service&comp=properties", ""),
        ("$filter=%FF&$top=x&sig=x&se=x", ""),
        ("", wrong.as_str()),
        ("", "x-ms-version: nonsense\r\nAccept: nothing/at-all\r\nDataServiceVersion: 9\r\n"),
        ("", "Origin: https://stranger.example\r\nSec-Fetch-Site: cross-site\r\n"),
        ("", "Range: bytes=0-1\r\n"),
    ] {
        let response = send(&mut client, "GET", &format!("/_rowhouse/?{query}"), headers);
        assert!((response.status, &response.body) == (200, &page), "{query} {headers}: {}", response.status);
        check_common_headers(&response, query);
    }
    let address = format!("http://{}/_rowhouse/", server.address);
    assert!(send(&mut client, "GET", &address, "").body == page, "an absolute URL in the request line");
}

#[test]
fn other_methods_are_refused_and_their_bodies_are_not_kept() {
    let server = server();
    let mut client = server.client();
    let preflight = "Origin: https://stranger.example\r\nAccess-Control-Request-Method: PUT\r\n";
    for (method, headers, body) in
        [("POST", "Content-Length: 3\r\n", "a=b"), ("DELETE", "", ""), ("TRACE", "", ""), ("OPTIONS", preflight, "")]
    {
        for path in ["/_rowhouse/", "/_rowhouse", "/_rowhouse/settings.json"] {
            let text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
            client.send(text.as_bytes()).unwrap();
            // The connection continues after a short body.
            let response = client.receive().unwrap();
            assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
            assert_eq!(response.header("connection"), None, "{method} {path}");
            check_common_headers(&response, path);
        }
    }
    client.send(b"POST /_rowhouse/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    let response = client.receive().unwrap();
    assert_eq!((response.status, response.header("connection")), (405, Some("close")));
    assert_eq!(client.receive_all(), b"");
}

#[test]
fn a_server_with_tls_serves_it_too() {
    let folder = Folder::new();
    let (server, trusted) = tls::start(&folder, &["--explorer"]);
    let mut client = tls::connect(&server.address, &trusted, &key(1)).unwrap();
    let page = exchange(&mut client, "GET /_rowhouse/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((page.status, page.header("content-security-policy")), (200, Some(POLICY)));
    let settings = exchange(&mut client, "GET /_rowhouse/settings.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(settings.json()["development"], false);
    assert_eq!(list(&mut client), 200, "the same connection serves data");
}

#[test]
fn metrics_show_it_as_an_operation_of_no_account() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--log", "info,rowhouse::access=debug"]);
    let mut client = server.client();
    for path in ["/_rowhouse/", "/_rowhouse/nothing.js", "/_rowhouse"] {
        send(&mut client, "GET", path, "Host: devstoreaccount1.table.localhost\r\n");
    }
    send(&mut client, "GET", "/_rowhouse/", "If-None-Match: *\r\n");
    server.wait_for_log("operation=\"Explorer\"");
    let metrics = send(&mut test_support::Client::connect(&server.admin).unwrap(), "GET", "/metrics", "").body;
    let metrics = String::from_utf8(metrics).unwrap();
    for status in [200, 404, 308, 304] {
        let line = format!("rowhouse_requests_total{{operation=\"Explorer\",status=\"{status}\",code=\"\"}} 1");
        assert!(metrics.contains(&line), "{status}: {metrics}");
    }
    assert!(!metrics.contains("rowhouse_account_requests_total{"), "{metrics}");
}

fn announced(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = PROGRAM.serve(&[&["--in-memory"], arguments].concat());
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let mut child = command.envs(variables.iter().copied()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    // The lines are written at the same time.
    out.read_line(&mut lines).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    out.read_to_string(&mut lines).unwrap();
    assert!(lines.contains("connection string: "), "{lines}");
    lines
}

/// Returns whether the server says that the explorer is on, or `None` if it says nothing.
fn is_announced(arguments: &[&str], variables: &[(&str, &str)]) -> Option<bool> {
    let lines = announced(arguments, variables);
    let endpoint = lines.lines().next().unwrap().strip_prefix("listening on ").unwrap();
    // A server that listens on all addresses names one that clients can use.
    let endpoint = endpoint.replace("0.0.0.0", "127.0.0.1");
    assert!(lines.contains(&format!(";TableEndpoint={endpoint}/")), "{lines}");
    let explorer = lines.lines().find_map(|line| line.strip_prefix("explorer: "))?;
    let address = explorer.strip_prefix("off; --explorer serves it at ");
    assert_eq!(address.unwrap_or(explorer), format!("{endpoint}/_rowhouse/"), "{lines}");
    Some(address.is_none())
}

fn page_settings(server: &Server, host: &str) -> Value {
    let response = send(&mut server.client(), "GET", "/_rowhouse/settings.json", &format!("Host: {host}\r\n"));
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    check_common_headers(&response, host);
    response.json()
}

#[test]
fn it_is_on_for_development_on_this_machine_and_else_on_request() {
    let folder = Folder::new();
    let own = folder.write("own", &account_file("orchard", &key(1), &key(2)));
    let development = folder.write("development", &account_file(ACCOUNT, KEY, &key(2)));
    let file = folder.write("off.toml", "explorer = false\n");
    let network = ["--listen", "0.0.0.0:0", "--allow-development-key-on-network", "--allow-plain-http-on-network"];
    for (arguments, variables, expected) in [
        (&[][..], &[][..], Some(true)),
        (&["--accounts", &development], &[], Some(true)),
        (&["--accounts", &own], &[], Some(false)),
        (&["--accounts", &own, "--explorer"], &[], Some(true)),
        (&["--accounts", &own, "--explorer=true"], &[], Some(true)),
        (&[], &[("ROWHOUSE_ACCOUNT_KEYS", &*format!("orchard:{}", key(1)))], Some(false)),
        (&["--accounts", &own, "--explorer=on"], &[], Some(true)),
        (&["--explorer=off"], &[], None),
        (&["--explorer=false"], &[], None),
        (&[], &[("ROWHOUSE_EXPLORER", "off")], None),
        (&[], &[("ROWHOUSE_EXPLORER", "false")], None),
        (&["--explorer"], &[("ROWHOUSE_EXPLORER", "false")], Some(true)),
        (&["--config", &file], &[], None),
        (&["--config", &file, "--explorer"], &[], Some(true)),
        (&network, &[], Some(false)),
        (&[&network[..], &["--explorer"]].concat(), &[], Some(true)),
    ] {
        assert_eq!(is_announced(arguments, variables), expected, "{arguments:?} {variables:?}");
    }
}

#[test]
fn a_server_with_tls_names_an_address_with_https() {
    let folder = Folder::new();
    let pair = tls::write_pair(&folder);
    let lines = announced(&["--tls-cert", &pair.certificate, "--tls-key", &pair.key], &[]);
    let explorer = lines.lines().last().unwrap();
    assert!(explorer.starts_with("explorer: https://127.0.0.1:") && explorer.ends_with("/_rowhouse/"), "{lines}");
}

/// Returns the complete response to a request on a new connection, without the parts that always differ.
fn answer(server: &Server, method: &str, path: &str, headers: &str) -> (u16, Vec<(String, String)>, String) {
    let mut response = send(&mut server.client(), method, path, headers);
    let id = response.header("x-ms-request-id").unwrap().to_owned();
    response.headers.retain(|(name, _)| name != "x-ms-request-id");
    let mut body = String::from_utf8(response.body).unwrap().replace(&id, "");
    if let Some(at) = body.find("Time:") {
        body.replace_range(at..at + "Time:2031-03-14T08:15:30.1234567Z".len(), "");
    }
    (response.status, response.headers, body)
}

#[test]
fn a_server_without_it_responds_as_to_any_account_that_does_not_exist() {
    let off = PROGRAM.start(&["--in-memory", "--explorer=false"]);
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS"] {
        for path in ["", "/", "/index.html", "/settings.json", "/../x", "/%2e"] {
            for headers in ["", "Accept: application/json\r\n", "Host: devstoreaccount1.table.localhost\r\n"] {
                // This name cannot be an account name, either.
                let other = answer(&off, method, &format!("/_storehouse{path}"), headers);
                assert!((400..405).contains(&other.0), "{other:?}");
                assert!(other.1.iter().any(|(name, _)| name == "x-ms-error-code"), "{other:?}");
                assert_eq!(
                    answer(&off, method, &format!("/_rowhouse{path}"), headers),
                    other,
                    "{method} {path} {headers}"
                );
            }
        }
    }
    // This also applies with a credential if the host names the account: then the path names a table, but not the table
    // of the signature.
    let on = server();
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "tab".into(),
        permissions: "raud".into(),
        expiry: "2999-01-01".into(),
        ..Fields::default()
    };
    let get_table = |server: &Server| {
        let path = format!("/_rowhouse/?{}", fields.clone().sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap());
        let response = send(&mut server.client(), "GET", &path, "Host: devstoreaccount1.table.localhost\r\n");
        response.header("x-ms-error-code").map(str::to_owned)
    };
    assert_eq!(get_table(&off).as_deref(), Some("AuthorizationFailure"));
    assert_eq!(get_table(&on), None);
}

#[test]
fn the_page_knows_whether_the_host_may_use_the_development_account() {
    let server = PROGRAM.start(&["--in-memory", "--domain", "tables.example.net"]);
    let expected = |development: bool, host_account: Option<&str>| {
        json!({
            "version": env!("CARGO_PKG_VERSION"), "development": development, "hostAccount": host_account,
            "extensions": false, "changes": false, "load": false
        })
    };
    for (host, development, host_account) in [
        ("127.0.0.1:10002", true, None),
        ("localhost", true, None),
        ("[::1]:1", true, None),
        ("tables.example.net", true, None),
        ("devstoreaccount1.tables.example.net:10002", true, Some(ACCOUNT)),
        ("devstoreaccount1.table.localhost:10002", true, Some(ACCOUNT)),
        ("orchard.table.localhost", false, Some("orchard")),
        // A page under a different name that resolves to this machine gets no useful information.
        ("evil.example", false, None),
        ("192.0.2.7:10002", false, None),
        ("devstoreaccount1.table.evil.example", false, Some(ACCOUNT)),
    ] {
        assert_eq!(page_settings(&server, host), expected(development, host_account), "{host}");
    }
    let open = PROGRAM.start(&["--in-memory", "--explorer", "--allow-development-key-on-network"]);
    assert_eq!(page_settings(&open, "evil.example")["development"], json!(true));
    let extended = PROGRAM.start(&["--in-memory", "--extensions"]);
    assert_eq!(page_settings(&extended, "evil.example")["extensions"], json!(true));
}

#[test]
fn accounts_that_change_change_what_the_page_knows() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file(ACCOUNT, KEY, &key(2)));
    let server = PROGRAM.start(&["--in-memory", "--accounts", &accounts]);
    assert_eq!(page_settings(&server, "localhost")["development"], json!(true));
    folder.replace("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    server.signal("HUP");
    eventually("the new accounts", || {
        (page_settings(&server, "localhost")["development"] == json!(false)).then_some(())
    });
    assert_eq!(get(&server, "/_rowhouse/").status, 200);
}
