//! Chooses which node's first transaction enters the change log next.
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
//! Only the coordinator sends changes of the catalog, and only workers send changes of entities.

use crate::order::placements::{Moves, Turn};
use engine_postgres::parts::{COORDINATOR, Merger, Received, ReceivedChange, Unorderable};
use std::collections::{BTreeMap, BTreeSet};

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

/// The moves and marks on which the choice depends.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) moves: Moves,
    marks: Option<Marks>,
}

impl Choice {
    pub(crate) fn new(moves: Moves) -> Self {
        Self { moves, marks: None }
    }

    /// `received` is what [`received`] returned before the logs were marked.
    pub(crate) fn set_marks(&mut self, received: u64, marks: BTreeMap<i32, u64>) {
        self.marks = Some(Marks { received, marks });
    }

    /// Describes for what each node's first transaction waits, for the log of the server.
    pub(crate) fn describe(&self, merger: &Merger) -> String {
        let head = |(group, position)| (group, position, self.head(merger, group));
        let heads: Vec<_> = merger.positions().map(head).collect();
        format!("{heads:?}, moves {:?}, marks {:?}", self.moves.are_pending(), self.marks)
    }

    /// Returns the node whose first transaction is next. If there is none, also returns what is needed to continue.
    pub(crate) fn next(&mut self, merger: &Merger) -> Result<(Option<i32>, Needs), Unorderable> {
        let position = |group| merger.positions().find(|(other, _)| *other == group).map_or(u64::MAX, |(_, end)| end);
        self.moves.forget_passed(position);
        let heads: BTreeMap<i32, Head> = merger.groups().map(|group| (group, self.head(merger, group))).collect();
        let ready = heads.iter().filter(|(_, head)| **head == Head::Ready).map(|(group, _)| *group);
        let time = |group: &i32| merger.first(*group).map(|first| first.time);
        let next = ready.min_by_key(time).or_else(|| overtaken(&heads));
        if next.is_some() {
            return Ok((next, Needs::default()));
        }
        // Nodes wait for each other.
        if live(&heads).len() < heads.len() {
            return Err(Unorderable("partitions were moved in both directions while the log was far behind"));
        }
        let needs = |head| heads.values().any(|other| *other == head);
        Ok((None, Needs { placements: needs(Head::NeedsPlacements), marks: needs(Head::NeedsMarks) }))
    }

    fn head(&self, merger: &Merger, group: i32) -> Head {
        let Some(first) = merger.first(group) else { return Head::Missing };
        if group == COORDINATOR {
            return self.head_of_coordinator(merger, first);
        }
        let mut after = BTreeSet::new();
        for change in &first.changes {
            let ReceivedChange::Entity { table, hash, .. } = change else { continue };
            if !merger.tables().contains(*table) {
                // The table was deleted, or the coordinator has not sent yet that it was created.
                after.extend((*table > merger.tables().last).then_some(COORDINATOR));
                continue;
            }
            match self.moves.turn(*hash, group, first.end) {
                Turn::Now => {}
                Turn::After(other, mark) if merger.position(other) >= mark => {}
                Turn::After(other, _) => after.extend([other]),
                Turn::Unknown => return Head::NeedsPlacements,
            }
        }
        if after.is_empty() { Head::Ready } else { Head::After(after) }
    }

    fn head_of_coordinator(&self, merger: &Merger, first: &Received) -> Head {
        if !first.changes.iter().any(ReceivedChange::is_of_catalog) {
            return Head::Ready;
        }
        let Some(marks) = self.marks.as_ref().filter(|marks| first.end <= marks.received) else {
            return Head::NeedsMarks;
        };
        let is_behind =
            |(group, mark): &(&i32, &u64)| merger.position(**group) < **mark && !waits_for_table(merger, **group);
        let after: BTreeSet<i32> = marks.marks.iter().filter(is_behind).map(|(group, _)| *group).collect();
        if after.is_empty() { Head::Ready } else { Head::After(after) }
    }
}

/// Returns whether the first transaction of a node changes a table that the coordinator creates later. Then it cannot
/// be part of what precedes the coordinator's next change.
fn waits_for_table(merger: &Merger, group: i32) -> bool {
    let is_later = |table: i64| table > merger.tables().last && !merger.tables().contains(table);
    merger.first(group).is_some_and(|first| {
        first.changes.iter().any(|change| matches!(change, ReceivedChange::Entity { table, .. } if is_later(*table)))
    })
}

/// Returns the position up to which the coordinator's changes have been received.
pub(crate) fn received(merger: &Merger) -> u64 {
    merger.last(COORDINATOR).map_or(0, |last| last.end)
}

/// Returns whether a change belongs to the log if this node sends it.
pub(crate) fn is_of_log(group: i32, change: &ReceivedChange) -> bool {
    change.is_of_catalog() == (group == COORDINATOR)
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
    use crate::order::placements::{Placement, Placements};
    use engine_postgres::parts::{Scope, StoredChange, Tables};
    use model::DateTime;
    use std::collections::HashMap;
    use std::sync::Arc;

    fn placements(groups: [(i32, i64); 2], last: i64) -> Placements {
        let [(low, low_number), (high, high_number)] = groups;
        let of = |first, last, group, number| Placement { first, last, group, number };
        Placements::new(vec![of(i32::MIN, -1, low, low_number), of(0, i32::MAX, high, high_number)], last).unwrap()
    }

    struct Log {
        merger: Merger,
        choice: Choice,
    }

    impl Log {
        fn try_merge(&mut self) -> Result<Needs, Unorderable> {
            loop {
                match self.choice.next(&self.merger)? {
                    (Some(group), _) => self.merger.append_first_of(group, |change| is_of_log(group, change)),
                    (None, needs) => return Ok(needs),
                }
            }
        }

        fn set_marks(&mut self, received: u64, marks: [(i32, u64); 2]) {
            self.choice.set_marks(received, BTreeMap::from(marks));
        }
    }

    /// Returns the log of the workers 1 and 2, which have the negative and the other hashes. The table 7 exists.
    fn log() -> Log {
        let nodes = BTreeMap::from([(0, 0), (1, 0), (2, 0)]);
        let tables = HashMap::from([(7, scope("seven"))]);
        let merger = Merger::new(&nodes, Tables::new(tables, 7));
        Log { merger, choice: Choice::new(Moves::new(placements([(1, 1), (2, 2)], 2))) }
    }

    fn scope(name: &str) -> Arc<Scope> {
        Arc::new(Scope { account: "account1".to_owned(), table: Some(name.to_owned()) })
    }

    fn receive(log: &mut Log, group: i32, end: u64, time: i64, change: ReceivedChange) {
        let time = DateTime::from_ticks(time).unwrap();
        let received = Received { end, time, is_expiry: false, changes: vec![change], bytes: 1 };
        log.merger.receive(group, received);
    }

    fn delete(table: i64, hash: i32) -> ReceivedChange {
        ReceivedChange::Entity { table, hash, change: StoredChange::Delete { key: Vec::new(), is_expired: false } }
    }

    fn create(id: i64, name: &str) -> ReceivedChange {
        ReceivedChange::CreateTable { id, scope: scope(name) }
    }

    /// Merges, and returns the appended transactions: the first letter of each table, and the time.
    fn merge(log: &mut Log) -> (Needs, Vec<(String, i64)>) {
        let needs = log.try_merge().unwrap();
        let letter = |name: &Option<String>| name.as_ref().unwrap()[..1].to_owned();
        let transactions = log.merger.take().transactions;
        (needs, transactions.iter().map(|one| (letter(&one.scope.table), one.time.ticks())).collect())
    }

    fn of_seven(times: &[i64]) -> Vec<(String, i64)> {
        times.iter().map(|time| ("s".to_owned(), *time)).collect()
    }

    const NOTHING: Needs = Needs { placements: false, marks: false };

    #[test]
    fn the_earliest_transaction_is_next() {
        let mut log = log();
        for (group, hash, times) in [(1, -5, [1_i64, 4, 5]), (2, 5, [2, 3, 6])] {
            for time in times {
                receive(&mut log, group, time.unsigned_abs() * 10, time, delete(7, hash));
            }
        }
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[1, 2, 3, 4, 5, 6])));
        log.merger.note_end(0, 99);
        assert_eq!(log.merger.positions().collect::<Vec<_>>(), [(0, 99), (1, 50), (2, 60)]);
    }

    #[test]
    fn a_new_table_is_awaited_and_a_deleted_one_left_out() {
        let mut log = log();
        receive(&mut log, 1, 10, 1, delete(9, -5));
        receive(&mut log, 1, 20, 2, delete(7, -5));
        receive(&mut log, 2, 10, 3, delete(6, 5));
        assert_eq!(merge(&mut log), (NOTHING, Vec::new()));
        assert_eq!((log.merger.position(1), log.merger.position(2)), (0, 10));
        receive(&mut log, 0, 10, 9, create(9, "nine"));
        assert_eq!(merge(&mut log), (Needs { marks: true, ..NOTHING }, Vec::new()));
        // A node that waits for the table cannot have what precedes its creation.
        log.set_marks(received(&log.merger), [(1, 30), (2, 30)]);
        assert_eq!(merge(&mut log), (NOTHING, Vec::new()));
        receive(&mut log, 2, 30, 4, delete(7, 5));
        let (needs, merged) = merge(&mut log);
        assert_eq!((needs, &merged[..2]), (NOTHING, &[("s".to_owned(), 4), ("n".to_owned(), 9)][..]));
        assert_eq!(&merged[2..], [("n".to_owned(), 1), ("s".to_owned(), 2)]);
    }

    #[test]
    fn a_table_is_deleted_after_what_was_acknowledged() {
        let mut log = log();
        receive(&mut log, 0, 10, 1, ReceivedChange::DeleteTable { id: 7 });
        assert!(merge(&mut log).0.marks);
        log.set_marks(10, [(1, 20), (2, 20)]);
        receive(&mut log, 1, 20, 5, delete(7, -5));
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[5])));
        // The deletion overtook these.
        receive(&mut log, 2, 30, 6, delete(7, 5));
        receive(&mut log, 1, 40, 7, delete(7, -5));
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[6, 1])));
    }

    #[test]
    fn a_moved_partition_keeps_its_order() {
        let mut log = log();
        receive(&mut log, 2, 10, 9, delete(7, -5));
        assert_eq!(merge(&mut log), (Needs { placements: true, ..NOTHING }, Vec::new()));
        let read = placements([(2, 3), (2, 2)], 3);
        let moves = &mut log.choice.moves;
        assert_eq!(moves.left(&read, 1), Ok(vec![1]));
        moves.take(read, |_| Some(50)).unwrap();
        receive(&mut log, 1, 40, 10, delete(7, -5));
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[10])));
        assert!(log.choice.moves.are_pending());
        // Another partition on the same node.
        receive(&mut log, 2, 20, 11, delete(7, 5));
        assert_eq!(merge(&mut log).1.len(), 0);
        log.merger
            .receive(1, Received { end: 60, time: DateTime::MIN, is_expiry: false, changes: Vec::new(), bytes: 0 });
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[9, 11])));
        assert!(!log.choice.moves.are_pending());
    }

    #[test]
    fn nodes_that_wait_for_each_other_are_an_error_unless_the_coordinator_can_go_first() {
        let mut log = log();
        let read = placements([(2, 3), (1, 4)], 4);
        log.choice.moves.take(read, |_| Some(50)).unwrap();
        receive(&mut log, 2, 10, 1, delete(7, -5));
        receive(&mut log, 0, 10, 2, ReceivedChange::DeleteTable { id: 7 });
        log.set_marks(10, [(1, 20), (2, 20)]);
        assert_eq!(merge(&mut log), (NOTHING, Vec::new()));
        receive(&mut log, 1, 10, 1, delete(7, 5));
        assert_eq!(merge(&mut log), (NOTHING, of_seven(&[2])));
        receive(&mut log, 0, 20, 3, create(9, "nine"));
        log.set_marks(20, [(1, 10), (2, 10)]);
        assert_eq!(merge(&mut log).1, [("n".to_owned(), 3)]);
        receive(&mut log, 2, 20, 4, delete(9, -5));
        receive(&mut log, 1, 20, 4, delete(9, 5));
        assert!(log.try_merge().is_err());
    }

    #[test]
    fn a_node_whose_changes_wait_does_not_send_more() {
        let mut log = log();
        let put = |size| {
            let change = StoredChange::Put { key: Vec::new(), record: vec![0; size] };
            ReceivedChange::Entity { table: 9, hash: -5, change }
        };
        let big = Received { end: 10, time: DateTime::MIN, is_expiry: false, changes: vec![put(8)], bytes: 1 << 30 };
        log.merger.receive(1, big);
        assert!(!log.merger.has_room(1) && log.merger.has_room(2) && !log.merger.has_room(3));
        receive(&mut log, 0, 10, 1, create(9, "nine"));
        log.choice.set_marks(10, BTreeMap::new());
        assert_eq!(merge(&mut log).1.len(), 2);
        assert!(log.merger.has_room(1));
    }
}
