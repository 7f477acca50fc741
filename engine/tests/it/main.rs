//! Runs the contract suite on the memory engine, and checks its histories.

#![allow(clippy::unwrap_used, reason = "a failure is a failed test")]

use engine_contract::cases::snapshots::{OpenEngine, OpensForSnapshots, fill_with};
use engine_contract::history_test::{StampOrder, is_strictly_serializable};
use engine_contract::support::{ManualClock, START_TICKS};
use engine_contract::{every_case, every_case_of_changes, every_case_of_indexes, every_case_of_snapshots};
use rowhouse_engine::{ChangeLog, KeepChanges, Memory, Snapshot};
use std::sync::Arc;
use std::time::Duration;

#[allow(clippy::unnecessary_wraps, reason = "every engine is opened alike")]
fn open(clock: ManualClock) -> Option<(Memory, ())> {
    Some((Memory::new(clock), ()))
}

type Log = Arc<dyn ChangeLog>;

fn open_with_log(clock: ManualClock) -> Option<(Memory, Log, ())> {
    let keep = KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 };
    let engine = Memory::new(clock).keep_changes(keep);
    let log = engine.change_log()?;
    Some((engine, log, ()))
}

struct WithSnapshots;

fn with_snapshots(engine: Memory) -> OpenEngine {
    OpenEngine { snapshots: engine.snapshots(), engine: Arc::new(engine), place: Box::new(()) }
}

impl OpensForSnapshots for WithSnapshots {
    fn open(&self, clock: ManualClock) -> OpenEngine {
        with_snapshots(Memory::new(clock))
    }

    fn filled(&self, snapshot: &dyn Snapshot, clock: ManualClock) -> OpenEngine {
        let engine = Memory::new(clock);
        fill_with(engine.restore(), snapshot);
        with_snapshots(engine)
    }
}

every_case!(memory, open);
every_case_of_indexes!(indexes, open);
every_case_of_changes!(changes, open_with_log);
every_case_of_snapshots!(snapshots, WithSnapshots);

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_strictly_serializable() {
    is_strictly_serializable(Arc::new(Memory::new(ManualClock::at(START_TICKS))), StampOrder::Partition).await;
}
