//! Copies that are ended in the middle and begun again.

use crate::command::{Folder, ended, endpoint};
use crate::content::{fill, fill_with_everything, snapshot};
use crate::support::{Random, Server};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SEED: &str = "ROWHOUSE_COPY_SEED";
/// Most times that a copy is killed before it may end.
const KILLS: u32 = 8;

fn fill_for_a_while(server: &Server) {
    fill_with_everything(server);
    fill(server, "scattered", 300, 1);
    fill(server, "deep", 2, 2000);
    fill(server, "mixed", 20, 60);
}

/// Kills copies at random points within the time of a whole one, and lets the last one run to its end; tells how many.
///
/// `measured` is the same copy to another place, by which that time is known.
fn kill(folder: &Folder, measured: &[&str], arguments: &[&str]) -> String {
    let mut random = Random::from_environment(SEED);
    let began = Instant::now();
    folder.copied(measured);
    let whole = began.elapsed();
    let mut kills = 0;
    let mut resumed = 0;
    for _ in 0..KILLS {
        let mut child = folder.start(arguments);
        let micros = u64::try_from(whole.as_micros()).unwrap();
        // Places take a while to open, in which there is little to interrupt.
        while folder.states().is_empty() && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        // The first one comes at once, so that there is one on any machine.
        let latest = if kills == 0 { 0 } else { micros / 3 };
        sleep(Duration::from_micros(random.below(latest + 1)));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        kills += 1;
        let ran = ended(child);
        resumed += u32::from(ran.stderr.contains("going on with an earlier copy"));
    }
    assert!(kills > 0);
    if kills == KILLS {
        let ran = folder.copy(arguments);
        // The last kill may have come when all was done, and then the target is full.
        assert!(ran.code == Some(0) || ran.stderr.contains("the target holds entities already"), "{ran:?}");
    }
    assert!(folder.states().is_empty(), "a copy failed by itself");
    format!("{kills} kills, {resumed} of them of runs that went on")
}

#[test]
fn a_copy_between_services_that_is_killed_goes_on() {
    let folder = Folder::new();
    let from = Server::start(&["--in-memory"]);
    fill_for_a_while(&from);
    let expected = snapshot(&from);
    let measured = Server::start(&["--in-memory"]);
    let source = endpoint(&from.address);
    let to = Server::start(&["--in-memory"]);
    let [measured, arguments] = [&measured, &to]
        .map(|to| ["--from", &source, "--to", &endpoint(&to.address), "--parallel", "4"].map(str::to_owned));
    let [measured, arguments] = [&measured, &arguments].map(|owned| owned.each_ref().map(String::as_str));
    println!("{}", kill(&folder, &measured, &arguments));
    assert_eq!(snapshot(&to), expected);
}

#[test]
fn a_copy_between_folders_that_is_killed_goes_on() {
    let folder = Folder::new();
    let from = Server::start(&["--in-memory"]);
    fill_for_a_while(&from);
    let expected = snapshot(&from);
    folder.copied(&["--from", &endpoint(&from.address), "--to", "from"]);
    println!("{}", kill(&folder, &["--from", "from", "--to", "measured"], &["--from", "from", "--to", "to"]));
    let to = Server::start(&["--data", &folder.path("to")]);
    assert_eq!(snapshot(&to), expected);
}

#[test]
fn ctrl_c_ends_in_order_and_says_how_to_go_on() {
    let folder = Folder::new();
    let (from, to) = (Server::start(&["--in-memory"]), Server::start(&["--in-memory"]));
    fill(&from, "deep", 2, 4000);
    let arguments = ["--from", &endpoint(&from.address), "--to", &endpoint(&to.address), "--parallel", "1"];
    let child = folder.start(&arguments);
    let began = Instant::now();
    // The state file appears when copying begins.
    while folder.states().is_empty() {
        assert!(began.elapsed() < crate::support::PATIENCE);
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_millis(100));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = ended(child);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("the same command goes on where it stopped"), "{ran:?}");
    let [state] = &folder.states()[..] else { panic!("{:?}", folder.states()) };
    let text = std::fs::read_to_string(state).unwrap();
    assert!(text.contains("next_partition") && !text.contains("Eby8"), "{text}");
    // Another copy must not go on with it.
    let state = state.to_str().unwrap();
    let told = folder.refused(&["--from", &endpoint(&to.address), "--to", "elsewhere", "--state", state]);
    assert!(told.contains("belongs to a copy from"), "{told}");
    let ran = folder.copied(&arguments);
    assert!(ran.stderr.contains("going on with an earlier copy"), "{ran:?}");
    assert_eq!(snapshot(&to), snapshot(&from));
}

#[test]
fn a_table_that_was_deleted_meanwhile_is_copied_again() {
    let folder = Folder::new();
    let (from, to) = (Server::start(&["--in-memory"]), Server::start(&["--in-memory"]));
    fill(&from, "deep", 1, 5000);
    let arguments = ["--from", &endpoint(&from.address), "--to", &endpoint(&to.address), "--parallel", "1"];
    let mut child = folder.start(&arguments);
    let began = Instant::now();
    while !folder
        .states()
        .first()
        .is_some_and(|state| std::fs::read_to_string(state).is_ok_and(|text| text.contains("\"next_partition\": \"1!")))
    {
        assert!(began.elapsed() < crate::support::PATIENCE && child.try_wait().unwrap().is_none());
        // The target stands still most of the time, so that the copy is not done before it has said how far it is.
        to.signal("STOP");
        sleep(Duration::from_millis(30));
        to.signal("CONT");
    }
    child.kill().unwrap();
    ended(child);
    let deleted = to.client().request("DELETE", "/Tables('deep')", &[], b"");
    assert_eq!(deleted.status, 204);
    folder.copied(&arguments);
    assert_eq!(snapshot(&to), snapshot(&from));
}
