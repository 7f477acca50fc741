//! The nodes on which Citus stores the partitions, and the order of the changes of a partition that is moved.
//!
//! The coordinator gives each placement of a shard on a node a number. A moved or split shard gets new placements with
//! higher numbers. (On workers, a placement that moved keeps its number.)
//! The placements are read at intervals, and whenever a node sends a change of a partition that is not known to be
//! there. If a partition has moved, the log of the node that it left is marked after that. The node's changes before
//! the mark precede all changes of the node to which the partition moved.
//!
//! Invariants:
//!
//! 1. A partition has moved at most once since the placements were last read. Otherwise, a number is missing: it
//!    belonged to a placement that came and went. The order of the changes would then be unknown, so a new log begins.
//! 2. Placements are not read again before all nodes are decoded up to their marks.

use crate::hash::{HashRange, HashRanges};
use engine_postgres::parts::Unorderable;
use std::fmt::Write;

/// The partitions whose hash is in a range, and the group of nodes that stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) group: i32,
    pub(crate) number: i64,
}

impl HashRange for Placement {
    fn first(&self) -> i32 {
        self.first
    }

    fn last(&self) -> i32 {
        self.last
    }
}

/// The placements of the entities at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placements {
    of_entities: HashRanges<Placement>,
    /// The highest number of any placement in the cluster.
    pub(crate) last: i64,
}

/// A range of partitions that moved away from a group, whose log was marked after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    first: i32,
    last: i32,
    from: i32,
    mark: u64,
}

/// The placements as last read, and the moves that the log has not passed yet.
#[derive(Debug)]
pub(crate) struct Moves {
    placements: Placements,
    pending: Vec<Move>,
    /// Whether partitions have moved since the placements were stored.
    is_unsaved: bool,
}

/// Whether a change of a partition can be appended to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// When the log of the group has been decoded up to its mark.
    After(i32, u64),
    /// The placements must be read.
    Unknown,
}

impl Placements {
    /// Returns `None` unless every hash belongs to exactly one of the placements.
    pub(crate) fn new(of_entities: Vec<Placement>, last: i64) -> Option<Self> {
        Some(Self { of_entities: HashRanges::new(of_entities)?, last })
    }

    /// Reads what [`Self::to_text`] returned.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (last, rest) = text.split_once(' ')?;
        let placement = |text: &str| {
            let mut values = text.split(':');
            let placement = Placement {
                first: values.next()?.parse().ok()?,
                last: values.next()?.parse().ok()?,
                group: values.next()?.parse().ok()?,
                number: values.next()?.parse().ok()?,
            };
            values.next().is_none().then_some(placement)
        };
        Self::new(rest.split(' ').map(placement).collect::<Option<_>>()?, last.parse().ok()?)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = self.last.to_string();
        for Placement { first, last, group, number } in self.of_entities.iter() {
            write!(text, " {first}:{last}:{group}:{number}").expect("writing to a string cannot fail");
        }
        text
    }

    pub(crate) fn has(&self, group: i32) -> bool {
        self.of_entities.iter().any(|placement| placement.group == group)
    }

    /// Returns whether all groups that have entities are expected.
    pub(crate) fn are_on(&self, is_expected: impl Fn(i32) -> bool) -> bool {
        self.of_entities.iter().all(|placement| is_expected(placement.group))
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.of_entities == other.of_entities
    }
}

impl Moves {
    pub(crate) fn new(placements: Placements) -> Self {
        Self { placements, pending: Vec::new(), is_unsaved: false }
    }

    pub(crate) fn placements(&self) -> &Placements {
        &self.placements
    }

    pub(crate) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the log has passed all moves, and the placements are stored.
    pub(crate) fn are_settled(&self) -> bool {
        !self.are_pending() && !self.is_unsaved
    }

    /// Returns the placements if they must be stored: partitions have moved, and the log has passed that.
    pub(crate) fn take_unsaved(&mut self) -> Option<&Placements> {
        let is_due = self.is_unsaved && !self.are_pending();
        self.is_unsaved &= !is_due;
        is_due.then_some(&self.placements)
    }

    /// Returns the groups that partitions have left, according to placements that were just read. Their logs must be
    /// marked. `added` is the number of placements with a higher number than the last that is known.
    pub(crate) fn left(&self, read: &Placements, added: i64) -> Result<Vec<i32>, Unorderable> {
        if !self.placements.is_same(read) && read.last - self.placements.last != added {
            return Err(Unorderable("partitions were moved more than once while no server looked"));
        }
        let mut groups: Vec<i32> = self.moves(read)?.into_iter().map(|moved| moved.from).collect();
        groups.sort_unstable();
        groups.dedup();
        Ok(groups)
    }

    /// Takes placements that were read, and are still the same after the logs were marked. No moves must be pending.
    pub(crate) fn take(&mut self, read: Placements, mark: impl Fn(i32) -> Option<u64>) -> Result<(), Unorderable> {
        let mut moves = self.moves(&read)?;
        for moved in &mut moves {
            moved.mark = mark(moved.from).ok_or(Unorderable("the log of a node was not marked"))?;
        }
        self.is_unsaved |= !self.placements.is_same(&read);
        (self.placements, self.pending) = (read, moves);
        Ok(())
    }

    /// Returns the moves between the last known placements and those that were read, without marks.
    fn moves(&self, read: &Placements) -> Result<Vec<Move>, Unorderable> {
        let mut moves = Vec::new();
        for now in read.of_entities.iter() {
            let before = self.placements.of_entities.at(now.first).filter(|before| before.last >= now.last);
            // Citus splits shards, but never joins them.
            let before = before.ok_or(Unorderable("the shards are not parts of the previous shards"))?;
            if before.group != now.group {
                moves.push(Move { first: now.first, last: now.last, from: before.group, mark: 0 });
            }
        }
        Ok(moves)
    }

    /// Forgets moves that the log has passed. `decoded` returns how far the log of a group has been decoded.
    pub(crate) fn forget_passed(&mut self, decoded: impl Fn(i32) -> u64) {
        self.pending.retain(|moved| decoded(moved.from) < moved.mark);
    }

    /// Returns whether a change that a group sent can be appended. `end` is its position in the log of the group.
    pub(crate) fn turn(&self, hash: i32, group: i32, end: u64) -> Turn {
        let Some(owner) = self.placements.of_entities.at(hash) else { return Turn::Unknown };
        let moved = self.pending.iter().find(|moved| (moved.first..=moved.last).contains(&hash));
        match moved {
            Some(moved) if moved.from == group && end <= moved.mark => Turn::Now,
            Some(moved) if owner.group == group => Turn::After(moved.from, moved.mark),
            None if owner.group == group => Turn::Now,
            _ => Turn::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(first: i32, last: i32, group: i32, number: i64) -> Placement {
        Placement { first, last, group, number }
    }

    fn placements(middle: (i32, i64), last: i64) -> Placements {
        let (group, number) = middle;
        let all = vec![placement(10, i32::MAX, 2, 2), placement(i32::MIN, 0, 1, 1), placement(1, 9, group, number)];
        Placements::new(all, last).unwrap()
    }

    #[test]
    fn placements_are_stored_and_read() {
        let placements = placements((1, 3), 4);
        let text = placements.to_text();
        assert_eq!(text, "4 -2147483648:0:1:1 1:9:1:3 10:2147483647:2:2");
        assert_eq!(Placements::parse(&text), Some(placements.clone()));
        for text in ["", "4", "4 ", "x -2147483648:2147483647:1:1", "4 -2147483648:0:1:1", "4 -2147483648:2147483647:1"]
        {
            assert_eq!(Placements::parse(text), None, "{text}");
        }
        assert!(placements.has(2) && !placements.has(3));
    }

    #[test]
    fn changes_after_a_move_follow_those_before_it() {
        let mut moves = Moves::new(placements((1, 3), 3));
        assert_eq!((moves.turn(5, 1, 70), moves.turn(5, 2, 70)), (Turn::Now, Turn::Unknown));
        // A split, of which one half moves.
        let read = vec![
            placement(i32::MIN, 0, 1, 1),
            placement(1, 4, 1, 4),
            placement(5, 9, 2, 5),
            placement(10, i32::MAX, 2, 2),
        ];
        let read = Placements::new(read, 5).unwrap();
        assert_eq!(moves.left(&read, 2), Ok(vec![1]));
        assert_eq!(moves.take(read.clone(), |_| Some(100)), Ok(()));
        assert!(moves.are_pending() && moves.take_unsaved().is_none());
        assert_eq!((moves.turn(4, 1, 500), moves.turn(4, 2, 70)), (Turn::Now, Turn::Unknown));
        assert_eq!((moves.turn(5, 1, 100), moves.turn(5, 1, 101)), (Turn::Now, Turn::Unknown));
        assert_eq!((moves.turn(5, 2, 7), moves.turn(10, 2, 7)), (Turn::After(1, 100), Turn::Now));
        moves.forget_passed(|_| 99);
        assert!(moves.are_pending());
        moves.forget_passed(|group| if group == 1 { 100 } else { 0 });
        assert_eq!((moves.turn(5, 2, 7), moves.turn(5, 1, 100)), (Turn::Now, Turn::Unknown));
        assert_eq!(moves.left(&read, 0), Ok(Vec::new()));
        assert_eq!(moves.take_unsaved().cloned(), Some(read.clone()));
        assert_eq!(moves.take_unsaved(), None);
        assert_eq!(moves.take(read, |_| None), Ok(()));
        assert_eq!(moves.take_unsaved(), None);
    }

    #[test]
    fn moves_that_were_not_seen_are_errors() {
        let mut moves = Moves::new(placements((1, 3), 3));
        // Another table got placements, of which some were removed.
        assert_eq!(moves.left(&placements((1, 3), 9), 2), Ok(Vec::new()));
        assert_eq!(moves.take(placements((1, 3), 9), |_| None), Ok(()));
        for (group, number, added, is_known) in [(2, 10, 1, true), (2, 11, 1, false), (1, 11, 1, false)] {
            assert_eq!(moves.left(&placements((group, number), number), added).is_ok(), is_known, "{group} {number}");
        }
        let joined = Placements::new(vec![placement(i32::MIN, i32::MAX, 1, 10)], 10).unwrap();
        assert!(moves.left(&joined, 1).is_err());
        assert!(moves.take(placements((2, 10), 10), |_| None).is_err());
    }
}
