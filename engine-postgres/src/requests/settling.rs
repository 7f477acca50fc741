//! Waits until no commit that read an earlier state of the catalog can still be running.
//!
//! A commit already has a transaction ID when it reads the catalog (`function`). A commit that found the earlier state
//! is therefore among the transactions that were running on its node when the node first showed the change. Once all
//! transactions that were running when the first node showed the change have ended, every node shows it: wherever the
//! change is not yet complete, it is one of those transactions. The wait is therefore repeated once.

use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::column;
use crate::state::PostgresState;
use engine::Fault;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The time after which a background task lists the tables that need its work, while it works on others.
pub(crate) const LISTING_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before checking again whether the transactions that were running during a change have ended.
const BUSY_WAIT: Duration = Duration::from_millis(200);
/// The maximum number of these pauses before the server waits for the next regular check.
const BUSY_WAITS_MAX: u32 = 10;

/// How often a background task checks for work.
#[derive(Default)]
pub(crate) struct Pace {
    busy_waits: u32,
}

impl Pace {
    /// Waits until the next check. `checked` is the result of the last one: whether there was work, or what failed and
    /// why. `work` announces work. Returns false if the engine is closed.
    pub(crate) async fn next(&mut self, checked: Result<bool, (&'static str, Fault)>, work: &Notify) -> bool {
        match checked {
            Ok(true) => {}
            Ok(false) => self.busy_waits = BUSY_WAITS_MAX,
            Err((_, Fault::Closed)) => return false,
            Err((what, error)) => {
                self.busy_waits = BUSY_WAITS_MAX;
                tracing::warn!(%error, "{what}; this will be retried");
            }
        }
        if self.busy_waits < BUSY_WAITS_MAX {
            self.busy_waits += 1;
            sleep(BUSY_WAIT).await;
        } else {
            let look = timeout(jittered(CHECK_INTERVAL), work.notified()).await;
            self.busy_waits = if look.is_ok() { 0 } else { BUSY_WAITS_MAX };
        }
        true
    }
}

/// A change of the catalog, and the transactions that may have read the earlier state.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Whether every node shows the change.
    is_everywhere: bool,
    /// The transactions that were running when the change was first seen, or when every node had shown it.
    transactions: Transactions,
    /// Whether no transaction that read the earlier state can still be running.
    is_settled: bool,
}

impl Settling {
    /// `now` must have been read after the change was seen.
    pub(crate) fn new(now: &Transactions) -> Self {
        Self { is_everywhere: false, transactions: now.clone(), is_settled: false }
    }

    /// Returns whether no transaction that read the earlier state can still be running.
    pub(crate) fn is_settled(&mut self, now: &Transactions) -> bool {
        if !self.is_settled && now.have_ended(&self.transactions) {
            *self = Self { is_everywhere: true, transactions: now.clone(), is_settled: self.is_everywhere };
        }
        self.is_settled
    }
}

/// The transactions that are running on each node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transactions(BTreeMap<i64, Node>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    /// The first transaction that was still running.
    first: u64,
    /// The first transaction that had not started yet.
    next: u64,
}

impl Transactions {
    /// Returns whether all transactions that were running at the earlier instant have ended. A node that was added
    /// since then ran none of them.
    fn have_ended(&self, earlier: &Self) -> bool {
        earlier.0.iter().all(|(node, then)| self.0.get(node).is_none_or(|now| now.first >= then.next))
    }
}

impl PostgresState {
    pub(crate) async fn transactions(&self) -> Result<Transactions, AttemptError> {
        let rows = self.pool.read(&self.names.transactions, &[]).await?;
        let unreadable = || AttemptError::Fault(Fault::Damaged("the transactions of a node cannot be read".to_owned()));
        let mut all = Transactions::default();
        for row in &rows {
            let node: i64 = column(row, 0).map_err(AttemptError::Fault)?;
            let text: &str = column(row, 1).map_err(AttemptError::Fault)?;
            if !column::<bool>(row, 2).map_err(AttemptError::Fault)? {
                return Err(AttemptError::Fault(Fault::Unavailable(format!("node {node}: {text}").into())));
            }
            let (first, next) = text.split_once(' ').ok_or_else(unreadable)?;
            let (Ok(first), Ok(next)) = (first.parse(), next.parse()) else { return Err(unreadable()) };
            all.0.insert(node, Node { first, next });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nodes: &[(i64, u64, u64)]) -> Transactions {
        Transactions(nodes.iter().map(|(node, first, next)| (*node, Node { first: *first, next: *next })).collect())
    }

    #[test]
    fn transactions_have_ended_when_the_first_that_runs_began_later() {
        let then = at(&[(1, 5, 9), (2, 7, 7)]);
        assert!(!at(&[(1, 8, 20), (2, 7, 7)]).have_ended(&then), "number 8 may have been running then");
        assert!(!at(&[(1, 9, 20), (2, 6, 9)]).have_ended(&then));
        assert!(at(&[(1, 9, 20), (2, 7, 7), (3, 1, 2)]).have_ended(&then));
        assert!(at(&[(1, 10, 20)]).have_ended(&then), "a removed node runs no transactions");
    }
}
