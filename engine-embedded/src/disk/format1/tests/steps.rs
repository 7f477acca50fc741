//! Tests that the migration can be interrupted after any step.

use super::*;
use crate::disk::folder::{Folder, Kind};
use crate::disk::format1::{Step, migrate};
use crate::log;
use engine::Engine;

const STEPS: [Step; 6] = [Step::Checked, Step::Marked, Step::Flushed, Step::Moved, Step::LogBegun, Step::Completed];

/// Migrates a folder up to the nth step that is reached, and returns the steps. `each` is called after each.
fn migrate_to(path: &Path, last: usize, each: &mut dyn FnMut(usize)) -> Vec<Step> {
    let mut folder = Folder::acquire(path).unwrap();
    let mut steps = Vec::new();
    if folder.kind() == Kind::Complete {
        return steps;
    }
    let migrated = migrate(&mut folder, log::options::Durability::Sync, &mut |step| {
        each(steps.len());
        steps.push(step);
        let stop = || OpenError::damaged(path, "the test stops here");
        if steps.len() == last { Err(stop()) } else { Ok(()) }
    });
    assert_eq!(migrated.is_err(), steps.len() == last);
    steps
}

/// The length of an item before its key.
const ITEM_BYTES: usize = 21;

fn history() -> (TempDir, BTreeMap<String, Vec<u8>>) {
    let sealed = [
        creation(),
        batch(2, &entity("overwritten", b"1", START_TICKS - 9)),
        batch(3, &entity("removed", b"2", START_TICKS - 8)),
        batch(4, &entity("kept", b"3", START_TICKS - 7)),
    ];
    let active = [
        batch(5, &[removal("removed"), removal("again")]),
        batch(6, &entity("overwritten", b"4", START_TICKS - 6)),
        batch(7, &[entity("twice", b"5", START_TICKS - 5), entity("twice", b"6", START_TICKS - 4)].concat()),
        batch(8, &entity("again", b"7", START_TICKS - 3)),
    ];
    let folder = folder(&[&sealed, &active]);
    // These batches are also in sorted files, and so is one entity that is in no journal any more.
    put_in_sorted_file(folder.path(), &entity_key("overwritten"), b"an older version");
    let old = entity("old", b"8", START_TICKS - 20);
    put_in_sorted_file(folder.path(), &entity_key("old"), &old[0][ITEM_BYTES + entity_key("old").len()..]);
    let expected = [("again", b"7"), ("kept", b"3"), ("old", b"8"), ("overwritten", b"4"), ("twice", b"6")];
    (folder, expected.into_iter().map(|(row, bytes)| (row.to_owned(), bytes.to_vec())).collect())
}

/// Opens the folder as the next start does, and again after a write and a clean shutdown.
async fn assert_complete(folder: &Path, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    let engine = open(folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(entities(&engine).await, *expected, "{what}");
    let names = crate::disk::folder::names(folder).unwrap();
    for old in ["database", CLOSED] {
        assert!(!names.iter().any(|name| name == old), "{what}: {old} is left in {names:?}");
    }
    engine.create_table(&table("New")).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    let engine = open(folder).unwrap();
    assert_eq!(entities(&engine).await, *expected, "{what}, after a restart");
    assert!(engine.table(&table("New")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_folder_is_migrated_with_everything_in_it() {
    for is_closed in [false, true] {
        let (folder, expected) = history();
        if is_closed {
            close(folder.path());
        }
        assert_complete(folder.path(), &expected, "not interrupted").await;
        let marker = fs::read_to_string(folder.path().join(MARKER)).unwrap();
        assert!(marker.starts_with("rowhouse data folder\nformat 2\nWritten by Rowhouse."), "{marker}");
    }
}

#[tokio::test]
async fn the_migration_continues_after_a_stop_at_any_step_and_at_any_two() {
    for first in 1..=STEPS.len() {
        for second in 1..=STEPS.len() + 1 {
            let (folder, expected) = history();
            if (first + second) % 2 == 0 {
                close(folder.path());
            }
            let steps = migrate_to(folder.path(), first, &mut |_| ());
            assert_eq!(steps, STEPS[..first]);
            let again = migrate_to(folder.path(), second, &mut |_| ());
            assert_complete(folder.path(), &expected, &format!("stopped after {steps:?}, then after {again:?}")).await;
        }
    }
}

#[tokio::test]
async fn a_copy_of_the_folder_after_any_step_is_complete() {
    let (folder, expected) = history();
    let copies = tempfile::tempdir().unwrap();
    let copied = |step: usize| copies.path().join(step.to_string());
    let steps = migrate_to(folder.path(), usize::MAX, &mut |step| copy(folder.path(), &copied(step)));
    assert_eq!(steps, STEPS);
    for (number, step) in steps.iter().enumerate() {
        let format = if *step == Step::Checked { "format 1\n" } else { "format 2\n" };
        let marker = fs::read_to_string(copied(number).join(MARKER)).unwrap();
        // An earlier version refuses every later format.
        assert!(marker.contains(format), "{step:?}: {marker}");
        assert_complete(&copied(number), &expected, &format!("copied after {step:?}")).await;
    }
}

#[tokio::test]
async fn journals_larger_than_a_memtable_are_migrated_in_parts() {
    let batches = (0..48_u64).map(|number| {
        let value = vec![u8::try_from(number).unwrap(); 500_000];
        let ticks = START_TICKS - 100 + i64::try_from(number).unwrap();
        // Each row is written three times, in different parts.
        batch(number + 2, &entity(&format!("{:02}", number % 16), &value, ticks))
    });
    let batches: Vec<_> = std::iter::once(creation()).chain(batches).collect();
    let expected: BTreeMap<_, _> = (0..16).map(|row| (format!("{row:02}"), vec![row + 32; 500_000])).collect();
    let folder = folder(&[&batches]);
    let copies = tempfile::tempdir().unwrap();
    let copied = |step: usize| copies.path().join(step.to_string());
    let steps = migrate_to(folder.path(), usize::MAX, &mut |step| copy(folder.path(), &copied(step)));
    let (number, _) = steps.iter().enumerate().find(|(_, step)| **step == Step::PartFlushed).expect("a part");
    // A part of the batches is in sorted files. They are applied again, and are interrupted again after the same part.
    let again = migrate_to(&copied(number), 3, &mut |_| ());
    assert_eq!(again, [Step::Checked, Step::Marked, Step::PartFlushed]);
    assert_complete(&copied(number), &expected, "after a part").await;
    assert_complete(folder.path(), &expected, "not interrupted").await;
}

/// A kill while the remains are deleted leaves any part of them.
#[tokio::test]
async fn remains_of_format_1_are_removed_at_the_next_start() {
    for removed in ["database/0.jnl", "database/version", "database/keyspaces", "database", CLOSED] {
        let (folder, expected) = history();
        close(folder.path());
        migrate_to(folder.path(), STEPS.len(), &mut |_| ());
        let path = folder.path().join(removed);
        remove(&path);
        assert_complete(folder.path(), &expected, removed).await;
    }
}

/// Otherwise, the last sequence in the files would follow from numbers of format 1, and could fall behind the log when
/// a merge drops the last entries.
#[tokio::test]
async fn the_last_sequence_is_recorded_even_if_the_journals_are_empty() {
    let folder = folder(&[&[]]);
    close(folder.path());
    migrate_to(folder.path(), STEPS.len(), &mut |_| ());
    let tree = Tree::open(&folder.path().join("tree"), TreeSettings { cache_bytes: 1024 * 1024 }).unwrap();
    assert_eq!(tree.persisted(), Sequence::new(1));
    drop(tree);
    let engine = open(folder.path()).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    assert!(rows(&engine).await.is_empty());
}

/// An old database whose journal looks complete may not be on disk, so it is rewritten before the migration begins.
#[test]
fn the_last_journal_is_rewritten_after_a_crash_and_not_after_a_clean_shutdown() {
    for is_closed in [false, true] {
        let folder = if is_closed { closed() } else { interrupted() };
        let written = fs::read(folder.path().join(JOURNAL)).unwrap();
        migrate_to(folder.path(), 1, &mut |_| ());
        let now = fs::read(folder.path().join(JOURNAL)).unwrap();
        let length = if is_closed { written.len() } else { written.len() - ZEROS };
        assert!(now == written[..length], "closed: {is_closed}");
    }
}

/// An earlier version was interrupted at its first start, before anything was acknowledged.
#[tokio::test]
async fn a_first_start_of_an_earlier_version_that_was_interrupted_is_begun_again() {
    let folder = interrupted();
    fs::rename(folder.path().join(MARKER), folder.path().join("rowhouse.format.new")).unwrap();
    fs::remove_dir_all(folder.path().join(TREE)).unwrap();
    let engine = open(folder.path()).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    assert!(rows(&engine).await.is_empty());
    assert!(!folder.path().join("database").exists());
}
