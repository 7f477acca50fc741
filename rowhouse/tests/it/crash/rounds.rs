//! Losses of power of a disk that also fails, at any moment of runs that fill segments of the log, use their files
//! again, and merge sorted files.
//!
//! A run is recorded once. A power loss is then computed for many positions of the record, and a server is started on
//! what is left each time. Some losses follow a kill: the server is killed at the position, starts again on what the
//! operating system's cache holds, which is not all on disk, and works until it loses power.
//!
//! The rotations and releases of the log's segments and the merges of sorted files are found in the record, so that
//! power can be lost during them.

use super::SEED;
use super::history::{HistoryWriter, IDLE, Versions, work};
use super::simulated_disk::{Disk, Kind, Record, Records, SimulatedDisk, copy_folder};
use crate::PROGRAM;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use test_support::Random;

const LOSSES_PER_RUN: usize = 24;
/// The number of segments that are full in a run. The second one is usually in a prepared file, and the next ones are
/// in files of earlier segments.
const FULL_SEGMENTS_PER_RUN: usize = 3;
/// The time within which everything is flushed and merged and the log is retired, once the disk works again. After a
/// failed flush or merge, the engine waits for thirty seconds before it tries again.
const QUIET_TIME_MAX: Duration = Duration::from_mins(3);
/// The number of the first writer to a server that was started after a kill.
const LATE_WRITERS: u64 = 100;

/// Orders of faults for a run: none, occasional ones of every kind, or many failed syncs.
const ORDERS: [&str; 3] = [
    "- 0 -1 0 1",
    "s 5 -1 0 2000\ne 5 -1 0 2000\nw 28 -1 0 40000\np 5 -1 700 40000\nct 28 -1 0 400\nd 0 -1 300 2000",
    "s 5 -1 0 400\ne 5 -1 0 400\nd 0 -1 30 1000",
];

#[derive(Debug, Default)]
struct Counts {
    runs: usize,
    losses: usize,
    during_rotations: usize,
    during_releases: usize,
    during_merges: usize,
    after_kills: usize,
    checks: usize,
    acknowledged: usize,
    rotations: usize,
    segments: Segments,
    flushes: usize,
    merges: usize,
    merged_levels: BTreeSet<usize>,
    faults: BTreeMap<char, usize>,
    outages: usize,
}

/// A server that was killed and started again before it lost power.
struct Restarted {
    /// What was stored according to the server.
    seen: Vec<Versions>,
    /// The length of the new log when this had been read.
    seen_at: u64,
    writer: HistoryWriter,
    /// The position in the new log at which power was lost.
    end: u64,
}

struct Rounds {
    disk: SimulatedDisk,
    /// The state of the disk before the current run.
    before: PathBuf,
    left: PathBuf,
    writers: Vec<HistoryWriter>,
    random: Random,
    counts: Counts,
}

impl Rounds {
    fn new() -> Self {
        let mut random = Random::from_environment(SEED);
        let disk = SimulatedDisk::recorded(random.number());
        // The first writers make enough entries for merges, and the others enough bytes for rotations.
        let sizes = [(900, 300), (900, 300), (900, 3000), (24, 450_000), (24, 450_000)];
        let writers = sizes.iter().zip(0..);
        let writers =
            writers.map(|((rows, bytes), number)| HistoryWriter::new(number, *rows, *bytes, random.number())).collect();
        let [before, left] = ["before", "left"].map(|name| disk.path(name));
        fs::create_dir(&before).unwrap();
        Self { disk, before, left, writers, random, counts: Counts::default() }
    }

    /// Lets the writers work through rotations and merges on a failing disk. Returns the length of the disk's log at
    /// their beginning.
    fn work(&mut self) -> u64 {
        copy_folder(&self.before, &self.disk.data);
        let server = self.disk.start();
        if self.counts.runs == 0 {
            assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
        }
        let start = fs::metadata(self.disk.log()).unwrap().len();
        let old = full_segments(&self.disk.data);
        let mut full = BTreeSet::new();
        let (address, log) = (server.address.as_str(), self.disk.log());
        let is_over = AtomicBool::new(false);
        self.disk.order(ORDERS[self.random.index(ORDERS.len())]);
        thread::scope(|scope| {
            let writers = self.writers.iter_mut();
            let threads: Vec<_> = writers.map(|writer| scope.spawn(|| writer.write(address, log, &is_over))).collect();
            while full.len() < FULL_SEGMENTS_PER_RUN {
                assert!(!threads.iter().all(ScopedJoinHandle::is_finished), "all writers have stopped");
                thread::sleep(Duration::from_millis(50));
                full.extend(&full_segments(&self.disk.data) - &old);
            }
            thread::sleep(Duration::from_millis(self.random.below(1000)));
            is_over.store(true, Ordering::SeqCst);
        });
        // Merges follow, and the log is retired.
        thread::sleep(IDLE);
        self.disk.repair();
        wait_until_retired(&self.disk.data);
        let log = server.stop_cleanly();
        self.counts.outages += log.iter().filter(|line| line.contains("accepts no writes")).count();
        self.counts.acknowledged += self.writers.iter().map(HistoryWriter::acknowledged).sum::<usize>();
        start
    }

    /// Records a run, loses power at several of its moments, and continues after one of them.
    fn run(&mut self, losses: usize) {
        let start = self.work();
        let log = fs::read(self.disk.log()).unwrap();
        let timeline = Timeline::new(&log, &self.before, &self.disk.data, start);
        self.count(&timeline);
        let mut moments: Vec<_> = (0..losses).map(|_| timeline.moment(start, &mut self.random)).collect();
        moments.sort_unstable_by_key(|(position, _)| *position);
        let survivor = self.random.index(moments.len());
        let mut continued = None;
        let mut disk = Disk::new(&self.before, &self.disk.data);
        let mut records = Records::new(&log).peekable();
        let next = self.disk.path("next");
        let data = self.disk.path("run");
        fs::rename(&self.disk.data, &data).unwrap();
        for (number, (position, during)) in moments.into_iter().enumerate() {
            while let Some(record) = records.next_if(|record| record.end <= position) {
                disk.apply(&record);
            }
            self.counts.losses += 1;
            self.counts.during_rotations += usize::from(during == During::Rotation);
            self.counts.during_releases += usize::from(during == During::Release);
            self.counts.during_merges += usize::from(during == During::Merge);
            let restarted = self.lose_power(disk.clone(), position, during);
            let stored = self.verify(position, restarted.as_ref());
            if number == survivor {
                fs::rename(&self.left, &next).unwrap();
                continued = Some(stored);
            } else {
                fs::remove_dir_all(&self.left).unwrap();
            }
        }
        for record in records {
            disk.apply(&record);
        }
        disk.assert_shows(&data, &self.left);
        for (writer, stored) in self.writers.iter_mut().zip(continued.unwrap()) {
            writer.continue_from(stored);
        }
        fs::remove_dir_all(&data).unwrap();
        fs::remove_dir_all(&self.before).unwrap();
        fs::remove_file(self.disk.log()).unwrap();
        fs::rename(next, &self.before).unwrap();
        self.counts.runs += 1;
    }

    fn count(&mut self, timeline: &Timeline) {
        let merged: BTreeSet<_> = timeline.merges.iter().flat_map(|merge| merge.from.union(&merge.into)).collect();
        println!(
            "run {}: {} rotations, {:?}, {} flushes, {} merges of levels {merged:?}, faults {:?}",
            self.counts.runs,
            timeline.rotations.len(),
            timeline.segments,
            timeline.flushes,
            timeline.merges.len(),
            timeline.faults
        );
        let Segments { filled, prepared, recycled, retired, .. } = timeline.segments;
        assert!(filled >= FULL_SEGMENTS_PER_RUN, "too few segments were filled");
        assert!(timeline.rotations.len() > FULL_SEGMENTS_PER_RUN, "the log was not retired");
        // The file of a segment is not used again if a write or a sync of it failed.
        let can_reuse = timeline.faults.is_empty();
        assert!(!can_reuse || (prepared > 0 && recycled > 0 && retired > 0), "no file of the log was used again");
        assert!(!timeline.releases.is_empty(), "no segment was released");
        assert!(merged.len() >= 2, "too few levels were merged: {:?}", timeline.merges);
        self.counts.rotations += timeline.rotations.len();
        self.counts.segments.add(timeline.segments);
        self.counts.flushes += timeline.flushes;
        self.counts.merges += timeline.merges.len();
        self.counts.merged_levels.extend(merged);
        for (kind, count) in &timeline.faults {
            *self.counts.faults.entry(*kind).or_default() += count;
        }
    }

    /// Leaves what a power loss leaves of the disk. Sometimes, the server was killed before, and started again.
    fn lose_power(&mut self, mut disk: Disk<'_>, position: u64, during: During) -> Option<Restarted> {
        let one_in = if during == During::Other { 6 } else { 2 };
        if self.random.below(one_in) > 0 {
            disk.settle(&mut self.random);
            disk.write(&self.left);
            return None;
        }
        disk.write(&self.disk.data);
        fs::rename(self.disk.log(), self.disk.path("first-log")).unwrap();
        let (log, restarted) = self.restart(position);
        let kept = match self.random.below(2) {
            0 => Records::new(&log).count(),
            _ => self.random.index(Records::new(&log).count() + 1),
        };
        // With a lifetime that the second log outlives.
        let mut disk = disk;
        let mut end = 0;
        for record in Records::new(&log).take(kept) {
            disk.apply(&record);
            end = record.end;
        }
        disk.settle(&mut self.random);
        disk.write(&self.left);
        fs::remove_dir_all(&self.disk.data).unwrap();
        fs::rename(self.disk.path("first-log"), self.disk.log()).unwrap();
        Some(Restarted { end, ..restarted })
    }

    /// Starts the server after it was killed, lets another writer work, and kills the server again.
    fn restart(&mut self, position: u64) -> (Vec<u8>, Restarted) {
        self.counts.after_kills += 1;
        let server = self.disk.start();
        let seen = self.check(&server.address, position);
        let seen_at = fs::metadata(self.disk.log()).unwrap().len();
        let number = LATE_WRITERS + self.counts.after_kills as u64;
        let mut writer = HistoryWriter::new(number, 50, 3000, self.random.number());
        let time = Duration::from_millis(self.random.below(100));
        work(&server.address, self.disk.log(), slice::from_mut(&mut writer), time);
        drop(server.kill9());
        (fs::read(self.disk.log()).unwrap(), Restarted { seen, seen_at, writer, end: 0 })
    }

    /// Starts a server on what is left, and compares its content with what must be there.
    fn verify(&mut self, position: u64, restarted: Option<&Restarted>) -> Vec<Versions> {
        if self.random.below(6) == 0 {
            let checked = PROGRAM.folder().run("check", &["--data", self.left.to_str().unwrap(), "--quiet"], &[]);
            assert_eq!(checked.code, Some(0), "after a power loss at {position}: {checked:?}");
            self.counts.checks += 1;
        }
        let server = PROGRAM.start(&["--data", self.left.to_str().unwrap()]);
        let stored = self.check(&server.address, position);
        if let Some(Restarted { seen, seen_at, writer, end }) = restarted {
            writer.check(&mut server.client(), *end).unwrap();
            assert!(end < seen_at || *seen == stored, "what was read before a power loss is lost");
        }
        drop(server.kill9());
        stored
    }

    fn check(&self, address: &str, position: u64) -> Vec<Versions> {
        let mut client = test_support::Client::connect(address).unwrap();
        self.writers.iter().map(|writer| writer.check(&mut client, position).unwrap()).collect()
    }
}

/// Returns the paths of the files of the log.
fn log_files(data: &Path) -> Vec<PathBuf> {
    fs::read_dir(data.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn is_live(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

/// Returns the names of the live segments that follow a full one.
fn full_segments(data: &Path) -> BTreeSet<PathBuf> {
    let follows_full = |path: &PathBuf| {
        let mut header = [0; 64];
        // The segment may have been released.
        let is_read = File::open(path).is_ok_and(|mut file| file.read_exact(&mut header).is_ok());
        is_live(path) && is_read && follows_full_segment(&header)
    };
    log_files(data).into_iter().filter(follows_full).collect()
}

/// Waits until the log has given its disk space back: one live segment remains, which contains only its header, and no
/// file waits for reuse.
fn wait_until_retired(data: &Path) {
    let began = Instant::now();
    loop {
        let size = |path: PathBuf| fs::metadata(&path).map_or(0, |file| file.len());
        let files: Vec<_> = log_files(data).into_iter().map(|path| (path.clone(), size(path))).collect();
        if let [(path, 4096)] = files.as_slice()
            && is_live(path)
        {
            return;
        }
        assert!(began.elapsed() < QUIET_TIME_MAX, "the log was not retired: {files:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn acknowledged_writes_survive_power_losses_during_rotations_and_merges_on_a_failing_disk() {
    let losses = usize::try_from(super::rounds(24)).unwrap();
    let mut rounds = Rounds::new();
    while rounds.counts.losses < losses {
        rounds.run(LOSSES_PER_RUN.min(losses - rounds.counts.losses));
    }
    let counts = rounds.counts;
    println!("{counts:#?}");
    assert!(
        5 * (counts.during_rotations + counts.during_merges) >= counts.losses,
        "too few losses during work on files"
    );
}

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
struct Merge {
    span: Span,
    /// The levels from which the merged files came.
    from: BTreeSet<usize>,
    into: BTreeSet<usize>,
}

/// What became of the files of the log.
#[derive(Debug, Clone, Copy, Default)]
struct Segments {
    /// Segments that were begun because the previous one was full.
    filled: usize,
    /// Segments in a file that was prepared in advance.
    prepared: usize,
    /// Segments in the file of an earlier segment.
    recycled: usize,
    /// Released segments whose files wait for reuse.
    kept: usize,
    /// Released segments whose files were deleted.
    deleted: usize,
    /// Files that were deleted although they could have been reused, because the log was quiet.
    retired: usize,
}

impl Segments {
    fn add(&mut self, other: Self) {
        self.filled += other.filled;
        self.prepared += other.prepared;
        self.recycled += other.recycled;
        self.kept += other.kept;
        self.deleted += other.deleted;
        self.retired += other.retired;
    }
}

#[derive(Debug, Default)]
struct Timeline {
    /// The position in the log after each operation.
    ends: Vec<u64>,
    /// From the last sync of a segment until its successor is certain to survive.
    rotations: Vec<Span>,
    /// From the last operation before the release of a segment until the release is certain to survive.
    releases: Vec<Span>,
    merges: Vec<Merge>,
    segments: Segments,
    /// The number of sorted files that the memtables became.
    flushes: usize,
    /// The number of injected faults, by their letter.
    faults: BTreeMap<char, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum During {
    Rotation,
    Release,
    Merge,
    Other,
}

impl Timeline {
    /// Reads a record of the data folder `data`, which was a copy of `before` when the log began. Of the segments, only
    /// what happened after the position `start` counts.
    fn new(log: &[u8], before: &Path, data: &Path, start: u64) -> Self {
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
    fn moment(&self, start: u64, random: &mut Random) -> (u64, During) {
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
fn follows_full_segment(bytes: &[u8]) -> bool {
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
