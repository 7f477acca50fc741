//! Tests which batches of a journal are applied, and of the check of a folder that is not migrated.

use super::*;
use crate::check_folder;
use engine::check::CheckReport;
use engine_contract::support::{commit_one, upsert};

fn check(folder: &Path) -> CheckReport {
    let scratch = tempfile::tempdir().unwrap();
    check_folder(folder, scratch.path(), &|_| true).unwrap()
}

fn problems(report: &CheckReport) -> Vec<String> {
    report.problems.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_last_write_may_have_been_cut_off() {
    for (what, fill) in [("cut", None), ("zeros", Some(0)), ("other bytes", Some(0xAA))] {
        let folder = interrupted();
        let third = place_in_journal(folder.path(), "third");
        change(&folder.path().join(JOURNAL), |bytes| match fill {
            None => bytes.truncate(third + 3),
            // Parts of the write are missing, but other parts, including its end, are present.
            Some(byte) => bytes[third..third + 5].fill(byte),
        });
        assert!(check(folder.path()).notes.iter().any(|note| note.contains("interrupted a write")), "{what}");
        let engine = open(folder.path()).unwrap();
        assert_eq!(rows(&engine).await, ["first", "second"], "{what}");
        drop(engine);
        assert_eq!(rows(&open(folder.path()).unwrap()).await, ["first", "second"], "{what}");
    }
}

#[tokio::test]
async fn items_of_other_keyspaces_are_ignored() {
    let other =
        [item_of(2, 0, b"\0\0\0\0\0\0\0\x01p\0x", b"not a record"), [&[4][..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat()];
    let first = entity("first", b"1", START_TICKS - 1);
    let folder = folder(&[&[creation(), batch(2, &other), batch(3, &first)]]);
    assert_eq!(rows(&open(folder.path()).unwrap()).await, ["first"]);
}

#[tokio::test]
async fn removals_of_both_kinds_are_applied() {
    let batches = [
        creation(),
        batch(2, &entity("a", b"1", START_TICKS - 9)),
        batch(3, &entity("b", b"2", START_TICKS - 8)),
        batch(4, &entity("c", b"3", START_TICKS - 7)),
        batch(5, &[removal("a"), item(2, &entity_key("b"), b"")]),
    ];
    let folder = folder(&[&batches]);
    assert_eq!(rows(&open(folder.path()).unwrap()).await, ["c"]);
}

/// The batch has one item: the removal of a key from a keyspace.
fn forged(number: u64) -> Vec<u8> {
    batch(number, &[item(1, b"forged", b"")])
}

const IN_VALUE: &[u8] = b"the client's own bytes";

/// Returns the folder of [`interrupted`], with a further write of two entities whose values contain the given bytes,
/// and a last write.
fn interrupted_with(bytes: &[u8]) -> TempDir {
    let value = [IN_VALUE, bytes, &[0xEE; 1000]].concat();
    let both =
        [&entity("with", &value, START_TICKS - 9)[..1], &entity("without", &value, START_TICKS - 9)[..]].concat();
    let folder = interrupted();
    change(&folder.path().join(JOURNAL), |journal| {
        journal.truncate(journal.len() - ZEROS);
        journal.extend(batch(50, &both));
        journal.extend(batch(51, &entity("zzz", b"1", START_TICKS - 8)));
        journal.resize(journal.len() + ZEROS, 0);
    });
    folder
}

#[tokio::test]
async fn a_cut_off_write_of_values_that_look_like_batches_is_no_damage() {
    let of_another = {
        let folder = interrupted();
        let journal = fs::read(folder.path().join(JOURNAL)).unwrap();
        journal[..journal.len() - ZEROS].to_vec()
    };
    for (what, bytes) in [
        ("no items", batch(u64::from(u32::MAX), &[])),
        ("one item", forged(u64::from(u32::MAX))),
        ("many", forged(1000).repeat(100)),
        ("a journal", of_another),
    ] {
        let folder = interrupted_with(&bytes);
        let good = fs::read(folder.path().join(JOURNAL)).unwrap();
        let values: Vec<usize> = (0..good.len()).filter(|at| good[*at..].starts_with(IN_VALUE)).collect();
        let [first, second] = values[..] else { panic!("{what}: {values:?}") };
        for (cut, is_filled) in [(first, false), (first, true), (second, false), (second, true)] {
            let behind = cut + IN_VALUE.len() + bytes.len();
            for length in [behind - 9, behind, behind + 1, behind + 500] {
                let again = tempfile::tempdir().unwrap();
                copy(folder.path(), again.path());
                let mut cut = good.clone();
                cut.truncate(length);
                cut.resize(if is_filled { good.len() + 100_000 } else { length }, 0);
                fs::write(again.path().join(JOURNAL), cut).unwrap();
                let found = rows(&open(again.path()).unwrap()).await;
                assert_eq!(found, IN_ORDER, "{what}, cut to {length}, {is_filled}");
            }
        }
    }
}

#[tokio::test]
async fn values_that_look_like_batches_do_not_hide_damage() {
    // Flip every byte of the batch with the values, except its sequence number, which another test covers.
    let folder = interrupted_with(&forged(u64::from(u32::MAX)));
    let journal = folder.path().join(JOURNAL);
    let good = fs::read(&journal).unwrap();
    let first = good.windows(IN_VALUE.len()).position(|window| window == IN_VALUE).unwrap();
    let begin = (0..first).rev().find(|at| good[*at..].starts_with(&[1, 3, 0, 0, 0])).unwrap();
    for at in (begin..begin + 5).chain(begin + 13..begin + 300) {
        for flipped in [0x01, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[at] ^= flipped;
            fs::write(&journal, &bytes).unwrap();
            let error = refusal(open(folder.path())).to_string();
            assert!(error.contains("--durability interval"), "byte {at}: {error}");
        }
    }
    let engine = open_with_interval(folder.path()).unwrap();
    assert_eq!(rows(&engine).await, IN_ORDER, "the remedy in the message works");
}

#[tokio::test]
async fn the_durability_interval_accepts_the_loss_it_allows() {
    let folder = interrupted();
    let second = place_in_journal(folder.path(), "second");
    change(&folder.path().join(JOURNAL), |bytes| bytes[second..second + 5].fill(0));
    refusal(open(folder.path()));
    let engine = open_with_interval(folder.path()).unwrap();
    assert_eq!(rows(&engine).await, ["first"]);
    drop(engine);
    assert_eq!(rows(&open(folder.path()).unwrap()).await, ["first"]);
}

#[tokio::test]
async fn deleting_the_record_of_a_clean_shutdown_accepts_the_loss() {
    let folder = closed();
    let third = place_in_journal(folder.path(), "third");
    change(&folder.path().join(JOURNAL), |bytes| bytes[third] ^= 1);
    assert!(matches!(refusal(open(folder.path())), OpenError::Damaged { .. }));
    assert!(matches!(refusal(open_with_interval(folder.path())), OpenError::Damaged { .. }));
    fs::remove_file(folder.path().join(CLOSED)).unwrap();
    assert_eq!(rows(&open(folder.path()).unwrap()).await, ["first", "second"]);
}

#[tokio::test]
async fn records_of_earlier_shutdowns_give_no_false_alarm() {
    // This is the state after a crash while the record was being written.
    let folder = interrupted();
    fs::write(folder.path().join("rowhouse.closed.new"), b"rowhouse cl").unwrap();
    let engine = open(folder.path()).unwrap();
    assert_eq!(rows(&engine).await, IN_ORDER);
    assert!(!folder.path().join("rowhouse.closed.new").exists());
    // This is the record of a version that recorded only that everything was synced.
    let folder = interrupted();
    fs::write(folder.path().join(CLOSED), b"").unwrap();
    assert_eq!(rows(&open(folder.path()).unwrap()).await, IN_ORDER);
}

#[tokio::test]
async fn stamps_continue_after_the_migration() {
    let folder = closed();
    let engine = open(folder.path()).unwrap();
    let before = rows(&engine).await;
    commit_one(&engine, &table("Other"), upsert("p", "r", 1)).await.unwrap_err();
    commit_one(&engine, &table("Entities"), upsert("p", "zzz", 1)).await.unwrap();
    drop((engine, before));
    // The migrated folder is like any other after a crash.
    let engine = open(folder.path()).unwrap();
    assert_eq!(all(&engine, &table("Entities")).await.len(), 4);
}

#[tokio::test]
async fn a_folder_that_is_not_migrated_is_checked_and_not_changed() {
    let folder = interrupted();
    put_in_sorted_file(folder.path(), &entity_key("first"), b"an older version");
    let before = content(folder.path());
    let report = check(folder.path());
    assert_eq!(problems(&report), [""; 0]);
    assert_eq!((report.tables.len(), report.files), (1, 1));
    assert_eq!(report.tables[0].entities, 3);
    assert!(report.notes.iter().any(|note| note.contains("format 1") && note.contains("rowhouse serve")), "{report:?}");
    assert_eq!(content(folder.path()), before);
    // The entries are verified too.
    let stranger = item(0, b"\0\0\0\0\0\0\0\x07p\0r", b"x");
    change(&folder.path().join(JOURNAL), |bytes| {
        bytes.truncate(bytes.len() - ZEROS);
        bytes.extend(batch(100, &[stranger]));
    });
    let found = problems(&check(folder.path()));
    assert!(found.len() == 1 && found[0].contains("belongs to no table"), "{found:?}");
}

#[tokio::test]
async fn the_check_finds_what_a_start_refuses() {
    let folder = closed();
    let third = place_in_journal(folder.path(), "third");
    let good = fs::read(folder.path().join(JOURNAL)).unwrap();
    change(&folder.path().join(JOURNAL), |bytes| bytes.truncate(third));
    let found = problems(&check(folder.path()));
    assert!(found.len() == 1 && found[0].contains("although everything was synced"), "{found:?}");
    fs::write(folder.path().join(JOURNAL), good).unwrap();
    fs::remove_file(folder.path().join(TREE).join("current")).unwrap();
    let found = problems(&check(folder.path()));
    assert!(found.len() == 1 && found[0].contains("it is missing"), "{found:?}");
}
