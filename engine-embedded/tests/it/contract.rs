//! Runs the contract suite on the embedded engine, checks its histories, and compares it with the memory engine under
//! random operations, even while it cannot write because the process may not extend any file.
//!
//! When the limit is exceeded, the operating system sends a signal that kills the process unless the process ignores
//! it. A program inherits the set of ignored signals from the shell that starts it, so the test runs as a child of a
//! shell.

use crate::log_file::*;
use async_trait::async_trait;
use engine::{ChangeLog, CommitError, Engine, Fault, KeepChanges, Snapshot};
use engine_contract::cases::snapshots::{OpenEngine, OpensForSnapshots, fill_with};
use engine_contract::history_test::{StampOrder, is_strictly_serializable};
use engine_contract::model_test::{EngineOpener, answers_as_the_memory_engine, reserved_table};
use engine_contract::support::{ManualClock, START_TICKS, *};
use engine_contract::{every_case, every_case_of_changes, every_case_of_indexes, every_case_of_snapshots, restart};
use model::{EdmValue, Mutation, RecordBuilder};
use rowhouse_engine_embedded::{Durability, Embedded, EmbeddedOptions, KeptLog, RestoredFolder};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn open(folder: &Path, clock: ManualClock) -> Embedded {
    Embedded::open(folder, &EmbeddedOptions::default(), clock).unwrap()
}

fn open_new(clock: ManualClock) -> Option<(Embedded, TempDir)> {
    let folder = tempfile::tempdir().ok()?;
    Some((open(folder.path(), clock), folder))
}

type Log = Arc<dyn ChangeLog>;

fn open_with_log(clock: ManualClock) -> Option<(Embedded, Log, TempDir)> {
    let folder = tempfile::tempdir().ok()?;
    let kept_log = KeptLog::Within(KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 });
    let options = EmbeddedOptions { kept_log, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, clock).unwrap();
    let log = engine.change_log()?;
    Some((engine, log, folder))
}

struct WithSnapshots;

fn with_snapshots(folder: TempDir, clock: ManualClock) -> OpenEngine {
    let engine = open(folder.path(), clock);
    OpenEngine { snapshots: engine.snapshots(), engine: Arc::new(engine), place: Box::new(folder) }
}

impl OpensForSnapshots for WithSnapshots {
    fn open(&self, clock: ManualClock) -> OpenEngine {
        with_snapshots(tempfile::tempdir().unwrap(), clock)
    }

    fn filled(&self, snapshot: &dyn Snapshot, clock: ManualClock) -> OpenEngine {
        let folder = tempfile::tempdir().unwrap();
        fill_with(RestoredFolder::begin(folder.path()).unwrap(), snapshot);
        with_snapshots(folder, clock)
    }
}

every_case!(embedded, open_new);
every_case_of_indexes!(indexes, open_new);
every_case_of_changes!(changes, open_with_log);
every_case_of_snapshots!(snapshots, WithSnapshots);

#[tokio::test]
async fn service_properties_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = async || Arc::new(open(folder.path(), ManualClock::at(START_TICKS))) as Arc<dyn Engine>;
    restart::survives_a_restart(open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_strictly_serializable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), ManualClock::at(START_TICKS));
    is_strictly_serializable(Arc::new(engine), StampOrder::Partition).await;
}

const CHILD: &str = "ROWHOUSE_MODEL_CHILD";

struct FolderOpener(tempfile::TempDir);

#[async_trait]
impl EngineOpener for FolderOpener {
    fn steps_default(&self) -> u64 {
        100_000
    }

    fn has_order_of_stamps(&self) -> bool {
        true
    }

    async fn open(&self, clock: ManualClock, is_synced: bool) -> Box<dyn Engine> {
        let interval = Durability::Interval(Duration::from_millis(50));
        let durability = if is_synced { Durability::Sync } else { interval };
        let options = EmbeddedOptions { durability, min_free_bytes: 0, ..EmbeddedOptions::default() };
        Box::new(Embedded::open(self.0.path(), &options, clock).unwrap())
    }

    fn file_limit(&self) -> Option<fn(Option<u64>)> {
        Some(limit_files)
    }
}

#[test]
fn the_embedded_engine_answers_as_the_memory_engine() {
    if !is_child() {
        return run_as_child("contract::the_embedded_engine_answers_as_the_memory_engine");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(answers_as_the_memory_engine(Box::new(FolderOpener(data_folder()))));
}

#[test]
fn an_outage_ends_whatever_was_being_written() {
    if !is_child() {
        return run_as_child("contract::an_outage_ends_whatever_was_being_written");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(outage_in_a_value_that_holds_a_group());
}

/// Returns a folder in memory if there is one with room. Other tests determine what survives a crash, and this test
/// would spend most of its time waiting for the disk.
fn data_folder() -> tempfile::TempDir {
    const MEMORY: &str = "/dev/shm";
    const ROOM_BYTES_MIN: u64 = 1 << 30;
    let room = rustix::fs::statvfs(MEMORY).map_or(0, |answer| answer.f_bavail * answer.f_frsize);
    let in_memory = (room >= ROOM_BYTES_MIN).then(|| tempfile::tempdir_in(MEMORY).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs only the test with this full name, in a process that ignores the signal.
fn run_as_child(test: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(std::env::current_exe().unwrap());
    let output = shell.args(["--exact", test, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "there is no test named {test}");
}

/// Limits the size of all files to this many bytes.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Tests a write that fails after client data that looks like complete groups of the log.
async fn outage_in_a_value_that_holds_a_group() {
    const VALUE_BYTES: usize = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { min_free_bytes: 0, ..EmbeddedOptions::default() };
    let open = || Embedded::open(folder.path(), &options, ManualClock::at(START_TICKS)).unwrap();
    let engine = open();
    engine.create_table(&reserved_table()).await.unwrap();
    commit_one(&engine, &reserved_table(), upsert("p", "before", 1)).await.unwrap();
    let segment = std::fs::read(segment(folder.path(), 1)).unwrap();
    let written = groups(&segment).last().unwrap().end;
    // The bytes are in the right places of the file for each position that the value may have relative to the groups.
    let mut properties = RecordBuilder::default();
    let forged = forged_groups(VALUE_BYTES, written, 1, 3);
    for (name, shift) in [("a", 0), ("b", 21), ("c", 42)] {
        properties.push(name, EdmValue::Binary(&forged[shift..VALUE_BYTES / 3]));
    }
    limit_files(Some((written + VALUE_BYTES / 2) as u64));
    let mutation = Mutation::InsertOrReplace { key: key("p", "torn"), properties };
    let answer = commit_one(&engine, &reserved_table(), mutation).await;
    assert!(matches!(answer, Err(CommitError::Fault(Fault::Interrupted))), "{answer:?}");
    // The outage lasts for several attempts to end it. Everything can be read in the meantime.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(names(&all(&engine, &reserved_table()).await), ["p/before"]);
        assert!(engine.get(&reserved_table(), &key("p", "before")).await.unwrap().is_some());
        let refused = commit_one(&engine, &reserved_table(), upsert("p", "later", 1)).await;
        assert!(matches!(refused, Err(CommitError::Fault(Fault::Suspended))), "{refused:?}");
    }
    limit_files(None);
    let began = Instant::now();
    while commit_one(&engine, &reserved_table(), upsert("p", "later", 1)).await.is_err() {
        assert!(began.elapsed() < TIMEOUT, "writes do not resume");
        assert_eq!(names(&all(&engine, &reserved_table()).await), ["p/before"]);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(names(&all(&engine, &reserved_table()).await), ["p/before", "p/later"]);
    assert_eq!(segments(folder.path()).len(), 2, "the file that could not be written is not written again");
    drop(engine);
    assert_eq!(names(&all(&open(), &reserved_table()).await), ["p/before", "p/later"]);
}
