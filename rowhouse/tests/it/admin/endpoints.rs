//! Tests of liveness, readiness, version and index, and of refused requests.

use super::page::{ask, get, text};
use crate::PROGRAM;
use model::limits::ADMIN_CONNECTIONS_MAX;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output};
use test_support::{Client, ReservedPort, Server, eventually, head};

fn server(args: &[&str]) -> Server {
    PROGRAM.start(&[&["--admin", "127.0.0.1:0"], args].concat())
}

#[test]
fn known_paths_are_answered_and_others_refused() {
    let server = server(&["--in-memory"]);
    for path in ["/", "/livez", "/readyz", "/healthz", "/metrics", "/version", "/log"] {
        let answer = get(&server, path);
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")), "{path}");
        let head = ask(&server.admin, "HEAD", path, "", "");
        assert_eq!(head.status, 200, "{path}");
        assert_eq!(head.header("content-type"), answer.header("content-type"), "{path}");
        let allow = if path == "/log" { "GET, HEAD, PUT" } else { "GET, HEAD" };
        for method in ["POST", "DELETE", "OPTIONS", "PATCH"] {
            let refused = ask(&server.admin, method, path, "", "");
            assert_eq!((refused.status, refused.header("allow")), (405, Some(allow)), "{method} {path}");
        }
    }
    assert_eq!(ask(&server.admin, "PUT", "/livez", "", "").status, 405);
    let nothing = get(&server, "/metrics/more");
    assert!(nothing.status == 404 && text(&nothing).contains("/readyz"), "{}", text(&nothing));
    let version = get(&server, "/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    // A test runs in a clone, or in the sources of a release, which have no revision.
    let git = Command::new("git").args(["rev-parse", "HEAD", "--show-toplevel"]).output();
    let git = git.ok().filter(|git| git.status.success()).map(|git| String::from_utf8(git.stdout).unwrap());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let revision = git
        .as_ref()
        .and_then(|text| text.trim().split_once('\n'))
        .filter(|(_, top)| std::fs::canonicalize(top).unwrap() == std::fs::canonicalize(root).unwrap());
    assert_eq!(version["revision"].as_str(), revision.map(|(revision, _)| revision));
    let page = get(&server, "/metrics");
    assert!(text(&page).contains(&format!(r#"rowhouse_build_info{{version="{}""#, env!("CARGO_PKG_VERSION"))));
    let data = ask(&server.address, "GET", "/livez", "", "");
    assert_ne!(data.status, 200, "the data port does not serve operators");
}

#[test]
fn a_request_with_a_foreign_host_is_refused() {
    let server = server(&["--in-memory"]);
    let status = |host: &str| {
        let mut client = Client::connect(&server.admin).unwrap();
        client.send(format!("GET /log HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        client.receive().unwrap().status
    };
    assert_eq!(["evil.example:10003", "localhost:1", "127.0.0.1"].map(status), [403, 200, 200]);
}

#[test]
fn a_ready_server_says_so_in_three_forms() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&["--data", folder.path().to_str().unwrap()]);
    assert_eq!(text(&get(&server, "/readyz")), "ok\n");
    let lines = "[+] stage: ok\n[+] storage: ok\n[+] disk: ok\nready\n";
    assert_eq!(text(&get(&server, "/readyz?verbose")), lines);
    assert_eq!(text(&get(&server, "/healthz?a=b&verbose=1")), lines);
    let json = ask(&server.admin, "GET", "/readyz", "Accept: text/html, application/json;q=0.9\r\n", "").json();
    assert_eq!(json["ready"], true);
    assert_eq!(json["checks"][1], serde_json::json!({"name": "storage", "ok": true, "trouble": null}));
}

#[test]
fn a_full_disk_is_reported_and_deletions_still_work() {
    let folder = tempfile::tempdir().unwrap();
    // More than the size of any disk.
    let server = server(&["--data", folder.path().to_str().unwrap(), "--min-free-space", "8000000000"]);
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 503);
    let answer = get(&server, "/readyz");
    assert_eq!(answer.status, 200);
    assert_eq!(text(&answer), "ready, but: too little free space: only deletions are accepted\n");
    let lines = text(&get(&server, "/readyz?verbose")).to_owned();
    assert!(lines.contains("[-] disk: ") && lines.ends_with("\nready\n"), "{lines}");
    let json = ask(&server.admin, "GET", "/readyz", "Accept: application/json\r\n", "").json();
    assert_eq!((&json["ready"], &json["checks"][2]["ok"]), (&true.into(), &false.into()));
    assert_eq!(get(&server, "/livez").status, 200);
    let page = super::page::page(&server);
    assert_eq!(page.count(r#"rowhouse_engine_refuses_writes{reason="disk_full"}"#), 1);
    assert_eq!(page.count("rowhouse_ready"), 0);
}

#[test]
fn the_health_command_follows_the_readiness_endpoint() {
    let server = server(&["--in-memory"]);
    let health = || {
        let mut command = Command::new(PROGRAM.path());
        command.args(["health", "--admin", &server.admin, "--listen", "127.0.0.1:1", "--timeout", "60"]);
        command.output().unwrap().status.success()
    };
    assert!(health());
    server.signal("TERM");
    eventually("the end", || (!health()).then_some(()));
}

#[test]
fn while_requests_finish_the_server_is_alive_and_not_ready() {
    let server = server(&["--in-memory"]);
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    let mut client = server.client();
    let body = br#"{"PartitionKey":"p","RowKey":"r"}"#;
    let length = body.len().to_string();
    // The server sends `100 Continue` when it has started processing the request and waits for the body.
    let headers = [("Content-Length", length.as_str()), ("Expect", "100-continue")];
    client.send(head("POST", "/tab", &headers).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100);
    assert_eq!(get(&server, "/readyz").status, 200);
    server.signal("TERM");
    let answer = eventually("not being ready", || Some(get(&server, "/readyz")).filter(|answer| answer.status == 503));
    assert_eq!(text(&answer), "not ready: the server is stopping\n");
    assert_eq!(get(&server, "/livez").status, 200);
    assert_eq!(super::page::page(&server).count(r#"rowhouse_stage{stage="stopping"}"#), 1);
    client.send(body).unwrap();
    assert_eq!(client.receive().unwrap().status, 201, "the request is completed");
    assert!(server.wait().0.success());
}

#[test]
fn while_the_data_are_opened_the_server_is_alive_and_not_ready() {
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://me@{}/none", database.local_addr().unwrap());
    // The server cannot report a port that it chose, because it does not become ready.
    let port = ReservedPort::new();
    let admin = port.address();
    let mut command = PROGRAM.serve(&["--listen", "127.0.0.1:0", "--admin", &admin, "--store", &store]);
    let mut child = command.spawn().unwrap();
    // The database accepts the connection but sends nothing.
    eventually("the address for operators", || Client::connect(&admin).ok());
    let answer = ask(&admin, "GET", "/readyz?verbose", "", "");
    assert_eq!((answer.status, text(&answer)), (503, "[-] stage: the server is opening\nnot ready\n"));
    assert_eq!(ask(&admin, "GET", "/livez", "", "").status, 200);
    let page = super::page::Page::read(text(&ask(&admin, "GET", "/metrics", "", "")));
    assert_eq!(page.count(r#"rowhouse_stage{stage="opening"}"#), 1);
    assert_eq!(page.count("rowhouse_ready"), 0);
    child.kill().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "", "readiness must not be announced");
    child.wait().unwrap();
}

#[test]
fn the_lines_on_standard_output_keep_their_order() {
    let mut child =
        PROGRAM.serve(&["--in-memory", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(4).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines[0].starts_with("listening on http://127.0.0.1:"), "{lines:?}");
    assert!(lines[1].starts_with("connection string: "), "{lines:?}");
    assert!(lines[2].starts_with("admin on http://127.0.0.1:"), "{lines:?}");
    assert!(lines[3].starts_with("explorer: http://127.0.0.1:"), "{lines:?}");
}

#[test]
fn an_admin_listener_on_the_network_needs_a_flag() {
    let Output { status, stdout, stderr } = PROGRAM.serve(&["--in-memory", "--admin", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stdout), (Some(1), Vec::new()));
    assert!(said.contains("--allow-admin-on-network"), "{said}");
    let open = PROGRAM.start(&["--in-memory", "--admin", "0.0.0.0:0", "--allow-admin-on-network"]);
    let port = open.admin.rsplit(':').next().unwrap();
    assert_eq!(ask(&format!("127.0.0.1:{port}"), "GET", "/livez", "", "").status, 200);
}

#[test]
fn heads_bodies_and_connections_are_bounded() {
    let server = server(&["--in-memory"]);
    let large = format!("X: {}\r\n", "x".repeat(20_000));
    let refused = ask(&server.admin, "GET", "/livez", &large, "");
    assert_eq!(refused.status, 431);
    assert!(text(&refused).starts_with("the URL and the headers of the request have more than "), "{refused:?}");
    let before = text(&get(&server, "/log")).to_owned();
    let answer = ask(&server.admin, "PUT", "/log", "", &"x".repeat(5000));
    assert_eq!(answer.status, 413);
    assert_eq!(text(&get(&server, "/log")), before);
    // There are more connections than the maximum: the one that has been idle longest is closed.
    let mut held: Vec<Client> = (0..ADMIN_CONNECTIONS_MAX).map(|_| Client::connect(&server.admin).unwrap()).collect();
    assert_eq!(ask(&server.admin, "GET", "/livez", "", "").status, 200);
    assert!(held.remove(0).receive().is_err());
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200, "clients are not affected");
}
