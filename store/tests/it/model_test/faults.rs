//! Periods in which the embedded engine cannot write, because the process may not extend any file.
//!
//! When the limit is exceeded, the operating system sends a signal that kills the process unless the process ignores
//! it. A program inherits the set of ignored signals from the shell that starts it, so the test runs as a child of a
//! shell.

use super::{Choices, EngineOpener, Pair, all_of, reserved_table};
use crate::support::*;
use model::{DateTime, EdmValue, Mutation, RecordBuilder, Transaction};
use rowhouse_store::{CommitError, Embedded, EmbeddedOptions, Engine, Fault, TableKey};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::Command;
use std::time::{Duration, Instant};

const CHILD: &str = "ROWHOUSE_MODEL_CHILD";
const TRANSACTIONS_MAX: usize = 8;
const RESUMPTION_MAX: Duration = TIMEOUT;

#[derive(Debug, Default)]
pub(crate) struct Faults {
    times: u64,
    interrupted: u64,
    happened: u64,
    refused: u64,
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The process ignores the signal.
pub(crate) fn run_as_child(test: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(std::env::current_exe().unwrap());
    let output = shell.args(["--exact", test, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "there is no test named {test}");
}

fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Tests a write that fails after client data that looks like a complete batch of the journal.
pub(crate) async fn outage_in_a_value_that_holds_a_batch() {
    const VALUE_BYTES: usize = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { min_free_bytes: 0, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, ManualClock::at(START_TICKS)).unwrap();
    engine.create_table(&reserved_table()).await.unwrap();
    commit_one(&engine, &reserved_table(), upsert("p", "before", 1)).await.unwrap();
    // A single item: the removal of an empty key.
    let item = [&[2, 1, 0][..], &1_u64.to_le_bytes(), &[0; 10]].concat();
    let checksum = xxhash_rust::xxh3::xxh3_64(&item).to_le_bytes();
    let batch = [&[1, 1, 0, 0, 0][..], &1000_u64.to_le_bytes(), &item, &[3], &checksum, b"FJL\x03"].concat();
    let mut properties = RecordBuilder::default();
    properties.push("value", EdmValue::Binary(&batch.repeat(VALUE_BYTES / batch.len())));
    let written = std::fs::read(folder.path().join("database/0.jnl")).unwrap();
    let written = written.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    limit_files(Some((written + VALUE_BYTES / 2) as u64));
    let mutation = Mutation::InsertOrReplace { key: key("p", "torn"), properties };
    let answer = commit_one(&engine, &reserved_table(), mutation).await;
    assert!(matches!(answer, Err(CommitError::Fault(Fault::Interrupted))), "{answer:?}");
    limit_files(None);
    let began = Instant::now();
    while commit_one(&engine, &reserved_table(), upsert("p", "later", 1)).await.is_err() {
        assert!(began.elapsed() < RESUMPTION_MAX, "writes do not resume");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(names(&all(&engine, &reserved_table()).await), ["p/before", "p/later"]);
}

impl<O: EngineOpener> Pair<O> {
    pub(crate) async fn fault(&mut self, random: &mut Choices) -> String {
        self.faults.times += 1;
        limit_files(Some(random.below(4096) as u64));
        let mut in_doubt = None;
        for _ in 0..TRANSACTIONS_MAX {
            let (table, transaction) = (random.table(), random.transaction(&self.stamps));
            match self.durable().commit(&table, transaction.clone()).await {
                Err(CommitError::Fault(Fault::Suspended)) => self.faults.refused += 1,
                Err(CommitError::Fault(Fault::Interrupted)) => {
                    assert!(in_doubt.is_none(), "nothing is written between a failure and the end of an outage");
                    in_doubt = Some((table, transaction));
                }
                answer => {
                    // The request was refused, or the limit on file sizes did not affect it.
                    let memory = self.commit_in_memory(&table, transaction).await;
                    assert_eq!(format!("{memory:?}"), format!("{answer:?}"), "while nothing could be written");
                }
            }
        }
        limit_files(None);
        self.wait_for_service(in_doubt).await;
        self.compare_all().await;
        "a fault".to_owned()
    }

    /// Waits until a write succeeds, and determines the outcome of the write in doubt.
    async fn wait_for_service(&mut self, in_doubt: Option<(TableKey, Transaction)>) {
        let began = Instant::now();
        // Skip the stamps that were issued for failed writes.
        let last = self.stamps.iter().max().copied().unwrap_or(DateTime::MIN).ticks();
        let resumed_at = last.max(START_TICKS) + 1_000_000;
        let transaction = || Transaction::single(upsert("p", "r", 1));
        let mut clock_is_set = false;
        let written = loop {
            // Writes during the fault were stamped with the unchanged clock.
            if !clock_is_set
                && self.durable().get(&reserved_table(), &key("p", "r")).await.is_ok()
                && self.is_writable().await
            {
                self.resolve(in_doubt.clone()).await;
                self.clock.set(resumed_at);
                clock_is_set = true;
            }
            if clock_is_set && let Ok(written) = self.durable().commit(&reserved_table(), transaction()).await {
                break written;
            }
            assert!(began.elapsed() < RESUMPTION_MAX, "writes do not resume");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let memory = self.commit_in_memory(&reserved_table(), transaction()).await.unwrap();
        assert_eq!(memory, written);
    }

    async fn is_writable(&self) -> bool {
        let nothing = Transaction::single(delete("absent", "absent"));
        !matches!(self.durable().commit(&reserved_table(), nothing).await, Err(CommitError::Fault(_)))
    }

    /// Determines whether a transaction in doubt took effect by comparing the whole table.
    async fn resolve(&mut self, in_doubt: Option<(TableKey, Transaction)>) {
        let Some((table, transaction)) = in_doubt else { return };
        self.faults.interrupted += 1;
        if all_of(&self.memory, &table).await == all_of(self.durable(), &table).await {
            return;
        }
        self.faults.happened += 1;
        self.commit_in_memory(&table, transaction).await.unwrap();
    }
}
