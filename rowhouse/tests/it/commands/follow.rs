//! `rowhouse follow`: what it delivers, even if it is killed or deliveries fail.

use super::CommandTest;
use crate::PROGRAM;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use test_support::command::wait_for_exit;
use test_support::{Random, TIMEOUT, eventually, eventually_within};

const KEPT: &[&str] = &["--in-memory", "--keep-log", "1h"];

impl CommandTest {
    fn put(&self, table: &str, partition: &str, row: &str) {
        self.run(0, &["entity", "put", table, partition, row]);
    }

    fn follow(&self, arguments: &[&str]) -> Child {
        self.folder.command("follow", arguments, &[("ROWHOUSE_ENDPOINT", &self.endpoint), PATH]).spawn().unwrap()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path(name)).unwrap_or_default()
    }

    fn recorded(&self, state: &str, feed: &str) -> Option<String> {
        let state: Value = serde_json::from_str(&self.file(state)).ok()?;
        Some(state["tables"][feed]["position"].as_str()?.to_owned())
    }
}

/// The shell looks for programs there.
const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

fn rows(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns operations, tables and keys in short.
fn short(rows: &[Value]) -> Vec<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    let names = ["Operation", "Table", "Entity_PartitionKey", "Entity_RowKey"];
    rows.iter().map(|row| names.map(|name| text(row, name)).join(" ")).collect()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn changes_are_lines_of_json() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "Cars"]);
    test.put("Cars", "p", "1");
    test.run(0, &["table", "create", "boats"]);
    test.run(0, &["entity", "delete", "Cars", "p", "1"]);
    let cars = ["CreateTable Cars - -", "Put Cars p 1", "Delete Cars p 1"];
    let all = ["CreateTable Cars - -", "Put Cars p 1", "CreateTable boats - -", "Delete Cars p 1"];
    let from_start = |more: &[&str]| test.prints(&[&["follow", "--from", "start", "--until-end"], more].concat());
    assert_eq!(short(&rows(&from_start(&["--table", "cars,CARS"]))), cars);
    let everything = rows(&from_start(&[]));
    assert_eq!(short(&everything), all);
    assert_eq!(short(&rows(&from_start(&["--filter", "Operation eq 'Put' or Table eq 'boats'"]))), all[1..3]);
    let position = everything[1]["RowKey"].as_str().unwrap();
    let rest = test.prints(&["follow", "--from", position, "--until-end", "--state", "state"]);
    assert_eq!(short(&rows(&rest)), all[2..]);
    // The state file is more recent than the option.
    assert_eq!(test.prints(&["follow", "--from", "start", "--until-end", "--state", "state"]), "");
    test.put("Cars", "p", "2");
    let rest = test.prints(&["follow", "--until-end", "--state", "state"]);
    assert_eq!(short(&rows(&rest)), ["Put Cars p 2"]);
}

#[test]
fn errors_say_what_to_do() {
    let test = CommandTest::with(KEPT);
    let missing = test.says(4, &["follow", "--table", "missing"]);
    assert!(missing.contains("404 TableNotFound") && missing.contains("create it with"), "{missing}");
    let expired = test.says(6, &["follow", "--from", "00000000000000004711-000"]);
    assert!(expired.contains("410 PositionExpired") && expired.contains("exit code 6"), "{expired}");
    for words in [&["--from", "yesterday"][..], &["--exec", "x", "--webhook", "http://h/"], &["--batch", "5"]] {
        test.run(2, &[&["follow"], words].concat());
    }
    test.says(1, &["follow", "--webhook", "ftp://h/"]);
    let with_user = test.says(1, &["follow", "--webhook", "http://user:secret@h/"]);
    assert!(with_user.contains("must not contain a user name") && !with_user.contains("secret@"), "{with_user}");
    let without = CommandTest::new();
    let refused = without.says(1, &["follow"]);
    assert!(refused.contains("serve --keep-log"), "{refused}");
    // A state file of another service.
    test.run(0, &["follow", "--until-end", "--state", "state"]);
    std::fs::copy(test.folder.path("state"), without.folder.path("state")).unwrap();
    let other = without.says(1, &["follow", "--state", "state"]);
    assert!(other.contains("belongs to"), "{other}");
}

#[test]
fn no_change_is_lost_if_the_command_is_killed() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "orders"]);
    let random = &mut Random::from_environment("ROWHOUSE_FOLLOW_SEED");
    let arguments = ["--table", "orders", "--state", "state", "--exec", "cat >> delivered"];
    let mut follower = test.follow(&arguments);
    eventually("the position at which the command began", || test.recorded("state", "orders"));
    let mut client = test.server.client();
    let mut written = Vec::new();
    for number in 0..200 {
        if random.below(12) == 0 {
            thread::sleep(Duration::from_millis(random.below(40)));
            signal(&follower, "-KILL");
            follower.wait().unwrap();
            follower = test.follow(&arguments);
        }
        let (partition, row) = (format!("p{}", random.below(4)), format!("{number:04}"));
        let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
        let headers = [("Content-Type", "application/json")];
        assert_eq!(client.request("POST", "/orders", &headers, body.as_bytes()).status, 201);
        written.push(format!("Put orders {partition} {row}"));
    }
    let last = written.last().unwrap().clone();
    let last = format!("\"Entity_RowKey\":\"{}\"", last.rsplit(' ').next().unwrap());
    // Each delivery starts a process.
    eventually_within(5 * TIMEOUT, "the last change", || test.file("delivered").contains(&last).then_some(()));
    signal(&follower, "-TERM");
    let ended = wait_for_exit(follower);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // Each change was delivered, and for the first time in order.
    let mut delivered = short(&rows(&test.file("delivered")));
    let count = delivered.len();
    let mut seen = std::collections::BTreeSet::new();
    delivered.retain(|change| seen.insert(change.clone()));
    assert_eq!(delivered, written);
    println!("{count} deliveries of {} changes", written.len());
}

#[test]
fn only_one_process_uses_a_state_file() {
    let test = CommandTest::with(KEPT);
    let follow = |feed| test.follow(&["--state", "state", "--table", feed]);
    for table in ["orders", "invoices"] {
        test.run(0, &["table", "create", table]);
    }
    let first = follow("orders");
    eventually("the position at which the command began", || test.recorded("state", "orders"));
    let refused = wait_for_exit(follow("invoices"));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is using the state file state"), "{refused:?}");
    signal(&first, "-KILL");
    wait_for_exit(first);
    let second = follow("invoices");
    eventually("the position of the second feed", || test.recorded("state", "invoices"));
    signal(&second, "-TERM");
    assert_eq!(wait_for_exit(second).code, Some(0));
    assert!(test.recorded("state", "orders").is_some());
}

/// A webhook that responds with the given statuses and headers, or complete responses, and then with success. Returns
/// its URL and the bodies.
fn webhook(responses: &'static [&'static str]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?code=secret", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    // The thread stops with the test process.
    thread::spawn(move || {
        let mut responses = responses.iter();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let _ = sender.send(String::from_utf8(body).unwrap());
            let response = responses.next().unwrap_or(&"204 No Content\r\n");
            let end = if response.contains("\r\n\r\n") { "" } else { "Content-Length: 0\r\nConnection: close\r\n\r\n" };
            let _ = write!(stream.get_mut(), "HTTP/1.1 {response}{end}");
        }
    });
    (url, bodies)
}

#[test]
fn a_webhook_gets_a_change_until_it_accepts_it() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "orders"]);
    for row in ["1", "2", "3"] {
        test.put("orders", "p", row);
    }
    let from_start = ["follow", "--from", "start", "--until-end", "--webhook"];
    let (url, bodies) = webhook(&["500 Failed\r\n", "503 Busy\r\nRetry-After: 1\r\n"]);
    let ran = test.run(0, &[&from_start[..], &[&url]].concat());
    assert_eq!(ran.stdout, "");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("trying again in 0.2 s"), "{lines:?}");
    assert!(lines[1].contains("503") && lines[1].ends_with("trying again in 1.0 s"), "{lines:?}");
    assert!(!ran.stderr.contains("secret"));
    let bodies: Vec<Value> = bodies.try_iter().map(|body| serde_json::from_str(&body).unwrap()).collect();
    let expected = ["CreateTable orders - -", "Put orders p 1", "Put orders p 2", "Put orders p 3"];
    assert_eq!(short(&bodies[2..]), expected);
    assert_eq!((&bodies[0], &bodies[1]), (&bodies[2], &bodies[2]));

    // A connection that fails at the beginning may mean that the URL is wrong, so not even a dead letter is written.
    let nowhere = "http://127.0.0.1:1/hook?code=secret";
    let options = ["--state", "state", "--dead-letters", "dead"];
    let ran = test.run(1, &[&from_start[..], &[nowhere], &options].concat());
    let told = "rowhouse: --webhook http://127.0.0.1:1: connecting failed: Connection refused (os error 111) (is the program \
                that receives the changes running?)\n";
    assert_eq!((ran.stderr.as_str(), test.file("dead").as_str()), (told, ""));
    assert_eq!(test.recorded("state", "*"), None);

    // A batch that is refused is delivered one by one.
    let (url, bodies) = webhook(&["400 No\r\n", "204 No Content\r\n", "400 No\r\n"]);
    let options = ["--batch", "10", "--attempts", "1", "--dead-letters", "dead", "--state", "state"];
    test.run(0, &[&from_start[..], &[&url], &options].concat());
    let batches: Vec<Vec<Value>> = bodies.try_iter().map(|body| serde_json::from_str(&body).unwrap()).collect();
    assert_eq!(short(&batches[0]), expected);
    assert_eq!(short(&batches[1..].concat()), expected);
    let dead = rows(&test.file("dead"));
    assert_eq!((dead.len(), &dead[0]["change"]), (1, &batches[2][0]));
    assert_eq!(dead[0]["error"], "the webhook responded with 400 Bad Request");
    assert!(test.recorded("state", "*").is_some());
}

#[test]
fn without_a_file_of_dead_letters_the_command_fails_and_loses_nothing() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "orders"]);
    test.put("orders", "p", "1");
    let follow = |command| {
        ["follow", "--from", "start", "--until-end", "--state", "state", "--attempts", "1", "--exec", command]
    };
    let failed = test.run(1, &follow("grep -q CreateTable"));
    assert!(failed.stderr.contains("could not be delivered"), "{failed:?}");
    test.run(0, &follow("cat >> delivered"));
    assert_eq!(short(&rows(&test.file("delivered"))), ["Put orders p 1"]);
}

#[test]
fn a_signal_ends_the_command_after_the_delivery() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "orders"]);
    let wait = "touch began; until test -e go; do sleep 0.01; done; cat >> delivered";
    let follower = test.follow(&["--from", "start", "--state", "state", "--exec", wait]);
    eventually("a delivery", || std::fs::exists(test.folder.path("began")).unwrap().then_some(()));
    test.put("orders", "p", "1");
    signal(&follower, "-TERM");
    std::fs::write(test.folder.path("go"), "").unwrap();
    let ended = wait_for_exit(follower);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(short(&rows(&test.file("delivered"))), ["CreateTable orders - -"]);
    let rest = test.prints(&["follow", "--until-end", "--state", "state"]);
    assert_eq!(short(&rows(&rest)), ["Put orders p 1"]);
}

#[test]
fn an_outage_after_a_quiet_time_does_not_end_the_command() {
    const PAGE: &str = "200 OK\r\nx-ms-rowhouse-position: 00000000000000004711-002\r\n\
        Content-Type: application/json\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{\"value\":[]}";
    const BUSY: &str = "503 Busy\r\n";
    let run = |service: &str| {
        let arguments = ["--from", "00000000000000004711-002"];
        PROGRAM.folder().command("follow", &arguments, &[("ROWHOUSE_ENDPOINT", service)]).spawn().unwrap()
    };
    let service =
        |responses: &'static [&'static str]| webhook(responses).0.replace("hook?code=secret", "devstoreaccount1");
    let mut responses = vec![PAGE];
    responses.resize(100, BUSY);
    let mut follower = run(&service(responses.leak()));
    let mut line = String::new();
    BufReader::new(follower.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for http://") && line.ends_with(": it responds with 503\n"), "{line}");
    signal(&follower, "-TERM");
    assert_eq!(wait_for_exit(follower).code, Some(0));
    // At the beginning, the options may be wrong.
    assert_eq!(wait_for_exit(run(&service(&[BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY]))).code, Some(1));
}

#[test]
fn a_signal_ends_the_command_even_if_its_output_is_not_read() {
    let test = CommandTest::with(KEPT);
    test.run(0, &["table", "create", "orders"]);
    let mut client = test.server.client();
    // Together, the changes are larger than the buffer of a pipe.
    for row in 0..8 {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"Text\":\"{}\"}}", "x".repeat(30_000));
        let headers = [("Content-Type", "application/json")];
        assert_eq!(client.request("POST", "/orders", &headers, body.as_bytes()).status, 201);
    }
    let mut follower = test.follow(&["--from", "start", "--state", "state"]);
    let mut output = follower.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    signal(&follower, "-TERM");
    let status = eventually("the end of the command", || follower.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(test.recorded("state", "*"), None);
}
