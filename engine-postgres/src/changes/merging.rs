//! Merges the transactions that the nodes of the database send into one log.
//!
//! Invariants:
//!
//! 1. The transactions of a node keep their order.
//! 2. The changes of a partition that was moved between nodes keep their order (`placements`).
//! 3. A table is created before its first change. A change of the catalog follows all changes of entities that were
//!    acknowledged before it: the logs of all nodes are marked when the change has been received, and decoded up to
//!    there first.
//! 4. Among the transactions that may be next, the earliest is. Clocks of nodes differ, so this is not exact.
//!
//! On Citus, only the coordinator sends changes of the catalog, and only workers send changes of entities. Otherwise,
//! there is one node, which sends everything in order.

use crate::changes::placements::{Moves, Turn, Unorderable};
use crate::changes::transactions::{Decoded, Received, ReceivedChange, Tables};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The group of the coordinator, or of the only node.
pub(crate) const COORDINATOR: i32 = 0;
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

/// The first transaction of a node.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    Missing,
    /// It can be appended.
    Ready,
    /// It can be appended when these groups have been decoded further.
    After(BTreeSet<i32>),
    NeedsPlacements,
    NeedsMarks,
}

/// The positions that mark the logs of the workers, and the position in the coordinator's log up to which changes of
/// the catalog were received before.
#[derive(Debug)]
struct Marks {
    received: u64,
    marks: BTreeMap<i32, u64>,
}

/// What is needed to continue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) placements: bool,
    pub(crate) marks: bool,
}

/// The transactions that wait, and the state of the log after those that were appended.
#[derive(Debug)]
pub(crate) struct Merger {
    nodes: BTreeMap<i32, Queue>,
    tables: Tables,
    /// Missing if there is only one node.
    moves: Option<Moves>,
    marks: Option<Marks>,
    decoded: Decoded,
}

impl Merger {
    /// `nodes` contains how far the log of each node has been decoded.
    pub(crate) fn new(nodes: &BTreeMap<i32, u64>, tables: Tables, moves: Option<Moves>) -> Self {
        let queue = |(group, decoded): (&i32, &u64)| (*group, Queue { decoded: *decoded, ..Queue::default() });
        let nodes = nodes.iter().map(queue).collect();
        Self { nodes, tables, moves, marks: None, decoded: Decoded::default() }
    }

    /// Returns whether more of a node should be received.
    pub(crate) fn has_room(&self, group: i32) -> bool {
        self.nodes.get(&group).is_some_and(|queue| queue.bytes < WAITING_BYTES_MAX)
    }

    pub(crate) fn receive(&mut self, group: i32, received: Received) {
        if let Some(queue) = self.nodes.get_mut(&group) {
            queue.bytes += received.bytes;
            queue.waiting.push_back(received);
        }
    }

    /// Notes that a node has sent everything before a position.
    pub(crate) fn note_end(&mut self, group: i32, end: u64) {
        if let Some(queue) = self.nodes.get_mut(&group).filter(|queue| queue.waiting.is_empty()) {
            queue.decoded = queue.decoded.max(end);
        }
    }

    /// Returns how far the log of each node has been decoded.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (i32, u64)> {
        self.nodes.iter().map(|(group, queue)| (*group, queue.decoded))
    }

    pub(crate) fn position(&self, group: i32) -> u64 {
        self.nodes.get(&group).map_or(0, |queue| queue.decoded)
    }

    /// Returns whether no transactions wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.nodes.values().all(|queue| queue.waiting.is_empty())
    }

    /// Describes for what each node's first transaction waits, for the log of the server.
    pub(crate) fn describe(&self) -> String {
        let heads: Vec<_> = self.positions().map(|(group, position)| (group, position, self.head(group))).collect();
        format!("{heads:?}, moves {:?}, marks {:?}", self.moves.as_ref().map(Moves::are_pending), self.marks)
    }

    pub(crate) fn last_table(&self) -> i64 {
        self.tables.last
    }

    pub(crate) fn moves(&mut self) -> Option<&mut Moves> {
        self.moves.as_mut()
    }

    /// Returns the position up to which the coordinator's changes have been received.
    pub(crate) fn received(&self) -> u64 {
        self.nodes.get(&COORDINATOR).and_then(|queue| queue.waiting.back()).map_or(0, |last| last.end)
    }

    /// `received` is what [`Self::received`] returned before the logs were marked.
    pub(crate) fn set_marks(&mut self, received: u64, marks: BTreeMap<i32, u64>) {
        self.marks = Some(Marks { received, marks });
    }

    /// Appends transactions, up to the maximum of a step. Returns what is needed to append more, and whether the step
    /// is full.
    pub(crate) fn merge(&mut self) -> Result<(Needs, bool), Unorderable> {
        loop {
            if self.decoded.bytes >= STEP_BYTES_MAX || self.decoded.transactions.len() >= STEP_TRANSACTIONS_MAX {
                return Ok((Needs::default(), true));
            }
            let heads: BTreeMap<i32, Head> = self.nodes.keys().map(|group| (*group, self.head(*group))).collect();
            let ready = heads.iter().filter(|(_, head)| **head == Head::Ready).map(|(group, _)| *group);
            let time = |group: &i32| self.nodes.get(group)?.waiting.front().map(|first| first.time);
            let next = ready.min_by_key(time).or_else(|| overtaken(&heads));
            if let Some(group) = next {
                self.append_first_of(group);
                continue;
            }
            // Nodes wait for each other.
            if live(&heads).len() < heads.len() {
                return Err(Unorderable("partitions were moved in both directions while the log was far behind"));
            }
            let needs = |head| heads.values().any(|other| *other == head);
            return Ok((Needs { placements: needs(Head::NeedsPlacements), marks: needs(Head::NeedsMarks) }, false));
        }
    }

    /// Returns what was appended since the last call.
    pub(crate) fn take(&mut self) -> Decoded {
        std::mem::take(&mut self.decoded)
    }

    fn append_first_of(&mut self, group: i32) {
        let Some(queue) = self.nodes.get_mut(&group) else { return };
        let Some(first) = queue.waiting.pop_front() else { return };
        queue.bytes = queue.bytes.saturating_sub(first.bytes);
        queue.decoded = queue.decoded.max(first.end);
        let has_workers = self.moves.is_some();
        let is_of_log = |change: &ReceivedChange| !has_workers || change.is_of_catalog() == (group == COORDINATOR);
        self.tables.append(first, &mut self.decoded, is_of_log);
        if let Some(moves) = &mut self.moves {
            moves.forget_passed(|group| self.nodes.get(&group).map_or(u64::MAX, |queue| queue.decoded));
        }
    }

    fn head(&self, group: i32) -> Head {
        let Some(first) = self.nodes.get(&group).and_then(|queue| queue.waiting.front()) else { return Head::Missing };
        let Some(moves) = &self.moves else { return Head::Ready };
        if group == COORDINATOR {
            return self.head_of_coordinator(first);
        }
        let mut after = BTreeSet::new();
        for change in &first.changes {
            let ReceivedChange::Entity { table, hash, .. } = change else { continue };
            if !self.tables.contains(*table) {
                // The table was deleted, or the coordinator has not sent yet that it was created.
                after.extend((*table > self.tables.last).then_some(COORDINATOR));
                continue;
            }
            match moves.turn(*hash, group, first.end) {
                Turn::Now => {}
                Turn::After(other, mark) if self.position(other) >= mark => {}
                Turn::After(other, _) => after.extend([other]),
                Turn::Unknown => return Head::NeedsPlacements,
            }
        }
        if after.is_empty() { Head::Ready } else { Head::After(after) }
    }

    fn head_of_coordinator(&self, first: &Received) -> Head {
        if !first.changes.iter().any(ReceivedChange::is_of_catalog) {
            return Head::Ready;
        }
        let Some(marks) = self.marks.as_ref().filter(|marks| first.end <= marks.received) else {
            return Head::NeedsMarks;
        };
        let is_behind =
            |(group, mark): &(&i32, &u64)| self.position(**group) < **mark && !self.waits_for_table(**group);
        let after: BTreeSet<i32> = marks.marks.iter().filter(is_behind).map(|(group, _)| *group).collect();
        if after.is_empty() { Head::Ready } else { Head::After(after) }
    }

    /// Returns whether the first transaction of a node changes a table that the coordinator creates later. Then it
    /// cannot be part of what precedes the coordinator's next change.
    fn waits_for_table(&self, group: i32) -> bool {
        let first = self.nodes.get(&group).and_then(|queue| queue.waiting.front());
        first.is_some_and(|first| {
            first.changes.iter().any(
                |change| matches!(change, ReceivedChange::Entity { table, .. } if *table > self.tables.last && !self.tables.contains(*table)),
            )
        })
    }
}

/// Returns the coordinator if it waits for nodes that wait for it.
fn overtaken(heads: &BTreeMap<i32, Head>) -> Option<i32> {
    let is_waiting = matches!(heads.get(&COORDINATOR), Some(Head::After(_)));
    (is_waiting && !live(heads).contains(&COORDINATOR)).then_some(COORDINATOR)
}

/// Returns the groups that can continue at some time.
fn live(heads: &BTreeMap<i32, Head>) -> BTreeSet<i32> {
    let mut live = BTreeSet::new();
    loop {
        let before = live.len();
        for (group, head) in heads {
            if !matches!(head, Head::After(others) if !others.iter().all(|other| live.contains(other))) {
                live.insert(*group);
            }
        }
        if live.len() == before {
            return live;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::placements::{Placement, Placements};
    use crate::changes::stored::StoredChange;
    use crate::changes::transactions::Scope;
    use model::DateTime;
    use std::collections::HashMap;
    use std::sync::Arc;

    fn placements(groups: [(i32, i64); 2], last: i64) -> Placements {
        let [(low, low_number), (high, high_number)] = groups;
        let of = |first, last, group, number| Placement { first, last, group, number };
        Placements::new(vec![of(i32::MIN, -1, low, low_number), of(0, i32::MAX, high, high_number)], last).unwrap()
    }

    /// Returns a merger of the workers 1 and 2, which have the negative and the other hashes. The table 7 exists.
    fn merger() -> Merger {
        let nodes = BTreeMap::from([(0, 0), (1, 0), (2, 0)]);
        let tables = HashMap::from([(7, scope("seven"))]);
        Merger::new(&nodes, Tables::new(tables, 7), Some(Moves::new(placements([(1, 1), (2, 2)], 2))))
    }

    fn scope(name: &str) -> Arc<Scope> {
        Arc::new(Scope { account: "account1".to_owned(), table: Some(name.to_owned()) })
    }

    fn receive(merger: &mut Merger, group: i32, end: u64, time: i64, change: ReceivedChange) {
        let time = DateTime::from_ticks(time).unwrap();
        let received = Received { end, time, is_expiry: false, changes: vec![change], bytes: 1 };
        merger.receive(group, received);
    }

    fn delete(table: i64, hash: i32) -> ReceivedChange {
        ReceivedChange::Entity { table, hash, change: StoredChange::Delete { key: Vec::new(), is_expired: false } }
    }

    fn create(id: i64, name: &str) -> ReceivedChange {
        ReceivedChange::CreateTable { id, scope: scope(name) }
    }

    /// Merges, and returns the appended transactions: the first letter of each table, and the time.
    fn merge(merger: &mut Merger) -> (Needs, Vec<(String, i64)>) {
        let (needs, _) = merger.merge().unwrap();
        let letter = |name: &Option<String>| name.as_ref().unwrap()[..1].to_owned();
        let transactions = merger.take().transactions;
        (needs, transactions.iter().map(|one| (letter(&one.scope.table), one.time.ticks())).collect())
    }

    fn of_seven(times: &[i64]) -> Vec<(String, i64)> {
        times.iter().map(|time| ("s".to_owned(), *time)).collect()
    }

    const NOTHING: Needs = Needs { placements: false, marks: false };

    #[test]
    fn the_earliest_transaction_is_next() {
        let mut merger = merger();
        for (group, hash, times) in [(1, -5, [1_i64, 4, 5]), (2, 5, [2, 3, 6])] {
            for time in times {
                receive(&mut merger, group, time.unsigned_abs() * 10, time, delete(7, hash));
            }
        }
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[1, 2, 3, 4, 5, 6])));
        merger.note_end(0, 99);
        assert_eq!(merger.positions().collect::<Vec<_>>(), [(0, 99), (1, 50), (2, 60)]);
    }

    #[test]
    fn a_new_table_is_awaited_and_a_deleted_one_left_out() {
        let mut merger = merger();
        receive(&mut merger, 1, 10, 1, delete(9, -5));
        receive(&mut merger, 1, 20, 2, delete(7, -5));
        receive(&mut merger, 2, 10, 3, delete(6, 5));
        assert_eq!(merge(&mut merger), (NOTHING, Vec::new()));
        assert_eq!((merger.position(1), merger.position(2)), (0, 10));
        receive(&mut merger, 0, 10, 9, create(9, "nine"));
        assert_eq!(merge(&mut merger), (Needs { marks: true, ..NOTHING }, Vec::new()));
        // A node that waits for the table cannot have what precedes its creation.
        merger.set_marks(merger.received(), BTreeMap::from([(1, 30), (2, 30)]));
        assert_eq!(merge(&mut merger), (NOTHING, Vec::new()));
        receive(&mut merger, 2, 30, 4, delete(7, 5));
        let (needs, merged) = merge(&mut merger);
        assert_eq!((needs, &merged[..2]), (NOTHING, &[("s".to_owned(), 4), ("n".to_owned(), 9)][..]));
        assert_eq!(&merged[2..], [("n".to_owned(), 1), ("s".to_owned(), 2)]);
    }

    #[test]
    fn a_table_is_deleted_after_what_was_acknowledged() {
        let mut merger = merger();
        receive(&mut merger, 0, 10, 1, ReceivedChange::DeleteTable { id: 7 });
        assert!(merge(&mut merger).0.marks);
        merger.set_marks(10, BTreeMap::from([(1, 20), (2, 20)]));
        receive(&mut merger, 1, 20, 5, delete(7, -5));
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[5])));
        // The deletion overtook these.
        receive(&mut merger, 2, 30, 6, delete(7, 5));
        receive(&mut merger, 1, 40, 7, delete(7, -5));
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[6, 1])));
    }

    #[test]
    fn a_moved_partition_keeps_its_order() {
        let mut merger = merger();
        receive(&mut merger, 2, 10, 9, delete(7, -5));
        assert_eq!(merge(&mut merger), (Needs { placements: true, ..NOTHING }, Vec::new()));
        let read = placements([(2, 3), (2, 2)], 3);
        let moves = merger.moves().unwrap();
        assert_eq!(moves.left(&read, 1), Ok(vec![1]));
        moves.take(read, |_| Some(50)).unwrap();
        receive(&mut merger, 1, 40, 10, delete(7, -5));
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[10])));
        assert!(merger.moves().unwrap().are_pending());
        // Another partition on the same node.
        receive(&mut merger, 2, 20, 11, delete(7, 5));
        assert_eq!(merge(&mut merger).1.len(), 0);
        merger.receive(1, Received { end: 60, time: DateTime::MIN, is_expiry: false, changes: Vec::new(), bytes: 0 });
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[9, 11])));
        assert!(!merger.moves().unwrap().are_pending());
    }

    #[test]
    fn nodes_that_wait_for_each_other_are_an_error_unless_the_coordinator_can_go_first() {
        let mut merger = merger();
        let read = placements([(2, 3), (1, 4)], 4);
        merger.moves().unwrap().take(read, |_| Some(50)).unwrap();
        receive(&mut merger, 2, 10, 1, delete(7, -5));
        receive(&mut merger, 0, 10, 2, ReceivedChange::DeleteTable { id: 7 });
        merger.set_marks(10, BTreeMap::from([(1, 20), (2, 20)]));
        assert_eq!(merge(&mut merger), (NOTHING, Vec::new()));
        receive(&mut merger, 1, 10, 1, delete(7, 5));
        assert_eq!(merge(&mut merger), (NOTHING, of_seven(&[2])));
        receive(&mut merger, 0, 20, 3, create(9, "nine"));
        merger.set_marks(20, BTreeMap::from([(1, 10), (2, 10)]));
        assert_eq!(merge(&mut merger).1, [("n".to_owned(), 3)]);
        receive(&mut merger, 2, 20, 4, delete(9, -5));
        receive(&mut merger, 1, 20, 4, delete(9, 5));
        assert!(merger.merge().is_err());
    }

    #[test]
    fn a_node_whose_changes_wait_does_not_send_more() {
        let mut merger = merger();
        let put = |size| {
            let change = StoredChange::Put { key: Vec::new(), record: vec![0; size] };
            ReceivedChange::Entity { table: 9, hash: -5, change }
        };
        let big = Received {
            end: 10,
            time: DateTime::MIN,
            is_expiry: false,
            changes: vec![put(8)],
            bytes: WAITING_BYTES_MAX,
        };
        merger.receive(1, big);
        assert!(!merger.has_room(1) && merger.has_room(2) && !merger.has_room(3));
        receive(&mut merger, 0, 10, 1, create(9, "nine"));
        merger.set_marks(10, BTreeMap::new());
        assert_eq!(merge(&mut merger).1.len(), 2);
        assert!(merger.has_room(1));
    }
}
