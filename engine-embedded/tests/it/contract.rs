//! Runs the contract suite on the embedded engine, and checks its histories.

use engine::{ChangeLog, Engine, KeepChanges, Snapshot};
use engine_contract::cases::snapshots::{OpenEngine, OpensForSnapshots, fill_with};
use engine_contract::history_test::{StampOrder, is_strictly_serializable};
use engine_contract::support::{ManualClock, START_TICKS};
use engine_contract::{every_case, every_case_of_changes, every_case_of_indexes, every_case_of_snapshots, restart};
use rowhouse_engine_embedded::{Embedded, EmbeddedOptions, KeptLog, RestoredFolder};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
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
