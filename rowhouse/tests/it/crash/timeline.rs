//! Finds the rotations and releases of the log's segments and the merges of sorted files in a record of `disk.c`, so
//! that power can be lost during them.

use super::power_loss::{Kind, Record, Records};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use test_support::Random;

/// A segment that ends after this number of bytes was rotated because it was full, and not because a prepared file was
/// ready or after a failure. The rest up to 64 MiB may be too short for the next group.
const FILLED_BYTES_MIN: u64 = 48 * 1024 * 1024;

/// The first bytes of a segment.
const SEGMENT_MAGIC: &[u8] = b"RowhsLog";

/// The number in the names of files that the engine prepares in advance. No segment has it.
const PREPARER: u64 = 0;

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

/// What became of the files of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Segments {
    /// Segments that were begun because the previous one was full.
    pub(super) filled: usize,
    /// Segments in a file that was prepared in advance.
    pub(super) prepared: usize,
    /// Segments in the file of an earlier segment.
    pub(super) recycled: usize,
    /// Released segments whose files wait for reuse.
    pub(super) kept: usize,
    /// Released segments whose files were deleted.
    pub(super) deleted: usize,
    /// Files that were deleted although they could have been reused, because the log was quiet.
    pub(super) retired: usize,
}

impl Segments {
    pub(super) fn add(&mut self, other: Self) {
        self.filled += other.filled;
        self.prepared += other.prepared;
        self.recycled += other.recycled;
        self.kept += other.kept;
        self.deleted += other.deleted;
        self.retired += other.retired;
    }
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The position in the log after each operation.
    ends: Vec<u64>,
    /// From the last sync of a segment until its successor is certain to survive.
    pub(super) rotations: Vec<Span>,
    /// From the last operation before the release of a segment until the release is certain to survive.
    pub(super) releases: Vec<Span>,
    pub(super) merges: Vec<Merge>,
    pub(super) segments: Segments,
    /// The number of sorted files that the memtables became.
    pub(super) flushes: usize,
    /// The number of injected faults, by their letter.
    pub(super) faults: BTreeMap<char, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Rotation,
    Release,
    Merge,
    Other,
}

impl Timeline {
    /// Reads a record of the data folder `data`, which was a copy of `before` when the log began. Of the segments, only
    /// what happened after the position `start` counts.
    pub(super) fn new(log: &[u8], before: &Path, data: &Path, start: u64) -> Self {
        let tree = data.join("tree");
        let mut timeline = Self::default();
        let mut segments = SegmentChanges { folder: data.join("log"), ..SegmentChanges::default() };
        let mut levels = levels(&before.join("tree"));
        let (mut manifest, mut created) = (Vec::new(), BTreeMap::new());
        for (index, record) in Records::new(log).enumerate() {
            timeline.ends.push(record.end);
            if record.end > start {
                segments.follow(&record, index, &mut timeline);
            }
            let Record { kind, path, data, .. } = record;
            let is_in = |folder: &Path| path.parent() == Some(folder);
            let is_manifest = is_in(&tree) && name(path).starts_with('v');
            match kind {
                Kind::Fault => *timeline.faults.entry(char::from(data[0])).or_default() += 1,
                Kind::Create if is_in(&tree.join("tables")) => _ = created.insert(number(path), index),
                Kind::Create | Kind::Truncate if is_manifest => manifest.clear(),
                Kind::Write if is_manifest => manifest.extend_from_slice(data),
                Kind::Rename if data.ends_with(b"/tree/current") => {
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
        } else if self.releases.iter().any(|span| span.contains(&index)) {
            During::Release
        } else if self.merges.iter().any(|merge| merge.span.contains(&index)) {
            During::Merge
        } else {
            During::Other
        }
    }

    /// Returns a random position of the log after `start`, and what happens then. Half of them are during a rotation or
    /// a merge, if there are any, and some during a release.
    pub(super) fn moment(&self, start: u64, random: &mut Random) -> (u64, During) {
        let any = |span: &Span, random: &mut Random| span.start() + random.index(span.end() - span.start() + 1);
        let index = match random.below(8) {
            0 | 1 if !self.rotations.is_empty() => any(&self.rotations[random.index(self.rotations.len())], random),
            2 | 3 if !self.merges.is_empty() => any(&self.merges[random.index(self.merges.len())].span, random),
            4 if !self.releases.is_empty() => any(&self.releases[random.index(self.releases.len())], random),
            _ => random.index(self.ends.len()),
        };
        let first = self.ends.partition_point(|end| *end < start);
        let index = index.max(first);
        (self.ends[index], self.during(index))
    }
}

/// Follows the files of the log.
#[derive(Debug, Default)]
struct SegmentChanges {
    folder: PathBuf,
    /// The record before the first write to the next segment, which is not live yet, and whether the previous segment
    /// is full.
    begun: Option<(usize, bool)>,
    /// The same for a segment that is live, but not certain to survive.
    renamed: Option<usize>,
    /// The record before the release of a segment that is not certain to survive.
    released: Option<usize>,
}

impl SegmentChanges {
    fn follow(&mut self, record: &Record<'_>, index: usize, timeline: &mut Timeline) {
        let Record { kind, path, data, .. } = *record;
        if path == self.folder && kind == Kind::Sync {
            timeline.rotations.extend(self.renamed.take().map(|from| from..=index));
            timeline.releases.extend(self.released.take().map(|from| from..=index));
        }
        if path.parent() != Some(&self.folder) {
            return;
        }
        let segments = &mut timeline.segments;
        let new_path = Path::new(OsStr::from_bytes(data));
        match (kind, ending(path)) {
            (Kind::Write, "free" | "prep") if data.starts_with(SEGMENT_MAGIC) => {
                self.begun = Some((index - 1, follows_full_segment(data)));
            }
            (Kind::Rename, from) if ending(new_path) == "log" => {
                let (begun, follows_full) = self.begun.take().unwrap();
                self.renamed = Some(begun);
                segments.filled += usize::from(follows_full);
                match (from, number(path)) {
                    ("free", PREPARER) => segments.prepared += 1,
                    ("free", _) => segments.recycled += 1,
                    _ => {}
                }
            }
            (Kind::Rename, "log") => {
                self.released = Some(index - 1);
                segments.kept += 1;
            }
            (Kind::Unlink, "log") => {
                self.released = Some(index - 1);
                segments.deleted += 1;
            }
            (Kind::Unlink, "free") => segments.retired += 1,
            _ => {}
        }
    }
}

/// Returns whether the previous segment is full, from the first bytes of a segment: a magic (8 bytes), a version and
/// reserved bytes (8), the ID (8), the salt (8), the epoch (8), the number of the first transaction (8), and the end of
/// the previous segment (8). Numbers are big-endian.
pub(super) fn follows_full_segment(bytes: &[u8]) -> bool {
    u64::from_be_bytes(bytes[48..56].try_into().unwrap()) >= FILLED_BYTES_MIN
}

fn ending(path: &Path) -> &str {
    path.extension().map_or("", |ending| ending.to_str().unwrap())
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn number(path: &Path) -> u64 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

/// Returns the sorted files of a tree, which does not exist before the first start.
fn levels(tree: &Path) -> Levels {
    let Ok(current) = fs::read(tree.join("current")) else { return Levels::new() };
    let number = u64::from_le_bytes(current[..8].try_into().unwrap());
    decode(&fs::read(tree.join(format!("v{number}"))).unwrap())
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
