//! Tests of copies that are interrupted and resumed.

use crate::PROGRAM;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};
use test_support::command::{CommandResult, Folder, endpoint, interrupt_and_wait, wait_for_exit};
use test_support::content::{fill, fill_with_everything, snapshot};
use test_support::proxy::Proxy;
use test_support::{KEY, Random, Server};

const SEED: &str = "ROWHOUSE_COPY_SEED";
/// The maximum number of times that a copy is killed before it may complete.
const KILLS: u32 = 8;
/// The entry in the state file of a table of which a page was written.
const FIRST_PAGE: &str = "\"next_partition\": \"1!";

fn fill_for_a_while(server: &Server) {
    fill_with_everything(server);
    fill(server, "scattered", 300, 1);
    fill(server, "deep", 2, 3000);
    fill(server, "mixed", 20, 60);
}

/// Kills a copy while it waits for a request that a proxy holds, so that the copy is killed in the middle on any
/// machine.
fn kill_in_the_middle(folder: &Folder, proxy: &Proxy, arguments: &[&str]) {
    let mut child = folder.start(arguments);
    proxy.wait_until_held();
    child.kill().unwrap();
    wait_for_exit(child);
    proxy.release();
    assert!(folder.state("copy").is_some(), "its progress must be recorded");
}

fn time_of(folder: &Folder, arguments: &[&str]) -> Duration {
    let began = Instant::now();
    folder.copy_successfully(arguments);
    began.elapsed()
}

/// Kills copies at random points within the duration of a complete copy, and lets the last copy complete. Returns a
/// summary.
fn kill(folder: &Folder, arguments: &[&str], whole: Duration) -> String {
    let mut random = Random::from_environment(SEED);
    let micros = u64::try_from(whole.as_micros()).unwrap();
    let mut kills = 0;
    let mut resumed = 0;
    // Each write creates a new file.
    let state_file = || folder.state("copy").and_then(|state| Some(std::fs::metadata(state).ok()?.ino()));
    for _ in 0..KILLS {
        let earlier = state_file();
        let mut child = folder.start(arguments);
        // Opening the endpoints takes a while, and there is little to interrupt until then.
        while state_file() == earlier && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        // The first kill is immediate, so that at least one copy is killed on most machines.
        let latest = if kills == 0 { 0 } else { micros / 3 };
        sleep(Duration::from_micros(random.below(latest + 1)));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        kills += 1;
        let ran = wait_for_exit(child);
        resumed += u32::from(ran.stderr.contains("continuing an earlier copy"));
    }
    if kills == KILLS {
        let ran = folder.copy(arguments);
        // The last kill may have come after the copy was complete; then the target is not empty.
        assert!(ran.code == Some(0) || ran.stderr.contains("the target already contains entities"), "{ran:?}");
    }
    assert!(folder.states("copy").is_empty(), "a copy failed without being killed");
    format!("{kills} kills, {resumed} of them of resumed runs")
}

#[test]
fn a_killed_copy_between_services_is_resumed() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill_for_a_while(&from);
    let expected = snapshot(&from);
    let measured = PROGRAM.start(&["--in-memory"]);
    let source = endpoint(&from.address);
    let to = PROGRAM.start(&["--in-memory"]);
    let target = holding_the_fifth_page(&to);
    let [measured, arguments] = [&measured.address, &target.address]
        .map(|to| ["--from", &source, "--to", &endpoint(to), "--parallel", "4"].map(str::to_owned));
    let [measured, arguments] = [&measured, &arguments].map(|owned| owned.each_ref().map(String::as_str));
    let whole = time_of(&folder, &measured);
    kill_in_the_middle(&folder, &target, &arguments);
    println!("{}", kill(&folder, &arguments, whole));
    assert_eq!(snapshot(&to), expected);
}

#[test]
fn a_killed_copy_between_folders_is_resumed() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill_for_a_while(&from);
    let expected = snapshot(&from);
    // Nothing delays a copy between folders, so the copy that is certain to be killed reads from a service.
    let source = Proxy::holding(&from.address, "&NextPartitionKey=", 1);
    let into_a_folder = ["--from", &endpoint(&source.address), "--to", "from"];
    kill_in_the_middle(&folder, &source, &into_a_folder);
    let ran = folder.copy_successfully(&into_a_folder);
    assert!(ran.stderr.contains("continuing an earlier copy"), "{ran:?}");
    let whole = time_of(&folder, &["--from", "from", "--to", "measured"]);
    println!("{}", kill(&folder, &["--from", "from", "--to", "to"], whole));
    for name in ["from", "to"] {
        let copied = PROGRAM.start(&["--data", &folder.path(name)]);
        assert_eq!(snapshot(&copied), expected, "{name}");
    }
}

fn stopped_in_the_fifth_page(folder: &Folder, target: &Proxy, arguments: &[&str]) -> CommandResult {
    let child = folder.start(arguments);
    target.wait_until_held();
    let ran = interrupt_and_wait(child);
    target.release();
    ran
}

/// Returns a proxy that holds the first transaction of the fifth page, which is sent once the first page has been
/// recorded as written.
fn holding_the_fifth_page(target: &Server) -> Proxy {
    Proxy::holding(&target.address, "/$batch", 40)
}

#[test]
fn ctrl_c_ends_in_order_and_says_how_to_resume() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill(&from, "deep", 2, 3000);
    let target = holding_the_fifth_page(&to);
    let arguments = ["--from", &endpoint(&from.address), "--to", &endpoint(&target.address), "--parallel", "1"];
    let ran = stopped_in_the_fifth_page(&folder, &target, &arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("run the same command to continue where it stopped"), "{ran:?}");
    let [state] = &folder.states("copy")[..] else { panic!("{:?}", folder.states("copy")) };
    let text = std::fs::read_to_string(state).unwrap();
    assert!(text.contains(FIRST_PAGE) && !text.contains(&KEY[..4]), "{text}");
    // A different copy must not continue with this file.
    let state = state.to_str().unwrap();
    let told = folder.copy_error(&["--from", &endpoint(&to.address), "--to", "elsewhere", "--state", state]);
    assert!(told.contains("belongs to a copy from"), "{told}");
    let ran = folder.copy_successfully(&arguments);
    assert!(ran.stderr.contains("continuing an earlier copy"), "{ran:?}");
    assert_eq!(snapshot(&to), snapshot(&from));
}

#[test]
fn a_table_that_was_deleted_meanwhile_is_copied_again() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill(&from, "deep", 1, 5000);
    let target = holding_the_fifth_page(&to);
    let arguments = ["--from", &endpoint(&from.address), "--to", &endpoint(&target.address), "--parallel", "1"];
    let ran = stopped_in_the_fifth_page(&folder, &target, &arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let text = std::fs::read_to_string(&folder.states("copy")[0]).unwrap();
    assert!(text.contains(FIRST_PAGE), "{text}");
    let deleted = to.client().request("DELETE", "/Tables('deep')", &[], b"");
    assert_eq!(deleted.status, 204);
    folder.copy_successfully(&arguments);
    assert_eq!(snapshot(&to), snapshot(&from));
}
