//! Finds the rotations of journals and the merges of sorted files in a record of `disk.c`, so that power can be lost
//! during them.

use super::power_loss::{Kind, Record, Records};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use test_support::Random;

/// The level of each sorted file, by its number.
type Levels = BTreeMap<u64, usize>;

/// Positions in the record, as numbers of operations.
type Span = RangeInclusive<usize>;

#[derive(Debug)]
pub(super) struct Merge {
    span: Span,
    /// The levels from which the merged files came.
    pub(super) from: BTreeSet<usize>,
    pub(super) into: BTreeSet<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The position in the log after each operation.
    ends: Vec<u64>,
    /// From the last sync of a journal until its successor is certain to survive.
    pub(super) rotations: Vec<Span>,
    pub(super) merges: Vec<Merge>,
    /// The number of sorted files that the memtables became.
    pub(super) flushes: usize,
    /// The number of injected faults, by their letter.
    pub(super) faults: BTreeMap<char, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Rotation,
    Merge,
    Other,
}

impl Timeline {
    /// Reads a record of the data folder `data`, which was a copy of `before` when the log began.
    pub(super) fn new(log: &[u8], before: &Path, data: &Path) -> Self {
        let database = data.join("database");
        let keyspace = database.join("keyspaces/1");
        let mut timeline = Self::default();
        let mut levels = levels(&before.join("database/keyspaces/1"));
        let (mut manifest, mut created) = (Vec::new(), BTreeMap::new());
        let mut rotation = None;
        for (index, record) in Records::new(log).enumerate() {
            timeline.ends.push(record.end);
            let Record { kind, path, data, .. } = record;
            let is_in = |folder: &Path| path.parent() == Some(folder);
            let is_journal = is_in(&database) && path.extension().is_some_and(|end| end == "jnl");
            let is_manifest = is_in(&keyspace) && name(path).starts_with('v');
            match kind {
                Kind::Fault => *timeline.faults.entry(char::from(data[0])).or_default() += 1,
                Kind::Create if is_journal && number(path) > 0 => rotation = Some(index - 1),
                Kind::Sync if path == database => timeline.rotations.extend(rotation.take().map(|from| from..=index)),
                Kind::Create if is_in(&keyspace.join("tables")) => _ = created.insert(number(path), index),
                Kind::Create | Kind::Truncate if is_manifest => manifest.clear(),
                Kind::Write if is_manifest => manifest.extend_from_slice(data),
                Kind::Rename if data.ends_with(b"/keyspaces/1/current") => {
                    let new = decode(&manifest);
                    timeline.compare(&levels, &new, &created, index);
                    levels = new;
                }
                _ => {}
            }
        }
        timeline
    }

    /// Determines what happened between two lists of sorted files.
    fn compare(&mut self, old: &Levels, new: &Levels, created: &BTreeMap<u64, usize>, index: usize) {
        let added: Vec<_> = new.iter().filter(|(id, _)| !old.contains_key(id)).collect();
        let from: BTreeSet<_> = old.iter().filter(|(id, _)| !new.contains_key(id)).map(|(_, level)| *level).collect();
        let Some(begin) = added.iter().filter_map(|(id, _)| created.get(id)).min() else { return };
        if from.is_empty() {
            self.flushes += added.len();
        } else {
            let into = added.iter().map(|(_, level)| **level).collect();
            self.merges.push(Merge { span: *begin..=index, from, into });
        }
    }

    fn during(&self, index: usize) -> During {
        if self.rotations.iter().any(|span| span.contains(&index)) {
            During::Rotation
        } else if self.merges.iter().any(|merge| merge.span.contains(&index)) {
            During::Merge
        } else {
            During::Other
        }
    }

    /// Returns a random position of the log after `start`, and what happens then. Every other one is during a rotation
    /// or a merge, if there are any.
    pub(super) fn moment(&self, start: u64, random: &mut Random) -> (u64, During) {
        let any = |span: &Span, random: &mut Random| span.start() + random.index(span.end() - span.start() + 1);
        let index = match random.below(4) {
            0 if !self.rotations.is_empty() => any(&self.rotations[random.index(self.rotations.len())], random),
            1 if !self.merges.is_empty() => any(&self.merges[random.index(self.merges.len())].span, random),
            _ => random.index(self.ends.len()),
        };
        let first = self.ends.partition_point(|end| *end < start);
        let index = index.max(first);
        (self.ends[index], self.during(index))
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn number(path: &Path) -> u64 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

/// Returns the sorted files of a keyspace, which does not exist before the first start.
fn levels(keyspace: &Path) -> Levels {
    let Ok(current) = fs::read(keyspace.join("current")) else { return Levels::new() };
    let number = u64::from_le_bytes(current[..8].try_into().unwrap());
    decode(&fs::read(keyspace.join(format!("v{number}"))).unwrap())
}

/// Decodes the list of sorted files in a manifest of the storage library. Before it, the manifest contains the type of
/// the tree, the number of levels and the type of the filters' checksums, a byte each. Numbers are little-endian. The
/// list consists of the number of levels (1), for each level its number of runs (1), for each run its number of files
/// (4), and for each file its number (8), the type of its checksum (1), the checksum (16), and a sequence number (8).
fn decode(manifest: &[u8]) -> Levels {
    const LEVELS: u8 = 7;
    let head = manifest.windows(3).position(|bytes| bytes[0] == LEVELS && bytes[2] == LEVELS).unwrap();
    let mut rest = &manifest[head + 3..];
    let mut take = |count: usize| {
        let (taken, after) = rest.split_at(count);
        rest = after;
        taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let mut levels = Levels::new();
    for level in 0..usize::from(LEVELS) {
        for _ in 0..take(1) {
            for _ in 0..take(4) {
                levels.insert(take(8), level);
                take(1 + 16 + 8);
            }
        }
    }
    levels
}
