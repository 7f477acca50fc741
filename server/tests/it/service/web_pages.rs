//! Tests that a web page that is open on the developer's machine can do nothing to a server on the same machine,
//! although the key is public. Also tests that clients without a credential cannot learn anything about accounts.

use crate::Server;
use crate::server::accounts;
use rowhouse_server::Settings;
use test_support::{ACCOUNT, Client, KEY, Response, head};
use wire::sas::Fields;
use wire::signing::AccountKey;

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;
/// The origin that the rules of [`set_rules`] allow.
const FRIEND: &str = "https://friend.example";
const STRANGER: &str = "https://stranger.example";

/// Starts a server with the table `tab`.
fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let server = Server::with(change);
    server.create(&["tab"]);
    server
}

fn set_rules(server: &Server, origin: &str) {
    let rule = format!(
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{origin}</AllowedOrigins><AllowedMethods>GET,POST\
         </AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>60\
         </MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
    );
    let target = "/?restype=service&comp=properties";
    let set = server.client().request("PUT", target, &[("Content-Type", "application/xml")], rule.as_bytes());
    assert_eq!(set.status, 202, "{}", String::from_utf8_lossy(&set.body));
}

fn send(server: &Server, bytes: &[u8]) -> Response {
    let mut client = server.client();
    client.send(bytes).unwrap();
    client.receive().unwrap()
}

fn query_as(server: &Server, host: &str) -> (u16, Option<String>) {
    let answer = send(server, head("GET", "/tab", &[("Host", host)]).as_bytes());
    (answer.status, answer.header("x-ms-error-code").map(str::to_owned))
}

#[test]
fn a_name_that_resolves_to_this_machine_does_not_read_the_development_account() {
    let server = server(|settings| settings.domains = vec!["tables.example.net".to_owned()]);
    let port = server.address.rsplit(':').next().unwrap();
    for host in ["127.0.0.1", "localhost", "tables.example.net"] {
        assert_eq!(query_as(&server, &format!("{host}:{port}")), (200, None), "{host}");
    }
    let refused = (403, Some("AuthorizationFailure".to_owned()));
    for host in ["evil.example", "192.0.2.7"] {
        assert_eq!(query_as(&server, &format!("{host}:{port}")), refused, "{host}");
    }
    server.wait_for_log("evil.example");
    // An account with its own key is served under any name.
    let key = "AAECAwQFBgcICQoLDA0ODw==";
    let own = Server::with_access(accounts(&format!("orchard:{key}")), |_| {});
    let request = format!(
        "GET /orchard/tab?{} HTTP/1.1\r\nHost: evil.example\r\nAccept: application/json\r\n\r\n",
        token("orchard", key)
    );
    assert_eq!(send(&own, request.as_bytes()).header("x-ms-error-code"), Some("TableNotFound"));
}

#[test]
fn with_the_key_allowed_on_the_network_every_name_of_the_server_works() {
    let server = server(|settings| settings.development_key_for_any_host = true);
    for host in ["tables", "tables:10002", "rowhouse.default.svc", "192.0.2.7:10002", "localhost"] {
        assert_eq!(query_as(&server, host), (200, None), "{host}");
    }
}

/// Returns a signature for everything in the table `tab`.
fn token(account: &str, key: &str) -> String {
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "tab".into(),
        permissions: "raud".into(),
        expiry: "2999-01-01".into(),
        ..Fields::default()
    };
    fields.sign(account, &AccountKey::parse(key).unwrap()).unwrap()
}

/// Returns a write whose credential is in the URL.
fn simple_post(host: &str, headers: &str, body: &str) -> Vec<u8> {
    let token = token(ACCOUNT, KEY);
    let length = body.len();
    format!(
        "POST /{ACCOUNT}/tab?{token} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

#[test]
fn a_page_does_not_write_without_asking_first() {
    for any_host in [false, true] {
        let server = server(|settings| settings.development_key_for_any_host = any_host);
        let host = server.address.clone();
        let count =
            |server: &Server| server.client().request("GET", "/tab", &[], b"").json()["value"].as_array().map(Vec::len);
        for headers in ["Origin: https://stranger.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
            let answer = send(&server, &simple_post(&host, headers, ENTITY));
            assert_eq!(
                (answer.status, answer.header("x-ms-error-code")),
                (403, Some("AuthorizationFailure")),
                "{headers}"
            );
        }
        assert_eq!(count(&server), Some(0));
        set_rules(&server, FRIEND);
        let foreign = send(&server, &simple_post(&host, &format!("Origin: {STRANGER}\r\n"), ENTITY));
        assert_eq!((foreign.status, count(&server)), (403, Some(0)));
        // The same request from a page that the account allows, and from a program.
        let friend = send(&server, &simple_post(&host, &format!("Origin: {FRIEND}\r\n"), ENTITY));
        assert_eq!((friend.status, friend.header("access-control-allow-origin")), (201, Some(FRIEND)));
        assert_eq!(send(&server, &simple_post(&host, "", &ENTITY.replace("\"r\"", "\"s\""))).status, 201);
        assert_eq!(count(&server), Some(2));
    }
}

#[test]
fn a_page_of_the_server_itself_writes_with_a_signature_in_the_address() {
    let server = server(|_| {});
    let port = server.address.rsplit(':').next().unwrap();
    for (row, (name, more)) in [
        ("127.0.0.1", "Sec-Fetch-Site: same-origin\r\n"),
        ("localhost", "Sec-Fetch-Site: same-origin\r\n"),
        // Browsers send that header only to trusted hosts, and older browsers never send it.
        ("LOCALHOST", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let host = format!("{name}:{port}");
        let headers = format!("Origin: http://{host}\r\n{more}");
        let answer = send(&server, &simple_post(&host, &headers, &ENTITY.replace("\"r\"", &format!("\"{row}\""))));
        assert_eq!(answer.status, 201, "{headers}");
    }
    let refused = |host: &str, headers: &str| {
        let answer = send(&server, &simple_post(host, headers, ENTITY));
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (403, Some("AuthorizationFailure")), "{headers}");
    };
    // A page under a name that resolves to this machine also has that host's origin.
    refused("evil.example", "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n");
}

/// Returns the complete response to a request on a new connection, without the parts that always differ.
fn without_ids(server: &Server, request: &str) -> String {
    let mut client = server.client();
    client.send(request.as_bytes()).unwrap();
    let response = String::from_utf8(client.receive_all()).unwrap();
    let lines =
        response.split("\r\n").filter(|line| !line.starts_with("x-ms-request-id: ") && !line.starts_with("Date: "));
    let mut whole: String = lines.collect::<Vec<_>>().join("\n");
    for (name, length) in [("RequestId:", 36), ("Time:", "2031-03-14T08:15:30.1234567Z".len())] {
        let starts: Vec<usize> = whole.match_indices(name).map(|(at, _)| at + name.len()).collect();
        for start in starts.into_iter().rev() {
            whole.replace_range(start..start + length, "");
        }
    }
    whole
}

#[test]
fn an_account_with_rules_looks_like_one_without_and_like_none() {
    let (with_rules, without_rules) = (server(|_| {}), server(|_| {}));
    set_rules(&with_rules, FRIEND);
    let wrong = format!("Authorization: SharedKey {ACCOUNT}:{}=\r\n", "A".repeat(43));
    let preflight = format!("Origin: {STRANGER}\r\nAccess-Control-Request-Method: GET\r\n");
    let preflight_of_method = format!("Origin: {FRIEND}\r\nAccess-Control-Request-Method: DELETE\r\n");
    for (method, headers) in [
        ("GET", ""),
        ("GET", "Accept: application/json\r\n"),
        ("GET", "Origin: https://stranger.example\r\n"),
        ("HEAD", ""),
        ("POST", "Origin: https://stranger.example\r\nContent-Length: 0\r\n"),
        ("GET", wrong.as_str()),
        ("OPTIONS", ""),
        ("OPTIONS", "Origin: https://friend.example\r\n"),
        ("OPTIONS", preflight.as_str()),
        ("OPTIONS", preflight_of_method.as_str()),
    ] {
        let request = |account: &str| {
            // A credential for another account than the one in the URL is told so.
            let headers = headers.replace(ACCOUNT, account);
            format!("{method} /{account}/tab HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
        };
        let none = without_ids(&with_rules, &request("nosuchaccount"));
        assert!(none.starts_with("HTTP/1.1 40"), "{none}");
        assert_eq!(without_ids(&with_rules, &request(ACCOUNT)), none, "{method} {headers}");
        assert_eq!(without_ids(&without_rules, &request(ACCOUNT)), none, "{method} {headers}");
    }
    // A page that a rule allows must get the CORS headers.
    let allowed = format!(
        "OPTIONS /{ACCOUNT}/tab HTTP/1.1\r\nHost: localhost\r\nOrigin: {FRIEND}\r\nAccess-Control-Request-Method: GET\r\n\r\n"
    );
    assert_eq!(send(&with_rules, allowed.as_bytes()).status, 200);
}

/// Sends bytes, and expects one refusal. The connection must be closed after it.
fn refused_for_good(server: &Server, name: &str, bytes: &str) {
    let mut client: Client = server.client();
    client.send(bytes.as_bytes()).unwrap();
    let answer = client.receive().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, Some("InvalidHeaderValue")), "{name}");
    assert_eq!(answer.header("connection"), Some("close"), "{name}");
    assert_eq!(client.receive_all(), b"", "{name}");
}

#[test]
fn hosts_that_cannot_be_are_refused_and_the_connection_ends() {
    let server = server(|_| {});
    let long = format!("{}.localhost", "a".repeat(251));
    let huge = "a".repeat(60_000);
    for host in
        [long.as_str(), &huge, "me@localhost", "me:secret@localhost", "local host", "localhost/x", "a\tb", "{x}"]
    {
        refused_for_good(&server, host, &head("GET", "/tab", &[("Host", host)]));
    }
    for second in ["localhost", "127.0.0.1", "evil.example", ""] {
        refused_for_good(&server, second, &head("GET", "/tab", &[("Host", "127.0.0.1"), ("Host", second)]));
    }
    refused_for_good(&server, "empty", &head("GET", "/tab", &[("Host", ""), ("Host", "127.0.0.1")]));
    let in_target = head("GET", "/tab", &[]).replacen("GET /", "GET http://me@localhost/", 1);
    refused_for_good(&server, "in the target", &in_target);
}

#[test]
fn bodies_that_others_may_frame_differently_are_refused_and_the_connection_ends() {
    let server = server(|_| {});
    let chunks = format!("{:x}\r\n{ENTITY}\r\n0\r\n\r\n", ENTITY.len());
    let next = head("GET", "/tab", &[]);
    for encodings in [
        &["chunked, chunked"][..],
        &["chunked", "chunked"],
        &["gzip, chunked"],
        &["gzip", "chunked"],
        &["identity, chunked"],
        &[",chunked"],
        &["chunked;x=y, chunked"],
    ] {
        let headers: Vec<_> = encodings.iter().map(|encoding| ("Transfer-Encoding", *encoding)).collect();
        let request = format!("{}{chunks}{next}", head("POST", "/tab", &headers));
        refused_for_good(&server, &format!("{encodings:?}"), &request);
    }
    // If there is also a length, the chunks take precedence (RFC 9112, section 6.1), and the rest is not read.
    for order in [["Content-Length", "Transfer-Encoding"], ["Transfer-Encoding", "Content-Length"]] {
        let headers = order.map(|name| (name, if name == "Content-Length" { "5" } else { "chunked" }));
        let mut client = server.client();
        client.send(format!("{}{chunks}{next}", head("POST", "/tab", &headers)).as_bytes()).unwrap();
        let answer = client.receive().unwrap();
        assert_eq!(answer.header("connection"), Some("close"), "{order:?}");
        assert_eq!(client.receive_all(), b"", "{order:?}");
    }
    let plain = format!("{}{chunks}", head("POST", "/tab", &[("Transfer-Encoding", "Chunked")]));
    assert_eq!(send(&server, plain.replace("\"r\"", "\"s\"").as_bytes()).status, 201);
}
