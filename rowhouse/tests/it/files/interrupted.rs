//! Tests of exports and imports that are interrupted and resumed.

use super::random::SEED;
use super::{assert_same_files, done, endpoint, manifest, repeated};
use crate::PROGRAM;
use std::io::Write as _;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};
use test_support::command::{CommandResult, Folder, interrupt_and_wait, wait_for_exit};
use test_support::content::{fill, fill_with_everything};
use test_support::proxy::Proxy;
use test_support::{Random, Server, TIMEOUT};

/// The maximum number of times that a run is killed before it may complete.
const KILLS: u32 = 8;

fn start(folder: &Folder, subcommand: &str, arguments: &[&str]) -> Child {
    folder.command(subcommand, arguments, &[]).spawn().unwrap()
}

/// Kills runs at random points within the duration of a complete run, and lets the last run complete.
fn kill(folder: &Folder, subcommand: &str, arguments: &[&str], random: &mut Random, whole: Duration) -> String {
    let (mut kills, mut resumed) = (0, 0);
    for _ in 0..KILLS {
        let mut child = start(folder, subcommand, arguments);
        sleep(Duration::from_micros(random.below(u64::try_from(whole.as_micros()).unwrap())));
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        child.kill().unwrap();
        let ran = wait_for_exit(child);
        if ran.stderr.contains("already exists") {
            // The previous kill came after the run was complete.
            break;
        }
        assert_ne!(ran.code, Some(1), "{ran:?}");
        kills += 1;
        resumed += u32::from(ran.stderr.contains("continuing an earlier"));
    }
    let ran = folder.run(subcommand, arguments, &[]);
    // The last kill may have come after the run was complete, or the loop may have finished with a complete run.
    assert!(ran.code == Some(0) || ran.stderr.contains("already exists"), "{ran:?}");
    format!("{kills} kills, {resumed} of them of resumed runs")
}

fn source() -> Server {
    let from = PROGRAM.start(&["--in-memory"]);
    fill_with_everything(&from);
    fill(&from, "scattered", 1200, 2);
    fill(&from, "deep", 2, 4000);
    from
}

#[test]
fn killed_exports_are_resumed_with_the_same_result() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    let from = source();
    let began = Instant::now();
    done(&folder, "export", &["--from", &endpoint(&from), "--to", "whole"]);
    let whole = began.elapsed();
    println!("{}", kill(&folder, "export", &["--from", &endpoint(&from), "--to", "parted"], &mut random, whole));
    assert_same_files(&folder, "parted", "whole");
    assert_eq!(manifest(&folder, "parted"), manifest(&folder, "whole"));
}

#[test]
fn killed_imports_are_resumed_with_the_same_result() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    let from = source();
    for format in ["jsonl", "csv"] {
        let out = format!("out-{format}");
        done(&folder, "export", &["--from", &endpoint(&from), "--to", &out, "--format", format]);
        let measured = PROGRAM.start(&["--in-memory"]);
        let began = Instant::now();
        done(&folder, "import", &["--from", &out, "--to", &endpoint(&measured), "--parallel", "4"]);
        let whole = began.elapsed();
        let to = PROGRAM.start(&["--in-memory"]);
        let arguments = ["--from", &out, "--to", &endpoint(&to), "--parallel", "4"];
        println!("{}", kill(&folder, "import", &arguments, &mut random, whole));
        let again = format!("again-{format}");
        done(&folder, "export", &["--from", &endpoint(&to), "--to", &again, "--format", format]);
        assert_same_files(&folder, &again, &out);
    }
}

/// Returns a proxy that holds the second page of the table `deep`, which is read while the first one is written.
fn holding_the_second_page(from: &Server) -> Proxy {
    Proxy::holding(&from.address, "/deep()?$top=1000&NextPartitionKey=", 0)
}

#[test]
fn a_half_written_line_is_cut() {
    let folder = PROGRAM.folder();
    let from = source();
    done(&folder, "export", &["--from", &endpoint(&from), "--to", "whole"]);
    let source = holding_the_second_page(&from);
    let arguments = ["--from", &test_support::command::endpoint(&source.address), "--to", "parted", "--parallel", "1"];
    let mut child = start(&folder, "export", &arguments);
    source.wait_until_held();
    let new = folder.path("parted/deep.jsonl.new");
    let began = Instant::now();
    while std::fs::metadata(&new).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    wait_for_exit(child);
    source.release();
    assert!(!std::fs::exists(folder.path("parted/deep.jsonl")).unwrap(), "it would look complete");
    let mut file = std::fs::File::options().append(true).open(&new).unwrap();
    file.write_all(b"{\"PartitionKey\":\"half a li").unwrap();
    let ran = done(&folder, "export", &arguments);
    assert!(ran.stderr.contains("continuing an earlier export"), "{ran:?}");
    assert_same_files(&folder, "parted", "whole");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_and_the_export_continues_afterwards() {
    let folder = PROGRAM.folder();
    let from = source();
    done(&folder, "export", &["--from", &endpoint(&from), "--to", "whole"]);
    std::fs::create_dir(folder.path("parted")).unwrap();
    // Writes to this device fail as on a full disk, and nothing stays in it.
    let new = folder.path("parted/deep.jsonl.new");
    std::os::unix::fs::symlink("/dev/full", &new).unwrap();
    let arguments = ["--from", &endpoint(&from), "--to", "parted"];
    let told = super::refused(&folder, "export", &arguments);
    assert!(told.contains("deep.jsonl.new: No space left on device"), "{told}");
    assert!(told.contains("run the same command to continue"), "{told}");
    assert!(!std::fs::exists(folder.path("parted/deep.jsonl")).unwrap(), "it would look complete");
    assert!(!std::fs::exists(folder.path("parted/export.json")).unwrap(), "it would look complete");
    std::fs::remove_file(new).unwrap();
    done(&folder, "export", &arguments);
    assert_same_files(&folder, "parted", "whole");
}

#[test]
fn ctrl_c_ends_in_order_and_says_how_to_resume() {
    let folder = PROGRAM.folder();
    let from = source();
    done(&folder, "export", &["--from", &endpoint(&from), "--to", "out"]);
    let source = holding_the_second_page(&from);
    let arguments = ["--from", &test_support::command::endpoint(&source.address), "--to", "parted", "--parallel", "1"];
    let ran = stopped_while_held(start(&folder, "export", &arguments), &source);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told = "the export is incomplete; run the same command to continue where it stopped";
    assert!(ran.stderr.contains(told) && ran.stderr.contains("stopped"), "{ran:?}");
    done(&folder, "export", &arguments[..4]);
    let to = PROGRAM.start(&["--in-memory"]);
    // The first 40 transactions of this table are one window, which has been recorded when another one is sent.
    let target = Proxy::holding(&to.address, "/deep HTTP/1.1", 50);
    let arguments = ["--from", "out", "--to", &test_support::command::endpoint(&target.address)];
    let ran = stopped_while_held(start(&folder, "import", &arguments), &target);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("the import is incomplete; run the same command to continue where it stopped"),
        "{ran:?}"
    );
    done(&folder, "import", &arguments);
    done(&folder, "export", &["--from", &endpoint(&to), "--to", "again"]);
    assert_same_files(&folder, "again", "out");
    assert_same_files(&folder, "parted", "out");
}

/// Returns the result of a command that is interrupted while a proxy holds its request, so that the command cannot
/// finish before the signal.
fn stopped_while_held(child: Child, proxy: &Proxy) -> CommandResult {
    proxy.wait_until_held();
    let ran = interrupt_and_wait(child);
    proxy.release();
    ran
}

#[test]
fn an_import_of_a_changed_file_is_not_resumed() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    // More than one window, so that something is written before the last line is read.
    let line = |row: u32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\n");
    let lines: String = (0..5000).map(line).collect();
    std::fs::write(folder.path("cars.jsonl"), format!("{lines}bad\n")).unwrap();
    let arguments = ["--from", "cars.jsonl", "--to", &endpoint(&to)];
    let told = super::refused(&folder, "import", &arguments);
    assert!(told.contains("the import is incomplete; run the same command to continue"), "{told}");
    std::fs::write(folder.path("cars.jsonl"), lines).unwrap();
    let told = super::refused(&folder, "import", &arguments);
    assert!(told.contains("has changed since its import started"), "{told}");
    let told = super::refused(&folder, "import", &[&arguments[..], &["--mode", "merge"]].concat());
    assert!(told.contains("with a different source, target, --mode"), "{told}");
    std::fs::remove_file(&folder.states("import")[0]).unwrap();
    done(&folder, "import", &arguments);
}

#[test]
fn a_table_that_was_deleted_meanwhile_is_imported_again() {
    let folder = PROGRAM.folder();
    let to = PROGRAM.start(&["--in-memory"]);
    let mut lines = repeated(9000, |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:04}\"}}\n"));
    std::fs::write(folder.path("cars.jsonl"), lines.clone() + "bad\n").unwrap();
    let arguments = ["--from", "cars.jsonl", "--to", &endpoint(&to)];
    super::refused(&folder, "import", &arguments);
    let deleted = to.client().request("DELETE", "/Tables('cars')", &[], b"");
    assert_eq!(deleted.status, 204);
    let ran = folder.run("import", &[&arguments[..], &["--skip-bad", "1"]].concat(), &[]);
    assert!(ran.code == Some(0) && ran.stderr.contains("continuing an earlier import"), "{ran:?}");
    let ran = done(&folder, "export", &["--from", &endpoint(&to), "--to", "-"]);
    lines.truncate(lines.trim_end().len());
    assert_eq!(ran.stdout.trim_end(), lines);
}

#[test]
fn a_table_that_was_done_and_then_deleted_is_imported_again() {
    let folder = PROGRAM.folder();
    std::fs::create_dir(folder.path("in")).unwrap();
    let line = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n";
    std::fs::write(folder.path("in/done.jsonl"), format!("{line}bad\n")).unwrap();
    std::fs::write(folder.path("in/open.jsonl"), format!("{line}bad\nbad\n")).unwrap();
    let to = PROGRAM.start(&["--in-memory"]);
    // Both tables are imported concurrently. The other table is not created before this table is complete.
    let target = Proxy::holding(&to.address, "\"open\"", 0);
    let service = test_support::command::endpoint(&target.address);
    let child = start(&folder, "import", &["--from", "in", "--to", &service, "--skip-bad", "2"]);
    target.wait_until_held();
    let began = Instant::now();
    while !is_done(&folder, "done") {
        assert!(began.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(1));
    }
    target.release();
    let ran = wait_for_exit(child);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(is_done(&folder, "done") && !is_done(&folder, "open"));
    let deleted = to.client().request("DELETE", "/Tables('done')", &[], b"");
    assert_eq!(deleted.status, 204);
    let ran = done(&folder, "import", &["--from", "in", "--to", &service, "--skip-bad", "3"]);
    assert!(ran.stdout.contains("3 bad lines"), "{ran:?}");
    let ran = done(&folder, "export", &["--from", &service, "--table", "done", "--to", "-"]);
    assert_eq!(ran.stdout, line);
}

fn is_done(folder: &Folder, table: &str) -> bool {
    let text = std::fs::read_to_string(folder.state("import").unwrap()).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    state["tables"][table]["is_done"] == true
}
