//! Tests that a damaged folder is refused and not changed.

use super::*;

/// Asserts that opening fails with a message that names the folder, and leaves every byte unchanged.
fn assert_refused(folder: &Path, why: &str) -> OpenError {
    let before = content(folder);
    let error = refusal(open(folder));
    let text = error.to_string();
    assert_eq!(content(folder), before, "{why}: the folder was changed by: {text}");
    assert!(text.contains(folder.to_str().unwrap()), "{why}: {text}");
    // A second attempt must find the same state.
    assert_eq!(refusal(open(folder)).to_string(), text, "{why}");
    error
}

#[test]
fn a_missing_file_of_the_database_is_not_created_again() {
    let files = [
        "database",
        "database/version",
        JOURNAL,
        "database/keyspaces",
        "database/keyspaces/0",
        "database/keyspaces/0/current",
        "database/keyspaces/1/current",
        "database/keyspaces/1/v0",
        "database/keyspaces/1",
    ];
    for file in files {
        let folder = closed();
        let path = folder.path().join(file);
        remove(&path);
        let error = assert_refused(folder.path(), file);
        assert!(matches!(error, OpenError::Damaged { .. }), "{file}: {error}");
    }
}

#[test]
fn a_missing_or_damaged_sorted_file_is_an_error() {
    for damage in ["missing", "cut", "zeros", "empty"] {
        let folder = interrupted();
        put_in_sorted_file(folder.path(), &entity_key("first"), &[7; 1000]);
        let tables = folder.path().join(TREE).join("tables");
        let table = fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
        match damage {
            "missing" => fs::remove_file(&table).unwrap(),
            "cut" => change(&table, |bytes| bytes.truncate(bytes.len() / 2)),
            "zeros" => change(&table, |bytes| bytes.fill(0)),
            _ => change(&table, Vec::clear),
        }
        assert_refused(folder.path(), damage);
    }
}

#[test]
fn a_damaged_manifest_is_an_error() {
    for keyspace in ["database/keyspaces/0", TREE] {
        for damage in ["cut", "zeros", "empty"] {
            let folder = closed();
            let files = fs::read_dir(folder.path().join(keyspace)).unwrap().map(|entry| entry.unwrap().path());
            let manifest = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('v')).last();
            change(&manifest.unwrap(), |bytes| match damage {
                "cut" => bytes.truncate(bytes.len() / 2),
                "zeros" => bytes.fill(0),
                _ => bytes.clear(),
            });
            assert_refused(folder.path(), damage);
        }
    }
}

#[tokio::test]
async fn damage_in_the_middle_of_a_journal_does_not_discard_what_follows() {
    let folder = interrupted();
    let journal = folder.path().join(JOURNAL);
    let (first, second) = (place_in_journal(folder.path(), "first"), place_in_journal(folder.path(), "second"));
    let good = fs::read(&journal).unwrap();
    let cases: [(&str, std::ops::Range<usize>); 4] = [
        ("a byte of a value", second..second + 1),
        ("a block", first..first + 16),
        ("everything between two batches", first + 30..second),
        ("the beginning", 0..first),
    ];
    for (what, range) in cases {
        let mut bytes = good.clone();
        bytes[range].iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(&journal, &bytes).unwrap();
        let error = assert_refused(folder.path(), what);
        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
    }
    fs::write(&journal, &good).unwrap();
    assert_eq!(rows(&open(folder.path()).unwrap()).await, IN_ORDER);
}

#[test]
fn an_incomplete_journal_before_the_last_one_is_damage() {
    let batches = [creation(), batch(2, &entity("first", b"1", START_TICKS - 2))];
    let later = [batch(3, &entity("second", b"2", START_TICKS - 1))];
    let folder = folder(&[&batches, &later]);
    change(&folder.path().join(JOURNAL), |bytes| bytes.truncate(bytes.len() - 1));
    let error = assert_refused(folder.path(), "a sealed journal");
    assert!(error.to_string().contains("although everything was synced"), "{error}");
}

#[test]
fn a_missing_journal_between_others_is_damage() {
    let batches = |number| [batch(number, &entity("first", b"1", START_TICKS - 2))];
    let folder = folder(&[&[creation()], &batches(2), &batches(3)]);
    fs::remove_file(folder.path().join("database/1.jnl")).unwrap();
    let error = assert_refused(folder.path(), "a gap");
    assert!(error.to_string().contains("the journal after 0.jnl is missing"), "{error}");
}

#[test]
fn a_sequence_number_that_goes_back_is_damage() {
    let folder = interrupted();
    let second = place_in_journal(folder.path(), "second");
    change(&folder.path().join(JOURNAL), |bytes| {
        // The batch begins with a tag, the number of its items and its sequence number.
        let start = (0..second).rev().find(|at| bytes[*at..].starts_with(&[1, 2, 0, 0, 0])).unwrap();
        bytes[start + 5..start + 13].fill(0);
    });
    let error = assert_refused(folder.path(), "a sequence number");
    assert!(error.to_string().contains("sequence numbers"), "{error}");
}

#[test]
fn after_a_clean_shutdown_nothing_can_have_been_cut_off() {
    let folder = closed();
    let third = place_in_journal(folder.path(), "third");
    change(&folder.path().join(JOURNAL), |bytes| bytes[third] ^= 1);
    assert_refused(folder.path(), "the last batch");
    // The whole last batch is missing, so that the journal ends properly.
    let folder = closed();
    let third = place_in_journal(folder.path(), "third");
    change(&folder.path().join(JOURNAL), |bytes| {
        let start = (0..third).rev().find(|at| bytes[*at..].starts_with(&[1, 2, 0, 0, 0])).unwrap();
        bytes.truncate(start);
    });
    let error = assert_refused(folder.path(), "a missing batch");
    assert!(error.to_string().contains("when it was closed") && error.to_string().contains(CLOSED), "{error}");
    let folder = closed();
    change(&folder.path().join(CLOSED), |bytes| bytes[20] ^= 1);
    assert_refused(folder.path(), "the record");
}

/// The engine would not start with the migrated folder.
#[test]
fn damaged_entries_of_the_engine_are_found_before_the_migration() {
    let next = item(0, layout::NEXT_TABLE_ID, &TableId::FIRST.to_bytes());
    let folder = folder(&[&[creation(), batch(2, &[next])]]);
    let error = assert_refused(folder.path(), "the next ID");
    assert!(error.to_string().contains("already issued"), "{error}");
}

#[test]
fn operations_that_were_never_written_are_damage() {
    let clear = [&[4][..], &1_u64.to_le_bytes()].concat();
    for (what, items) in [
        ("the removal of everything", clear),
        ("an unknown kind", item(4, &entity_key("x"), b"")),
        ("a removal with a value", item(1, &entity_key("x"), b"1")),
        ("a key without a table", item(0, b"x", b"1")),
    ] {
        let folder = folder(&[&[creation(), batch(2, &[items]), batch(3, &[removal("x")])]]);
        let error = assert_refused(folder.path(), what);
        assert!(error.to_string().contains("never wrote"), "{what}: {error}");
    }
}

#[test]
fn a_folder_with_parts_of_both_formats_is_refused() {
    for part in ["tree", "log"] {
        let folder = closed();
        fs::create_dir(folder.path().join(part)).unwrap();
        let error = assert_refused(folder.path(), part);
        assert!(error.to_string().contains("must not exist"), "{part}: {error}");
    }
}

#[test]
fn damage_is_refused_while_the_folder_is_being_migrated() {
    let folder = closed();
    change(&folder.path().join(MARKER), |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let line = "format 2\nA migration from format 1 is unfinished. Start Rowhouse to complete it.\n";
        *bytes = text.replace("format 1\n", line).into_bytes();
    });
    let third = place_in_journal(folder.path(), "third");
    change(&folder.path().join(JOURNAL), |bytes| bytes[third] ^= 1);
    assert_refused(folder.path(), "a journal");
    // Neither the old nor the new folder of the sorted files exists.
    fs::remove_dir_all(folder.path().join(TREE)).unwrap();
    assert_refused(folder.path(), "no tree");
}
