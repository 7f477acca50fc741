//! Periods in which the durable engine cannot write, because the process may not extend any file.

use super::{Choices, Pair, all_of, reserved_table};
use crate::support::*;
use engine::{CommitError, Fault, TableKey};
use model::{DateTime, Transaction};
use std::time::{Duration, Instant};

/// The maximum number of transactions while nothing can be written.
const TRANSACTIONS_MAX: usize = 8;
const RESUMPTION_MAX: Duration = TIMEOUT;

#[derive(Debug, Default)]
pub(crate) struct Faults {
    times: u64,
    interrupted: u64,
    happened: u64,
    refused: u64,
}

impl Pair {
    pub(crate) async fn fault(&mut self, limit_files: fn(Option<u64>), random: &mut Choices) -> String {
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
