//! The transactions that the nodes of the database have sent and that are not in the log yet, and those that are
//! appended next. The transactions of a node keep their order; an [`Order`](crate::changes::order::Order) decides which
//! node is next.

use crate::changes::transactions::{Decoded, Received, ReceivedChange, Tables};
use std::collections::{BTreeMap, VecDeque};

/// The amounts that are appended at once, unless a single transaction is larger.
const STEP_BYTES_MAX: usize = 1 << 20;
const STEP_TRANSACTIONS_MAX: usize = 1000;
/// The size of the transactions that wait for those of other nodes, for each node.
const WAITING_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Received>,
    bytes: usize,
    /// Everything before this position has been appended or has no changes.
    decoded: u64,
}

/// The transactions that wait, and the state of the log after those that were appended.
#[derive(Debug)]
pub struct Merger {
    nodes: BTreeMap<i32, Queue>,
    tables: Tables,
    decoded: Decoded,
}

impl Merger {
    /// `nodes` contains how far the log of each node has been decoded.
    pub fn new(nodes: &BTreeMap<i32, u64>, tables: Tables) -> Self {
        let queue = |(group, decoded): (&i32, &u64)| (*group, Queue { decoded: *decoded, ..Queue::default() });
        Self { nodes: nodes.iter().map(queue).collect(), tables, decoded: Decoded::default() }
    }

    /// Returns whether more of a node should be received.
    pub fn has_room(&self, group: i32) -> bool {
        self.nodes.get(&group).is_some_and(|queue| queue.bytes < WAITING_BYTES_MAX)
    }

    /// Notes that a node has sent a transaction.
    pub fn receive(&mut self, group: i32, received: Received) {
        if let Some(queue) = self.nodes.get_mut(&group) {
            queue.bytes += received.bytes;
            queue.waiting.push_back(received);
        }
    }

    /// Notes that a node has sent everything before a position.
    pub fn note_end(&mut self, group: i32, end: u64) {
        if let Some(queue) = self.nodes.get_mut(&group).filter(|queue| queue.waiting.is_empty()) {
            queue.decoded = queue.decoded.max(end);
        }
    }

    /// Returns the nodes.
    pub fn groups(&self) -> impl Iterator<Item = i32> {
        self.nodes.keys().copied()
    }

    /// Returns how far the log of each node has been decoded.
    pub fn positions(&self) -> impl Iterator<Item = (i32, u64)> {
        self.nodes.iter().map(|(group, queue)| (*group, queue.decoded))
    }

    /// Returns how far the log of a node has been decoded.
    pub fn position(&self, group: i32) -> u64 {
        self.nodes.get(&group).map_or(0, |queue| queue.decoded)
    }

    /// Returns the first transaction of a node that waits.
    pub fn first(&self, group: i32) -> Option<&Received> {
        self.nodes.get(&group)?.waiting.front()
    }

    /// Returns the last transaction of a node that waits.
    pub fn last(&self, group: i32) -> Option<&Received> {
        self.nodes.get(&group)?.waiting.back()
    }

    /// Returns the tables after the appended transactions.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns whether no transactions wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.nodes.values().all(|queue| queue.waiting.is_empty())
    }

    /// Returns whether no more transactions should be appended before those that were are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.decoded.bytes >= STEP_BYTES_MAX || self.decoded.transactions.len() >= STEP_TRANSACTIONS_MAX
    }

    /// Returns what was appended since the last call.
    pub fn take(&mut self) -> Decoded {
        std::mem::take(&mut self.decoded)
    }

    /// Appends those changes of a node's first transaction for which the condition holds.
    pub fn append_first_of(&mut self, group: i32, is_of_log: impl Fn(&ReceivedChange) -> bool) {
        let Some(queue) = self.nodes.get_mut(&group) else { return };
        let Some(first) = queue.waiting.pop_front() else { return };
        queue.bytes = queue.bytes.saturating_sub(first.bytes);
        queue.decoded = queue.decoded.max(first.end);
        self.tables.append(first, &mut self.decoded, is_of_log);
    }
}
