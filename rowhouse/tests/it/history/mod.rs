//! Conflicting clients of the built program, whose complete history is checked: every partition is strictly
//! serializable, although servers, databases and connections fail and clocks jump.
//!
//! Linux only: a library that is loaded into servers and databases shifts their clocks.

#![cfg(target_os = "linux")]

mod citus;
pub(crate) mod clock;
mod database;
mod embedded;
mod faults;
mod http_client;

use history::{Action, Choices, ClientLog, Mix, Recorder, Rules, StampOrder, check, run_client, write_history};
use http_client::{HttpClient, Target};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::{Client, EndOnDrop, Random, eventually, setting};

const SEED: &str = "ROWHOUSE_HISTORY_SEED";
/// The number of rounds of each test.
const ROUNDS: &str = "ROWHOUSE_HISTORY_ROUNDS";

fn rounds() -> u64 {
    setting(ROUNDS).unwrap_or(1)
}

/// What happened in one round, or in all of them.
#[derive(Debug, Default)]
struct Tally {
    operations: u64,
    unknown: u64,
    /// The number of faults of each kind.
    faults: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        for (fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations, {} of unknown outcome", self.operations, self.unknown)?;
        self.faults.iter().try_for_each(|(fault, count)| write!(f, ", {fault}: {count}"))
    }
}

/// Runs the rounds of a test, and prints what happened.
fn run_rounds(name: &str, mut round: impl FnMut(u64, &mut Random) -> Tally) {
    let mut random = Random::from_environment(SEED);
    let mut sum = Tally::default();
    for number in 1..=rounds() {
        let tally = round(number, &mut random);
        println!("{name}, round {number}: {tally}");
        sum.add(&tally);
    }
    println!("{name}, {} rounds: {sum}", rounds());
}

/// The clients of one round and their history. The table must be new, because the checker presupposes that it is empty.
struct Clients {
    recorder: Recorder,
    table: String,
    /// The log of each client, its choices, and the seed for its choice of servers.
    members: Vec<(ClientLog, Choices, u64)>,
}

impl Clients {
    fn new(table: String, count: usize, mix: Mix, random: &mut Random) -> Self {
        let recorder = Recorder::new();
        let client = |_| (recorder.client(), Choices::new(random.number(), mix), random.number());
        let members = (0..count).map(client).collect();
        Self { recorder, table, members }
    }

    fn create_table(&self, mut client: Client) {
        let body = format!(r#"{{"TableName":"{}"}}"#, self.table);
        let response = client.request("POST", "/Tables", &[], body.as_bytes());
        assert_eq!(response.status, 201, "{response:?}");
    }

    /// Sends requests to all targets until `end` returns.
    fn work(&mut self, targets: &[Target], end: impl FnOnce(&Progress)) {
        let is_over = AtomicBool::new(false);
        let progress = Progress(self.members.iter().map(|_| AtomicU64::new(0)).collect());
        thread::scope(|scope| {
            for (index, (log, choices, seed)) in self.members.iter_mut().enumerate() {
                let (is_over, answers, table) = (&is_over, &progress.0[index], &self.table);
                let mut client = HttpClient::new(targets, index % targets.len(), table, *seed, answers);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(run_client(&mut client, log, choices, u64::MAX, is_over))
                });
            }
            // The clients stop even if this fails.
            let _end = EndOnDrop(&is_over);
            end(&progress);
        });
        assert!(progress.sum() > 0, "the clients made no progress");
    }

    /// Returns the longest time that a client waited for the answer to a write, including the attempts that were
    /// refused.
    fn longest_write(&self) -> Duration {
        let mut history = self.recorder.history();
        history.sort_unstable_by_key(|operation| (operation.client, operation.call));
        let waits = history.windows(2).filter_map(|pair| match pair {
            [before, write] if before.client == write.client && matches!(write.action, Action::Write { .. }) => {
                Some(write.returned?.saturating_sub(before.returned.unwrap_or(before.call)))
            }
            _ => None,
        });
        Duration::from_nanos(waits.max().unwrap_or_default())
    }

    /// Checks the history, and adds its size to the tally. Keeps a history that fails.
    fn check(&self, order: StampOrder, tally: &mut Tally) {
        let history = self.recorder.history();
        let report = check(&history, Rules::new(order));
        if !report.is_valid() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.jsonl", self.table));
            write_history(&kept, &history).unwrap();
            panic!("{report}\nThe history is in {}. {tally}", kept.display());
        }
        tally.operations += report.operations;
        tally.unknown += report.unknown;
    }
}

/// The number of answers that each client got.
struct Progress(Vec<AtomicU64>);

impl Progress {
    fn sum(&self) -> u64 {
        self.0.iter().map(|answers| answers.load(Ordering::Relaxed)).sum()
    }

    /// Waits until every client got a few more answers.
    fn wait_for_all(&self) {
        for (client, answers) in self.0.iter().enumerate() {
            let enough = answers.load(Ordering::Relaxed) + 3;
            eventually(&format!("answers for client {client}"), || {
                (answers.load(Ordering::Relaxed) >= enough).then_some(())
            });
        }
    }
}
