//! The kept log of an engine: what survives restarts, and what is dropped when.

use super::keeping::{Ages, drop_excess, make_room, remove_names};
use crate::disk::space::{Disk, FreeSpace, bounded};
use crate::log::archive::ArchivedSegment;
use crate::{Embedded, EmbeddedOptions, KeptLog};
use engine::changes::{
    ChangeEffect, ChangeSelection, ChangedTransaction, ChangesError, DatedChangeLog, first_position,
};
use engine::{ChangeLog, Engine, KeepChanges, TableKey};
use engine_contract::support::{ManualClock, START_TICKS, commit_one, insert, key, properties, table};
use model::{DateTime, EdmValue, Mutation, Transaction};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_mins(1);
const SECOND: i64 = 10_000_000;
const BOUNDS: KeepChanges = KeepChanges { age: Duration::from_hours(1), bytes: 1 << 40 };

fn open(folder: &Path, kept_log: KeptLog, clock: &ManualClock) -> (Embedded, Option<Arc<dyn ChangeLog>>) {
    let engine =
        Embedded::open(folder, &EmbeddedOptions { kept_log, ..EmbeddedOptions::default() }, clock.clone()).unwrap();
    let log = engine.change_log();
    (engine, log)
}

fn segments(engine: &Embedded) -> Vec<ArchivedSegment> {
    engine.shared.storage.upkeep.archive().unwrap().segments()
}

/// Ends a segment of the log, and waits until it is archived.
fn archive(engine: &Embedded) {
    let (storage, before) = (&engine.shared.storage, segments(engine).len());
    let began = Instant::now();
    // The purge of a deleted table may write in between.
    while !{
        storage.flush_everything().unwrap();
        storage.retire_log().unwrap()
    } {
        assert!(began.elapsed() < TIMEOUT, "the log is not retired");
    }
    while segments(engine).len() == before {
        assert!(began.elapsed() < TIMEOUT, "the segment is not archived");
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn read_all(log: &Arc<dyn ChangeLog>, from: u64) -> Vec<ChangedTransaction> {
    let (mut all, mut next) = (Vec::new(), from);
    while next < log.kept().next {
        let page = log.read(next, &ChangeSelection::default(), 1000).await.unwrap();
        all.extend(page.transactions);
        next = page.next;
    }
    all
}

/// Writes three archived segments, 100 seconds apart, with a table that is deleted in the second one.
async fn fill(engine: &Embedded, clock: &ManualClock) {
    let (kept, gone) = (table("Kept"), table("Gone"));
    engine.create_table(&kept).await.unwrap();
    engine.create_table(&gone).await.unwrap();
    for part in 0..3 {
        clock.set(START_TICKS + part * 100 * SECOND);
        for row in 0..50 {
            let row = format!("{part}-{row}");
            commit_one(engine, &kept, insert("p", &row, 1)).await.unwrap();
            if part == 0 {
                commit_one(engine, &gone, insert("p", &row, 1)).await.unwrap();
            }
        }
        if part == 1 {
            engine.delete_table(&gone).await.unwrap();
        }
        archive(engine);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kept_log_survives_restarts_with_the_names_of_deleted_tables() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    fill(&engine, &clock).await;
    let log = log.unwrap();
    let (first, before) = (log.kept().first, read_all(&log, log.kept().first).await);
    let is_of_gone = |change: &engine::Change| match &change.effect {
        ChangeEffect::Put { table: of, .. } | ChangeEffect::DeleteTable { table: of } => of.name.as_str() == "Gone",
        _ => false,
    };
    let gone = before.iter().flat_map(|transaction| &transaction.changes).filter(|change| is_of_gone(change)).count();
    assert_eq!((before.len(), gone, first), (203, 51, 1));
    // Once without a clean shutdown, and once with one.
    drop((engine, log));
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    assert_eq!(read_all(&log.unwrap(), first).await, before);
    engine.close().await.unwrap();
    drop(engine);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    let log = log.unwrap();
    assert_eq!(read_all(&log, first).await, before);

    // A command on the folder keeps what was kept, and what it writes.
    engine.close().await.unwrap();
    drop((engine, log));
    let (engine, _) = open(folder.path(), KeptLog::AsBefore, &clock);
    commit_one(&engine, &table("Kept"), insert("p", "by a command", 1)).await.unwrap();
    archive(&engine);
    engine.close().await.unwrap();
    drop(engine);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    let log = log.unwrap();
    let after = read_all(&log, first).await;
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));

    // Without the option, everything that was kept is removed.
    engine.close().await.unwrap();
    drop((engine, log));
    let (engine, log) = open(folder.path(), KeptLog::Nothing, &clock);
    assert!(log.is_none() && !folder.path().join("archive").exists());
    remove_names(&engine.shared, |_| false).unwrap();
    engine.close().await.unwrap();
    drop(engine);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    let log = log.unwrap();
    let kept = log.kept();
    assert!(kept.first == kept.next && kept.first >= 204, "{kept:?}");
    let read = log.read(1, &ChangeSelection::default(), 1).await;
    assert!(matches!(read, Err(ChangesError::Dropped(from)) if from == kept.first), "{read:?}");
    commit_one(&engine, &table("Kept"), insert("p", "last", 1)).await.unwrap();
    assert_eq!(read_all(&log, kept.first).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_segments_are_dropped_by_age_and_by_size_and_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    let log = log.unwrap();
    fill(&engine, &clock).await;
    let storage = &engine.shared.storage;
    let archive_of = storage.upkeep.archive().unwrap();
    let [first, second, third] = segments(&engine)[..] else { panic!("{:?}", segments(&engine)) };
    assert!(first.oldest < first.newest && first.newest < second.oldest);

    // The first segment ends at the start, and the second one 100 seconds later.
    let age = KeepChanges { age: Duration::from_secs(150), ..BOUNDS };
    drop_excess(archive_of, age, START_TICKS + 149 * SECOND, |_| false).unwrap();
    assert_eq!(segments(&engine), [first, second, third]);
    // A standby with a base copy needs the last transaction of the first segment, and then what follows it.
    let (hold, later) = (archive_of.holds.begin(first.end.previous()), archive_of.holds.begin(second.first));
    drop_excess(archive_of, age, START_TICKS + 200 * SECOND, |_| false).unwrap();
    assert_eq!(segments(&engine), [first, second, third]);
    hold.advance(first.end);
    drop_excess(archive_of, age, START_TICKS + 200 * SECOND, |_| false).unwrap();
    assert_eq!(segments(&engine), [second, third]);
    drop(hold);
    assert_eq!(archive_of.holds.first(), Some(second.first));
    assert_eq!(log.kept().first, second.first.get());
    let names = || {
        let entries =
            storage.tree.snapshot().range(crate::disk::layout::DELETED_PREFIX..crate::disk::layout::DELETED_END);
        entries.count()
    };
    super::keeping::forget_names(&engine.shared, archive_of).unwrap();
    assert_eq!(names(), 1, "the second segment mentions the deleted table");

    // A hold does not raise the maximum size.
    drop_excess(archive_of, KeepChanges { bytes: third.bytes, ..BOUNDS }, START_TICKS, |_| false).unwrap();
    assert_eq!(segments(&engine), [third]);
    drop(later);
    assert_eq!(archive_of.holds.first(), None);
    super::keeping::forget_names(&engine.shared, archive_of).unwrap();
    assert_eq!(names(), 0);

    let has_room = Disk { folder: folder.path().to_owned(), reserve_bytes: 0, keeper: None };
    make_room(&engine.shared, archive_of, &has_room, 0).unwrap();
    assert_eq!(segments(&engine), [third]);
    let is_full = Disk { reserve_bytes: u64::MAX, ..has_room };
    make_room(&engine.shared, archive_of, &is_full, 0).unwrap();
    assert_eq!(segments(&engine), []);
    let kept = log.kept();
    assert!(kept.first >= third.end.get() && kept.first <= kept.next, "{kept:?}");
    let old = TableKey::clone(&table("Kept"));
    let selection = ChangeSelection { table: Some(old), ..ChangeSelection::default() };
    let read = log.read(second.first.get(), &selection, 1).await;
    assert!(matches!(read, Err(ChangesError::Dropped(from)) if from == kept.first), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_log_begins_after_every_position_of_an_earlier_folder() {
    const YEAR_2026: i64 = 134_116_992_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let mut clock = ManualClock::at(YEAR_2026);
    let mut end = 0;
    for number in 0..3 {
        let path = folder.path().join(number.to_string());
        let (engine, log) = open(&path, KeptLog::Within(BOUNDS), &clock);
        engine.create_table(&table("Kept")).await.unwrap();
        let first = log.unwrap().kept().first;
        assert!(first > end || number == 0, "{first} after {end}");
        engine.close().await.unwrap();
        drop(engine);
        // The clock does not move the positions of a log that exists.
        clock = ManualClock::at(YEAR_2026 + number * SECOND + SECOND / 2);
        let (engine, log) = open(&path, KeptLog::Within(BOUNDS), &clock);
        let log = log.unwrap();
        commit_one(&engine, &table("Kept"), insert("p", "r", 1)).await.unwrap();
        assert_eq!(
            read_all(&log, first).await.iter().map(|read| read.position).collect::<Vec<_>>(),
            [first, first + 1]
        );
        let dropped = log.read(first - 1, &ChangeSelection::default(), 1).await;
        assert!(matches!(dropped, Err(ChangesError::Dropped(from)) if from == first) || first == 1, "{dropped:?}");
        end = log.kept().next;
        clock = ManualClock::at(YEAR_2026 + (number + 1) * SECOND);
    }
    assert!(first_position(DateTime::MAX) < 1 << 47, "the tree can count as far");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_the_end_of_a_log_is_later() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let (engine, log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    let (log, dated) = (log.unwrap(), engine.dated_change_log().unwrap());
    for step in 0..4 {
        // Even if the clock goes backwards.
        clock.set(START_TICKS - step * SECOND);
        engine.create_table(&table(&format!("Table{step}"))).await.unwrap();
        commit_one(&engine, &table("Table0"), insert("p", &step.to_string(), 1)).await.unwrap();
        let end = DatedChangeLog::end(&*dated).await.unwrap();
        assert_eq!(end.next, log.kept().next);
        assert!(read_all(&log, 1).await.iter().all(|read| read.time < end.time));
        commit_one(&engine, &table("Table0"), insert("q", &step.to_string(), 1)).await.unwrap();
        assert!(read_all(&log, end.next).await[0].time > end.time);
    }
}

#[test]
fn a_clock_that_is_set_does_not_end_the_kept_log() {
    let hour = 3600 * SECOND;
    let at = |ticks| DateTime::from_ticks(ticks).unwrap();
    let ages = Ages::new(at(10 * hour));
    for (now, expected) in [(10 * hour, 10 * hour), (9 * hour, 9 * hour)] {
        assert_eq!(ages.now(at(now)), expected);
    }
    assert!(ages.now(at(1000 * hour)) < 11 * hour, "the clock was set forward");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_claims_to_be_from_the_future_is_not_kept_forever() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let (engine, _log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    fill(&engine, &clock).await;
    let (archive, mut ages) = (engine.shared.storage.upkeep.archive().unwrap(), Ages::new(DateTime::MIN));
    let age = Duration::from_millis(1);
    ages.see(archive);
    std::thread::sleep(2 * age);
    let [first, ..] = segments(&engine)[..] else { panic!("nothing is archived") };
    assert!(ages.is_seen_longer(first.id, age) && !ages.is_seen_longer(first.id, TIMEOUT));
    drop_excess(archive, BOUNDS, 0, |id| ages.is_seen_longer(id, age)).unwrap();
    assert_eq!(segments(&engine), []);
}

/// The disk is large for the keeper, so it drops log only because it is asked to.
#[tokio::test(flavor = "multi_thread")]
async fn kept_log_is_dropped_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let (engine, _log) = open(folder.path(), KeptLog::Within(BOUNDS), &clock);
    fill(&engine, &clock).await;
    assert_eq!(segments(&engine).len(), 3);
    assert!(engine.disk.drop_kept_log(0));
    assert_eq!(segments(&engine).len(), 3);
    assert!(engine.disk.drop_kept_log(u64::MAX));
    assert_eq!(segments(&engine), []);
}

#[test]
fn space_becomes_low_only_after_kept_log_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    bounded::limit(folder.path(), 1000);
    let kept = folder.path().join("kept");
    std::fs::write(&kept, [0; 200]).unwrap();
    let (keeper, requests) = mpsc::channel();
    let mut space = FreeSpace::new(Disk { folder: folder.path().to_owned(), reserve_bytes: 900, keeper: Some(keeper) });
    let answering = std::thread::spawn(move || {
        let first = requests.recv().unwrap();
        std::fs::remove_file(kept).unwrap();
        drop(first);
        requests.recv().map(drop)
    });
    assert!(!space.is_low(0, 0));
    drop(space);
    assert!(answering.join().unwrap().is_err(), "it was asked once");
}

/// A fast writer must not be refused while any log is kept: neither while a segment is compressed, nor because a merge
/// lacks room.
#[tokio::test(flavor = "multi_thread")]
async fn a_fast_writer_on_a_small_disk_is_never_refused() {
    let folder = tempfile::tempdir().unwrap();
    bounded::limit(folder.path(), 700 << 20);
    let kept_log = KeptLog::Within(BOUNDS);
    let options = EmbeddedOptions { kept_log, min_free_bytes: 50 << 20, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, ManualClock::at(START_TICKS)).unwrap();
    engine.create_table(&table("Kept")).await.unwrap();
    let mut random = test_support::Random::new(1);
    let mut bytes = vec![0; 500_000];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&random.number().to_be_bytes()[..part.len()]);
    }
    for number in 0..3000_u32 {
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        let mut properties = properties(&[("value", i64::from(number))]);
        for part in 0..8 {
            properties.push(&format!("part{part}"), EdmValue::Binary(&bytes[part * 60_000..][..60_000]));
        }
        let put = Mutation::InsertOrReplace { key: key("p", &(number % 20).to_string()), properties };
        let written = engine.commit(&table("Kept"), Transaction::single(put)).await;
        assert!(written.is_ok(), "write {number}: {:?}, {:?}", written.map(drop), segments(&engine));
    }
    let log = engine.change_log().unwrap();
    assert!(log.kept().first > 1, "the disk was too large");
}
