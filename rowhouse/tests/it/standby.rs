//! Tests of warm standbys: following, promotion, a former primary that is told, and base copies: several at once, and
//! with lost responses, restarts and kills.

use crate::PROGRAM;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use test_support::command::CommandResult;
use test_support::content::{create_table, exact_snapshot, fill, put};
use test_support::proxy::Proxy;
use test_support::{Client, ReservedPort, Server, TIMEOUT, eventually};

/// Part of each request for a chunk of a base copy.
const CHUNK: &str = r#""ask":"chunk""#;
const STATS: &str = "-secondary/?restype=service&comp=stats";

/// The folders of primaries and standbys.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.at("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
        place
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn primary(&self, name: &str, more: &[&str]) -> Server {
        let (data, token) = (self.at(name), self.at("token"));
        let arguments = ["--data", &data, "--keep-log", "1h", "--standby-token-file", &token, "--admin", "127.0.0.1:0"];
        PROGRAM.start(&[&arguments[..], more].concat())
    }

    fn standby(&self, of: &Server, name: &str) -> Server {
        self.standby_of(&of.address, name, &[])
    }

    /// Starts a standby of the primary at an address, and waits until it has its base copy.
    pub(crate) fn standby_of(&self, address: &str, name: &str, more: &[&str]) -> Server {
        let (data, token, of) = (self.at(name), self.at("token"), format!("http://{address}"));
        let arguments = ["--of", &of, "--token-file", &token, "--data", &data, "--admin", "127.0.0.1:0"];
        PROGRAM.start_standby(&[&arguments[..], more].concat())
    }

    /// Promotes a folder, and tells the former primary at an address.
    pub(crate) fn promote(&self, name: &str, former: Option<&str>) -> CommandResult {
        let (data, token) = (self.at(name), self.at("token"));
        let former = former.map(|address| format!("http://{address}"));
        let mut arguments = vec!["--data", &data];
        if let Some(former) = &former {
            arguments.extend(["--former", former, "--token-file", &token]);
        }
        PROGRAM.folder().run("promote", &arguments, &[])
    }

    /// Starts a standby without waiting.
    fn copying_standby(&self, of: &str, name: &str) -> Copying {
        let (data, token, of) = (self.at(name), self.at("token"), format!("http://{of}"));
        let arguments = ["standby", "--of", &of, "--token-file", &token, "--data", &data, "--listen", "127.0.0.1:0"];
        let mut child = PROGRAM.command(&arguments).spawn().unwrap();
        let (sender, log) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Copying { child, log }
    }

    fn promote_despite_loss(&self, name: &str) -> String {
        let result = PROGRAM.folder().run("promote", &["--data", &self.at(name), "--despite-loss"], &[]);
        assert_eq!(result.code, Some(0), "{result:?}");
        result.stdout
    }

    /// Checks that a promotion ends with an exit code, and reports what it should.
    fn promotes(&self, name: &str, former: Option<&Server>, code: i32, told: &[&str]) {
        let result = self.promote(name, former.map(|former| former.address.as_str()));
        assert_eq!(result.code, Some(code), "{result:?}");
        for told in told {
            assert!(result.stdout.contains(told) || result.stderr.contains(told), "{told}: {result:?}");
        }
    }
}

/// A standby that receives its base copy.
struct Copying {
    child: Child,
    log: Receiver<String>,
}

impl Copying {
    fn wait_for_log(&self, text: &str) -> String {
        loop {
            let line = self.log.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("the log does not contain: {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn ask_admin(server: &Server, path: &str) -> (u16, String) {
    let mut admin = Client::connect(&server.admin).unwrap();
    admin.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.admin).as_bytes()).unwrap();
    let answer = admin.receive().unwrap();
    (answer.status, String::from_utf8(answer.body).unwrap())
}

fn wait_until_same(primary: &Server, standby: &Server) {
    eventually("the same data", || (exact_snapshot(primary) == exact_snapshot(standby)).then_some(()));
}

fn code(client: &mut Client, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = client.request(method, path, &[], body.as_bytes());
    (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
}

/// Returns the Last Sync Time in the statistics.
fn last_sync(client: &mut Client) -> Option<SystemTime> {
    let text = String::from_utf8(client.request("GET", STATS, &[], b"").body).unwrap();
    let time = text.split_once("<LastSyncTime>")?.1.split_once("</LastSyncTime>")?.0;
    httpdate::parse_http_date(time).ok()
}

/// Returns the age of a response in seconds.
fn age(client: &mut Client) -> Option<u64> {
    client.request("GET", "/Tables", &[], b"").header("x-ms-rowhouse-age")?.parse().ok()
}

#[test]
fn a_standby_follows_and_takes_over() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    fill(&first, "early", 3, 50);
    let second = place.standby(&first, "second");
    wait_until_same(&first, &second);
    create_table(&mut first.client(), "late");
    put(&mut first.client(), "late", "p", "r", &serde_json::json!({ "Number": 1 }));
    wait_until_same(&first, &second);

    let mut client = second.client();
    assert_eq!(code(&mut client, "GET", "-secondary/late()", "").0, 200);
    let refused = (403, "InsufficientAccountPermissions".to_owned());
    assert_eq!(code(&mut client, "POST", "/Tables", r#"{"TableName":"mine"}"#), refused);
    assert_eq!(code(&mut client, "POST", "/late", r#"{"PartitionKey":"a","RowKey":"b"}"#), refused);
    let synced = eventually("the last sync", || last_sync(&mut client));
    assert!(synced.elapsed().unwrap() < TIMEOUT);
    assert!(age(&mut client).is_some());
    assert_eq!(age(&mut first.client()), None, "a primary is up to date");
    let (_, metrics) = ask_admin(&second, "/metrics");
    assert!(metrics.contains("rowhouse_replication_epoch 1"), "{metrics}");
    assert!(metrics.contains("rowhouse_replication_lag_transactions 0"), "{metrics}");

    let (status, state) = ask_admin(&second, "/readyz");
    assert_eq!(status, 200, "it can be read");
    assert!(state.starts_with("ok: this server is a standby: it lacks 0 transactions"), "{state}");
    let (status, state) = ask_admin(&second, "/readyz?primary");
    assert_eq!(status, 503, "it cannot be written");
    assert!(state.starts_with("not ready: this server is a standby"), "{state}");
    let result = PROGRAM.folder().run("health", &["--admin", &second.admin], &[]);
    assert_eq!(result.code, Some(0), "{result:?}");
    assert!(result.stdout.contains("this server is a standby"), "{result:?}");
    let result = PROGRAM.folder().run("health", &["--admin", &second.admin, "--primary"], &[]);
    assert_eq!(result.code, Some(1), "{result:?}");
    // The primary may hear of the last transaction later than the readers of the standby.
    let confirmed = (200, "ok: a standby is connected, and lacks 0 transactions\n".to_owned());
    eventually("the confirmation", || (ask_admin(&first, "/readyz?primary") == confirmed).then_some(()));
    let (_, metrics) = ask_admin(&first, "/metrics");
    assert!(metrics.contains(r#"rowhouse_requests_total{operation="Replication",status="200",code=""}"#), "{metrics}");
    assert!(!metrics.contains("Explorer"), "{metrics}");

    // The primary crashes. Its standby continues to serve, and its Last Sync Time no longer advances.
    let before = exact_snapshot(&first);
    let former = first.address.clone();
    drop(first.kill9());
    second.wait_for_log("cannot follow");
    let (status, state) = ask_admin(&second, "/readyz");
    assert_eq!(status, 200);
    assert!(state.starts_with("ready, but: this server is a standby: it is not connected"), "{state}");
    assert!(exact_snapshot(&second) == before);
    let stopped_at = last_sync(&mut client);
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(last_sync(&mut client), stopped_at);
    assert!(age(&mut client).is_some_and(|age| age >= 2), "its responses become older");
    second.stop_cleanly();
    place.promotes("second", None, 0, &["promoted: epoch 2", "the last write in the folder is of 20"]);
    // The usual case: the former primary is lost.
    let lost = place.promote("second", Some(&former));
    assert_eq!((lost.code, lost.stderr.as_str()), (Some(3), ""), "{lost:?}");
    for part in ["is promoted already", "was not told: ", "the folder can be served"] {
        assert!(lost.stdout.contains(part), "{part}: {lost:?}");
    }
    let second = place.primary("second", &[]);
    assert!(exact_snapshot(&second) == before);
    put(&mut second.client(), "late", "p", "new", &serde_json::json!({ "Number": 2 }));

    // The former primary comes back, and is told.
    let first = place.primary("first", &[]);
    place.promotes("second", Some(&first), 0, &[]);
    assert_eq!(code(&mut first.client(), "POST", "/late", r#"{"PartitionKey":"a","RowKey":"b"}"#), refused);
    assert_eq!(code(&mut first.client(), "GET", "/late()", "").0, 200);
    let (status, state) = ask_admin(&first, "/readyz");
    assert_eq!((status, state.as_str()), (503, "not ready: a standby was promoted, so this server is out of date\n"));
    first.stop();
    let again = PROGRAM.folder().run("serve", &["--data", &place.at("first"), "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("a standby was promoted in epoch 2"), "{}", again.stderr);
    // The promoted server is no former primary.
    place.promotes("second", Some(&second), 3, &["it may be the promoted server itself"]);
}

#[test]
fn without_its_standby_a_waiting_primary_refuses_writes() {
    let place = Place::new();
    // The standby confirms a write within this time, also on a busy machine.
    let first = place.primary("first", &["--acknowledge", "standby", "--acknowledge-seconds", "5"]);
    let second = place.standby(&first, "second");
    create_table(&mut first.client(), "table1");
    put(&mut first.client(), "table1", "p", "one", &serde_json::json!({}));
    assert_eq!(exact_snapshot(&second), exact_snapshot(&first), "what is acknowledged is on the standby");
    drop(second.kill9());
    let insert = r#"{"PartitionKey":"p","RowKey":"two"}"#;
    assert_eq!(code(&mut first.client(), "POST", "/table1", insert), (500, "OperationTimedOut".to_owned()));
    assert_eq!(code(&mut first.client(), "GET", "/table1(PartitionKey='p',RowKey='two')", "").0, 404);
    let busy = (503, "ServerBusy".to_owned());
    assert_eq!(code(&mut first.client(), "POST", "/table1", r#"{"PartitionKey":"p","RowKey":"three"}"#), busy);
    first.wait_for_log("the standby has not confirmed the last write");
    let (status, state) = ask_admin(&first, "/readyz?primary");
    assert_eq!(status, 200, "the standby must reach it: {state}");
    assert!(state.starts_with("ready, but: the standby is away: no write is accepted"), "{state}");
    assert!(ask_admin(&first, "/metrics").1.contains(r#"rowhouse_engine_refuses_writes{reason="unconfirmed"} 1"#));
    let second = place.standby(&first, "second");
    let four = r#"{"PartitionKey":"p","RowKey":"four"}"#;
    eventually("a write", || (code(&mut first.client(), "POST", "/table1", four).0 == 201).then_some(()));
    wait_until_same(&first, &second);
}

#[test]
fn a_standby_that_was_replaced_is_not_promoted() {
    let place = Place::new();
    let first = place.primary("first", &["--acknowledge", "standby"]);
    let second = place.standby(&first, "second");
    create_table(&mut first.client(), "table1");
    second.wait_for_log("the primary waits for this standby");
    let third = place.standby_of(&first.address, "third", &["--replace"]);
    third.wait_for_log("the primary waits for this standby");
    put(&mut first.client(), "table1", "p", "one", &serde_json::json!({}));
    second.wait_for_log("the primary does not wait for this standby");
    for server in [first, second, third] {
        server.stop_cleanly();
    }
    place.promotes("second", None, 1, &["may lack writes that were acknowledged"]);
    place.promotes("third", None, 0, &[]);
    assert!(place.promote_despite_loss("second").contains("its last writes may be missing"));
}

/// Asks a server as another server does, with the token.
fn ask_as_server(place: &Place, server: &Server, token: &str, ask: &serde_json::Value) -> u16 {
    let token = std::fs::read_to_string(place.at(token)).unwrap();
    let mut client = Client::connect(&server.address).unwrap();
    let head = format!("Host: {}\r\nAuthorization: Bearer {}\r\nx-rowhouse-ask: {ask}", server.address, token.trim());
    client.send(format!("GET /_rowhouse-replication HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).unwrap();
    client.receive().unwrap().status
}

#[test]
fn the_token_is_not_sent_in_clear_text_to_another_machine() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    drop(place.standby(&first, "second").stop());
    let (data, token, new) = (place.at("second"), place.at("token"), place.at("new"));
    // Names that resolve nowhere: a request would fail with a different message.
    let of = "http://primary.invalid:10002";
    for (command, arguments) in [
        ("standby", ["--of", of, "--token-file", &token, "--data", &new, "--listen", "127.0.0.1:0"].as_slice()),
        ("promote", &["--data", &data, "--former", of, "--token-file", &token]),
    ] {
        let result = PROGRAM.folder().run(command, arguments, &[]);
        assert_eq!(result.code, Some(1), "{result:?}");
        assert!(result.stderr.contains("plain HTTP to another machine would reveal the token"), "{result:?}");
    }
    // It is refused before anything is changed.
    place.promotes("second", None, 0, &[]);
}

#[test]
fn a_standby_answers_only_servers_with_the_token() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    let second = place.standby(&first, "second");
    std::fs::write(place.at("other"), "another-token-which-is-wrong").unwrap();
    let ask = serde_json::json!({ "ask": "begin", "standby": "0".repeat(32), "replaces": false });
    assert_eq!(ask_as_server(&place, &second, "other", &ask), 401);
    assert_eq!(ask_as_server(&place, &second, "token", &ask), 409);
}

#[test]
fn a_primary_that_was_fenced_without_a_promotion_comes_back() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    create_table(&mut first.client(), "cars");
    put(&mut first.client(), "cars", "p", "one", &serde_json::json!({}));
    let before = exact_snapshot(&first);
    let state = std::fs::read_to_string(format!("{}/rowhouse.replication", place.at("first"))).unwrap();
    let log = state.lines().find_map(|line| line.strip_prefix("log ")).unwrap().to_owned();
    // Whoever has the token can say that a standby was promoted.
    let fence = |number: u64| serde_json::json!({ "ask": "fence", "log": log, "epoch": [number, 2, "0".repeat(32)] });
    assert_eq!(ask_as_server(&place, &first, "token", &fence(9)), 200);
    assert_eq!(code(&mut first.client(), "POST", "/cars", r#"{"PartitionKey":"a","RowKey":"b"}"#).0, 403);
    first.stop_cleanly();
    place.promotes("first", None, 1, &["`rowhouse promote --despite-loss` makes this folder the primary again"]);
    let report = place.promote_despite_loss("first");
    for line in ["promoted: epoch 10", "promoted in epoch 9 is not here", "the transactions from 2 to "] {
        assert!(report.contains(line), "{line}: {report}");
    }
    let first = place.primary("first", &[]);
    assert!(exact_snapshot(&first) == before);
    // The same request does not fence it again.
    assert_eq!(ask_as_server(&place, &first, "token", &fence(9)), 200);
    put(&mut first.client(), "cars", "p", "two", &serde_json::json!({}));
}

#[test]
fn a_standby_that_is_cut_off_is_not_ready_and_not_promoted_unasked() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    create_table(&mut first.client(), "cars");
    let second = place.standby(&first, "second");
    wait_until_same(&first, &second);
    first.stop_cleanly();
    // The primary is restored from an old copy of its folder.
    let copied = Command::new("cp").args(["-r", &place.at("first"), &place.at("old")]).status().unwrap();
    assert!(copied.success());
    drop(second.stop());
    let first = place.primary("first", &[]);
    put(&mut first.client(), "cars", "p", "later", &serde_json::json!({}));
    let second = place.standby(&first, "second");
    wait_until_same(&first, &second);
    assert!(second.stop().0.success() && first.stop().0.success());
    let old = place.primary("old", &[]);
    let second = place.standby(&old, "second");
    second.wait_for_log("can never follow its primary again");
    let (status, state) = ask_admin(&second, "/readyz");
    assert_eq!(status, 503, "{state}");
    assert!(state.starts_with("not ready: this standby can never follow its primary again"), "{state}");
    let (_, metrics) = ask_admin(&second, "/metrics");
    assert!(metrics.contains("rowhouse_replication_cut_off 1"), "{metrics}");
    assert_eq!(code(&mut second.client(), "GET", "/cars()", "").0, 200, "what it has can be read");
    second.stop_cleanly();
    place.promotes("second", None, 1, &["could not follow its primary any more", "its last write is of 20"]);
    assert!(place.promote_despite_loss("second").contains("later writes are missing"));
}

#[test]
fn a_standby_does_not_fill_its_disk() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    create_table(&mut first.client(), "cars");
    drop(place.standby(&first, "second").stop());
    // More than the size of any disk.
    let second = place.standby_of(&first.address, "second", &["--min-free-space", "8000000000"]);
    let before = exact_snapshot(&second);
    put(&mut first.client(), "cars", "p", "later", &serde_json::json!({}));
    second.wait_for_log("less free space than --min-free-space");
    assert!(exact_snapshot(&second) == before);
    let (status, state) = ask_admin(&second, "/readyz");
    assert_eq!(status, 200, "what it has can be read");
    assert_eq!(state, "ready, but: too little free space: this standby does not follow its primary\n");
    second.stop_cleanly();
    let second = place.standby(&first, "second");
    wait_until_same(&first, &second);
}

/// Writes `ca.pem`, the certificate of a private authority, and a certificate for `localhost` with its key.
fn write_certificates(place: &Place) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(place.at("ca.pem"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    std::fs::write(place.at("good.pem"), server.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(place.at("good.key"), key.serialize_pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.at("other.pem"), other.cert.pem()).unwrap();
    std::fs::write(place.at("other.key"), other.signing_key.serialize_pem()).unwrap();
}

#[test]
fn a_standby_checks_the_certificate_of_its_primary() {
    let place = Place::new();
    write_certificates(&place);
    // The primary is started again at the same address.
    let port = ReservedPort::new();
    let (listen, of) = (port.address(), format!("https://localhost:{}", port.number()));
    let primary = |name: &str| {
        let (certificate, key) = (place.at(&format!("{name}.pem")), place.at(&format!("{name}.key")));
        let (data, token) = (place.at("first"), place.at("token"));
        let arguments = ["--listen", &listen, "--data", &data, "--keep-log", "1h", "--standby-token-file", &token];
        PROGRAM.start(&[&arguments[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat())
    };
    let authority = place.at("ca.pem");
    let trusting = [("SSL_CERT_FILE", authority.as_str())];
    let create = |name: &str| {
        let endpoint = format!("{of}/devstoreaccount1");
        let result = PROGRAM.folder().run("table", &["create", name, "--endpoint", &endpoint], &trusting);
        assert_eq!(result.code, Some(0), "{result:?}");
    };
    let has = |standby: &Server, name: &str| code(&mut standby.client(), "GET", &format!("/{name}()"), "").0 == 200;

    let first = primary("good");
    let (data, token) = (place.at("second"), place.at("token"));
    let arguments = |of| ["--of", of, "--token-file", &token, "--data", &data];
    let by_ip = of.replace("localhost", "127.0.0.1");
    for (of, trusted, told) in [
        (&of, "other.pem", "does not trust the issuer of the server's certificate"),
        (&by_ip, "ca.pem", "is for another host name"),
    ] {
        let trusted = place.at(trusted);
        let arguments = [&arguments(of)[..], &["--listen", "127.0.0.1:0"]].concat();
        let result = PROGRAM.folder().run("standby", &arguments, &[("SSL_CERT_FILE", trusted.as_str())]);
        assert_eq!(result.code, Some(1), "{result:?}");
        assert!(result.stderr.contains(told), "{result:?}");
    }
    let second = PROGRAM.start_standby_with(&arguments(&of), |command| {
        command.envs(trusting);
    });
    create("early");
    eventually("the table", || has(&second, "early").then_some(()));
    first.stop();
    let first = primary("other");
    second.wait_for_log("does not trust the issuer of the server's certificate");
    first.stop();
    let first = primary("good");
    create("late");
    eventually("the other table", || has(&second, "late").then_some(()));

    second.stop_cleanly();
    let promote = |trusted: &str| {
        let arguments = ["--data", &data, "--former", &of, "--token-file", &token];
        PROGRAM.folder().run("promote", &arguments, &[("SSL_CERT_FILE", &place.at(trusted))])
    };
    let result = promote("other.pem");
    assert!(result.code == Some(3) && result.stdout.contains("does not trust the issuer"), "{result:?}");
    let result = promote("ca.pem");
    assert_eq!(result.code, Some(0), "{result:?}");
    first.wait_for_log("nothing may be written to this server any more");
}

#[test]
fn a_standby_needs_the_token_and_the_right_folder() {
    let place = Place::new();
    let first = place.primary("first", &[]);
    std::fs::write(place.at("other"), "another token, which is wrong").unwrap();
    let of = format!("http://{}", first.address);
    let run_with = |of: &str, data: &str, token: &str| {
        let (data, token) = (place.at(data), place.at(token));
        let arguments = ["--of", of, "--token-file", &token, "--data", &data, "--listen", "127.0.0.1:0"];
        let result = PROGRAM.folder().run("standby", &arguments, &[]);
        assert_eq!(result.code, Some(1), "{result:?}");
        result.stderr
    };
    let run = |data: &str, token: &str| run_with(&of, data, token);
    assert!(run("new", "other").contains("must contain one line with a token"));
    std::fs::write(place.at("other"), "another-token-which-is-wrong").unwrap();
    assert!(run("new", "other").contains("the primary does not accept the token"));
    let line = first.wait_for_log("without the right token");
    assert!(line.contains("127.0.0.1:") && !line.contains("another-token"), "{line}");
    let (_, metrics) = ask_admin(&first, "/metrics");
    for line in [
        r#"rowhouse_authentication_failures_total{kind="bearer"} 1"#,
        r#"rowhouse_requests_total{operation="Replication",status="401",code="InvalidAuthenticationInfo"} 1"#,
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(run("first", "token").contains("is not a standby"));
    let closed = PROGRAM.start(&["--data", &place.at("closed")]);
    let told = run_with(&format!("http://{}", closed.address), "new", "token");
    assert!(told.contains("start it with --standby-token-file"), "{told}");
    // A folder with contents is refused before a request is sent, which would fail here.
    closed.stop();
    std::fs::create_dir(place.at("foreign")).unwrap();
    std::fs::write(place.at("foreign/file"), "content").unwrap();
    for (data, reason) in
        [("closed", "already contains data"), ("foreign", "contains files but is not a Rowhouse data folder")]
    {
        let told = run_with("https://primary.invalid", data, "token");
        assert!(told.contains(reason), "{told}");
    }
    place.promotes("first", None, 1, &["is not a standby"]);
}

/// Stores a number of entities of half a megabyte.
fn fill_large(client: &mut Client, rows: usize) {
    create_table(client, "large");
    let text = "x".repeat(30_000);
    let properties: serde_json::Map<String, _> =
        (0..8).map(|number| (format!("Text{number}"), text.clone().into())).collect();
    for row in 0..rows {
        put(client, "large", "p", &format!("{row:03}"), &properties.clone().into());
    }
}

/// Returns the value of a field in a line of the log.
fn number(line: &str, field: &str) -> usize {
    let rest = line.split_once(&format!("{field}=")).unwrap_or_else(|| panic!("{line}")).1;
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn standbys_that_start_together_all_finish_while_clients_write() {
    let place = Place::new();
    let primary = place.primary("primary", &[]);
    fill_large(&mut primary.client(), 20);
    let (proxy, is_done) = (Proxy::holding(&primary.address, CHUNK, 2), AtomicBool::new(false));
    let (address, mut client) = (primary.address.clone(), primary.client());
    let standbys = thread::scope(|scope| {
        let (address, is_done, place) = (&address, &is_done, &place);
        let writer = scope.spawn(move || {
            for row in 0.. {
                put(&mut client, "large", "q", &(row % 1000).to_string(), &serde_json::json!({ "Number": row }));
                if is_done.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        // A standby is killed in the middle of its copy, and starts again together with the others.
        let killed = place.copying_standby(&proxy.address, "third");
        proxy.wait_until_held();
        drop(killed);
        let started =
            ["first", "second", "third"].map(|name| scope.spawn(move || place.standby_of(address, name, &[])));
        let standbys = started.map(|standby| standby.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        standbys
    });
    for standby in &standbys {
        wait_until_same(&primary, standby);
    }
    // Their copies are not kept any longer: a standby that starts again follows.
    let [first, ..] = standbys;
    first.stop_cleanly();
    wait_until_same(&primary, &place.standby(&primary, "first"));
}

#[test]
fn lost_requests_and_responses_do_not_end_a_base_copy() {
    let place = Place::new();
    let primary = place.primary("primary", &[]);
    fill_large(&mut primary.client(), 16);
    let proxy = Proxy::start(&primary.address, 2);
    let standby = place.standby_of(&proxy.address, "standby", &[]);
    standby.wait_for_log(&format!("cannot continue the base copy from http://{}", proxy.address));
    assert!(proxy.counts.dropped_answers.load(Ordering::SeqCst) > 0);
    wait_until_same(&primary, &standby);
}

#[test]
fn a_standby_that_is_killed_continues_its_base_copy() {
    let place = Place::new();
    let primary = place.primary("primary", &[]);
    let rows = 120;
    fill_large(&mut primary.client(), rows);
    // More than a memtable of 16 MiB is received before the kill.
    let proxy = Proxy::holding(&primary.address, CHUNK, 24);
    let killed = place.copying_standby(&proxy.address, "standby");
    proxy.wait_until_held();
    drop(killed);
    let standby = place.standby(&primary, "standby");
    standby.wait_for_log("continuing the base copy");
    let received = number(&standby.wait_for_log("the base copy is complete"), "bytes");
    let all = rows * 8 * 30_000;
    assert!(received < all - 15_000_000, "{received} of {all} bytes were sent to the second process");
    wait_until_same(&primary, &standby);
}

#[test]
fn a_base_copy_begins_again_when_the_primary_was_restarted() {
    let (place, port) = (Place::new(), ReservedPort::new());
    // The primary is started again at the same address.
    let start = || place.primary("primary", &["--listen", &port.address()]);
    let primary = start();
    fill_large(&mut primary.client(), 16);
    let address = primary.address.clone();
    let proxy = Proxy::holding(&address, CHUNK, 2);
    let copying = place.copying_standby(&proxy.address, "standby");
    proxy.wait_until_held();
    drop(primary.kill9());
    proxy.release();
    copying.wait_for_log("cannot continue the base copy");
    let primary = start();
    create_table(&mut primary.client(), "later");
    copying.wait_for_log("the standby begins again");
    copying.wait_for_log("the base copy is complete");
    copying.wait_for_log("following");
    drop(copying);
    let standby = place.standby(&primary, "standby");
    wait_until_same(&primary, &standby);
}
