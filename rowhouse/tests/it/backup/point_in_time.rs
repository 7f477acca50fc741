//! Tests of `backup --follow` and `restore --to` with a running server.

use super::repository::Place;
use crate::PROGRAM;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use test_support::Server;
use test_support::command::{endpoint, interrupt_and_wait};
use test_support::content::{create_table, exact_snapshot, fill, fill_with_everything, put, snapshot};

const ROUNDS: u64 = 10;
const TIMEOUT: Duration = Duration::from_mins(1);

fn serve(place: &Place) -> Server {
    PROGRAM.start(&["--data", &place.data, "--keep-log", "1h"])
}

fn follow(place: &Place) -> Child {
    follow_folder(place, &place.data)
}

fn follow_folder(place: &Place, data: &str) -> Child {
    let arguments = ["--data", data, "--to", &place.repository, "--follow", "--every", "1s", "--quiet"];
    place.folder.command("backup", &arguments, &[]).spawn().unwrap()
}

fn newest(place: &Place) -> Option<Value> {
    if !Path::new(&place.repository).exists() {
        return None;
    }
    let ran = place.folder.run("backup", &["--list", &place.repository, "--json"], &[]);
    ran.stdout.lines().last().map(|line| serde_json::from_str(line).unwrap())
}

/// Returns the current time as a time that the program accepts.
fn now(server: &Server) -> String {
    // The Timestamp of a write is a time of the server.
    put(&mut server.client(), "Times", "p", "r", &json!({}));
    let answer = server.client().request("GET", "/Times(PartitionKey='p',RowKey='r')", &[], b"");
    answer.json()["Timestamp"].as_str().unwrap().to_owned()
}

/// Waits until the repository covers a time.
fn wait_until_covered(place: &Place, time: &str) {
    let began = Instant::now();
    loop {
        let until = newest(place).and_then(|backup| Some(backup["restorable_to"].as_str()?.to_owned()));
        // The fractions may have different lengths.
        if until.is_some_and(|until| until.trim_end_matches('Z') > time.trim_end_matches('Z')) {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{time} is not covered: {:?}", newest(place));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn every_state_of_a_followed_server_can_be_restored_exactly() {
    let place = Place::new();
    let server = serve(&place);
    create_table(&mut server.client(), "Times");
    fill(&server, "Cars", 3, 400);
    let following = follow(&place);
    wait_until_covered(&place, &now(&server));
    let mut states = Vec::new();
    fill_with_everything(&server);
    states.push((now(&server), exact_snapshot(&server)));
    for number in 0..3 {
        let mut client = server.client();
        put(&mut client, "Cars", "p00001", "00007", &json!({ "Changed": number }));
        put(&mut client, "Cars", "new", &number.to_string(), &json!({ "New": number }));
        let path = format!("/Cars(PartitionKey='p00000',RowKey='{number:05}')");
        assert_eq!(client.request("DELETE", &path, &[("If-Match", "*")], b"").status, 204);
        states.push((now(&server), exact_snapshot(&server)));
    }
    let mut client = server.client();
    assert_eq!(client.request("DELETE", "/Tables('Cars')", &[], b"").status, 204);
    states.push((now(&server), exact_snapshot(&server)));
    wait_until_covered(&place, &now(&server));
    let stopped = interrupt_and_wait(following);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let verified = place.verify();
    assert!(verified.code == Some(0) && verified.stdout.contains("0 logs are damaged"), "{verified:?}");
    // The machine is lost.
    server.kill9();
    std::fs::remove_dir_all(&place.data).unwrap();
    for (number, (time, state)) in states.iter().enumerate() {
        let restored = place.restored(&format!("new{number}"), &["--to", time]);
        assert_eq!(exact_snapshot(&restored), *state, "{time}");
    }
    let ran = place.try_restore("none", &["--to", "2001-01-01T00:00:00Z"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("it covers 20"), "{ran:?}");
    assert!(!Path::new(&place.folder.path("none")).exists());
}

#[test]
fn without_a_target_the_latest_state_of_a_followed_server_is_restored() {
    let place = Place::new();
    let server = serve(&place);
    create_table(&mut server.client(), "Times");
    fill(&server, "Cars", 1, 10);
    let following = follow(&place);
    wait_until_covered(&place, &now(&server));
    let backup = exact_snapshot(&server).tables()["Cars"].clone();
    put(&mut server.client(), "Cars", "later", "later", &json!({}));
    let time = now(&server);
    let expected = exact_snapshot(&server);
    wait_until_covered(&place, &time);
    // The server is lost, and the command still runs.
    server.kill9();
    let data = place.folder.path("latest");
    let ran = place.folder.run("restore", &["--from", &place.repository, "--data", &data], &[]);
    assert!(ran.code == Some(0) && ran.stdout.contains(" and the log up to 20"), "{ran:?}");
    let restored = PROGRAM.start(&["--data", &data, "--keep-log", "1h"]);
    assert_eq!(exact_snapshot(&restored), expected);
    let ran = place.try_restore("backup", &["--backup", "latest"]);
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(summary["restorable_to"].as_str() > Some(time.as_str()) && summary["to"].is_null(), "{ran:?}");
    let old = PROGRAM.start(&["--data", &place.folder.path("backup")]);
    assert_eq!(exact_snapshot(&old).tables()["Cars"], backup);
    let ran = place.try_restore("table", &["--table", "Cars=Trucks", "--to", "latest"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let table = PROGRAM.start(&["--data", &place.folder.path("table")]);
    assert_eq!(exact_snapshot(&table).tables()["Trucks"], expected.tables()["Cars"]);
    // The restored folder is followed into the same repository, and lost in turn.
    assert_eq!(interrupt_and_wait(following).code, Some(0));
    let following = follow_folder(&place, &data);
    wait_until_covered(&place, &now(&restored));
    put(&mut restored.client(), "Cars", "again", "again", &json!({}));
    let (time, expected) = (now(&restored), exact_snapshot(&restored));
    wait_until_covered(&place, &time);
    restored.kill9();
    assert_eq!(interrupt_and_wait(following).code, Some(0));
    assert_eq!(place.verify().code, Some(0));
    assert_eq!(exact_snapshot(&place.restored("again", &[])), expected);
}

#[test]
fn the_age_of_a_followed_repository_is_exported() {
    let place = Place::new();
    let server = serve(&place);
    create_table(&mut server.client(), "Times");
    let age = || {
        let programs = Path::new(PROGRAM.path()).parent().unwrap().to_str().unwrap();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/monitoring/backup-age.sh");
        Command::new("sh").args([script, &place.repository]).env("PATH", path).output().unwrap()
    };
    assert!(!age().status.success(), "there is no repository yet");
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let following = follow(&place);
    wait_until_covered(&place, &now(&server));
    let output = age();
    assert!(output.status.success(), "{output:?}");
    interrupt_and_wait(following);
    let page = String::from_utf8(output.stdout).unwrap();
    for kind in ["backup", "log"] {
        let start = format!("rowhouse_backup_until_seconds{{kind=\"{kind}\",repository=\"{}\"}} ", place.repository);
        let time: u64 = page.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap();
        assert!((began..began + TIMEOUT.as_secs()).contains(&time), "{page}");
    }
}

#[test]
fn a_table_is_restored_beside_the_live_one_as_it_was() {
    let place = Place::new();
    let server = serve(&place);
    create_table(&mut server.client(), "Times");
    fill(&server, "Cars", 2, 300);
    let following = follow(&place);
    wait_until_covered(&place, &now(&server));
    put(&mut server.client(), "Cars", "p00001", "00007", &json!({ "Value": "right" }));
    let before = snapshot(&server).tables()["Cars"].clone();
    let time = now(&server);
    put(&mut server.client(), "Cars", "p00001", "00007", &json!({ "Value": "wrong" }));
    wait_until_covered(&place, &now(&server));
    let into = endpoint(&server.address);
    let arguments = ["--from", &place.repository, "--into", &into, "--table", "Cars=CarsBefore", "--to", &time];
    let ran = place.folder.run("restore", &arguments, &[("TMPDIR", &place.folder.path(""))]);
    assert!(ran.code == Some(0) && ran.stdout.contains("both sides are equal"), "{ran:?}");
    let after = snapshot(&server).tables();
    assert!(after["CarsBefore"] == before && after["Cars"] != before);
    // The restored tables belong to the log like any others.
    wait_until_covered(&place, &now(&server));
    assert_eq!(interrupt_and_wait(following).code, Some(0));
    let left = std::fs::read_dir(place.folder.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with("rowhouse-restore")));
}

#[test]
fn killing_the_follower_or_the_server_at_any_time_leaves_no_gap() {
    let place = Place::new();
    let mut random = super::random();
    let mut server = serve(&place);
    create_table(&mut server.client(), "Times");
    fill(&server, "Cars", 2, 200);
    let mut following = follow(&place);
    wait_until_covered(&place, &now(&server));
    let mut states = Vec::new();
    for round in 0..ROUNDS {
        let began = Instant::now();
        let duration = Duration::from_millis(random.below(2_500));
        let mut client = server.client();
        while began.elapsed() < duration {
            let row = format!("{:05}", random.below(200));
            put(&mut client, "Cars", "p00001", &row, &json!({ "Round": round, "Text": "x".repeat(1000) }));
        }
        states.push((now(&server), exact_snapshot(&server)));
        if random.below(3) == 0 {
            server.kill9();
            server = serve(&place);
        } else {
            following.kill().unwrap();
            following.wait().unwrap();
            following = follow(&place);
        }
        // If the server is killed before the first success of a follower, that is an error.
        if following.try_wait().unwrap().is_some() {
            following = follow(&place);
        }
        let verified = place.verify();
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    wait_until_covered(&place, &now(&server));
    assert_eq!(interrupt_and_wait(following).code, Some(0));
    assert_eq!(place.list().len(), 1, "the log never had to be continued from a new backup");
    for (number, (time, state)) in states.iter().enumerate() {
        let restored = place.restored(&format!("new{number}"), &["--to", time]);
        assert_eq!(exact_snapshot(&restored), *state, "{time}");
    }
    // The next backup that removes old ones removes their log as well, and what was left half-written.
    assert!(place.back_up(&["--keep", "1"])["removed_parts"].as_u64().unwrap() > 0);
    assert!(!place.repository_files().iter().any(|file| file.to_string_lossy().ends_with(".new")));
    assert_eq!(place.verify().code, Some(0));
    assert_eq!(place.try_restore("none", &["--to", &states[0].0]).code, Some(1));
}

#[test]
fn a_server_without_a_log_cannot_be_followed() {
    let place = Place::new();
    let arguments = ["--data", &place.data, "--to", &place.repository, "--follow"];
    let run = || place.folder.run("backup", &arguments, &[]);
    let ran = run();
    assert!(ran.code == Some(1) && ran.stderr.contains("no server is running"), "{ran:?}");
    let _server = place.serve();
    let ran = run();
    assert!(ran.code == Some(1) && ran.stderr.contains("--keep-log"), "{ran:?}");
    assert!(!Path::new(&place.repository).exists());
}
