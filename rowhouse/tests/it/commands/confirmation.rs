//! Tests of the question before data on another machine is deleted.

use super::CommandTest;
use crate::PROGRAM;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Starts a server that can be reached at an address that is not a loopback address.
fn server() -> CommandTest {
    let network = ["--listen", "0.0.0.0:0", "--allow-development-key-on-network", "--allow-plain-http-on-network"];
    CommandTest::with(&[&["--in-memory", "--extensions"], &network[..]].concat())
}

fn as_other_machine(test: &CommandTest) -> String {
    test.endpoint.replace("127.0.0.1", "0.0.0.0")
}

#[test]
fn a_script_is_not_asked() {
    let test = server();
    test.prints(&["table", "create", "cars", "trucks"]);
    let endpoint = as_other_machine(&test);
    let run = |words: &[&str]| {
        let ran = test.folder.run(words[0], &words[1..], &[("ROWHOUSE_ENDPOINT", &endpoint)]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}");
    };
    run(&["entity", "delete", "cars", "--filter", "true"]);
    run(&["table", "retention", "cars", "--age", "7d"]);
    run(&["table", "delete", "cars"]);
    run(&["table", "delete", "trucks", "--yes"]);
    assert_eq!(test.prints(&["table", "list"]), "");
}

/// Runs a command on a terminal on which the answer is typed. Returns whether it succeeded, and what the terminal
/// shows.
#[cfg(target_os = "linux")]
fn on_a_terminal(test: &CommandTest, words: &str, answer: &str) -> (bool, String) {
    let mut script = Command::new("script");
    let command = format!("'{}' {words}", PROGRAM.path());
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env("TERM", "dumb");
    script.env("ROWHOUSE_ENDPOINT", as_other_machine(test));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_person_is_asked() {
    let test = server();
    test.prints(&["table", "create", "cars", "trucks"]);
    test.prints(&["entity", "put", "cars", "p", "1", "Doors:Int32=4"]);
    let account = format!("in the account 'devstoreaccount1' at {} (from ROWHOUSE_ENDPOINT)", as_other_machine(&test));
    for (words, effect) in [
        ("table delete cars", "This deletes the table 'cars' with all its entities"),
        ("table delete cars trucks", "This deletes the tables 'cars', 'trucks' with all their entities"),
        (
            "entity delete cars --filter 'Doors gt 3'",
            "This deletes all entities of the table 'cars' that match the filter Doors gt 3",
        ),
        ("table retention cars --age 1s", "This deletes the entities of the table 'cars' as soon as they expire"),
    ] {
        let (succeeded, shown) = on_a_terminal(&test, words, "n\n");
        assert!(!succeeded && shown.contains(&format!("{effect}, {account}. Continue? [y/N]")), "{shown}");
        assert!(shown.contains("rowhouse: not confirmed, so nothing was changed"), "{shown}");
    }
    assert_eq!(test.prints(&["table", "list"]), "cars\ntrucks\n");
    assert_eq!(test.prints(&["table", "retention", "cars"]), "entities do not expire\n");
    for (words, answer) in [
        ("table retention cars", ""),
        ("table retention cars --off", ""),
        ("entity delete cars --filter 'Doors gt 3' --dry-run", ""),
        ("entity delete cars p 1", ""),
        ("table delete trucks --yes", ""),
        ("table delete cars", "yes\n"),
    ] {
        let (succeeded, shown) = on_a_terminal(&test, words, answer);
        assert!(succeeded && shown.contains("Continue?") != answer.is_empty(), "{words}: {shown}");
    }
    assert_eq!(test.prints(&["table", "list"]), "");
}
