//! Tests of `rowhouse table retention` and `rowhouse table index`, and of the commands that move these settings.

use super::CommandTest;

fn with_orders() -> CommandTest {
    let test = CommandTest::with(&["--in-memory", "--extensions"]);
    test.prints(&["table", "create", "orders"]);
    for (row, total) in [("1", "30"), ("2", "10"), ("3", "20")] {
        test.prints(&["entity", "put", "orders", "p", row, &format!("Total:Int32={total}")]);
    }
    test
}

#[test]
fn retentions_are_set_shown_and_removed() {
    let test = with_orders();
    let shown = || test.prints(&["table", "retention", "orders"]);
    assert_eq!(shown(), "entities do not expire\n");
    test.prints(&["table", "retention", "orders", "--age", "7d"]);
    assert_eq!(shown(), "entities expire 604800 s after their last write\n");
    test.prints(&["table", "retention", "orders", "--property", "Ends", "--age", "90m"]);
    assert_eq!(shown(), "entities expire 5400 s after the time in their property 'Ends'\n");
    test.prints(&["entity", "put", "orders", "p", "1", "Ends:DateTime=2023-11-05T06:30:00Z"]);
    assert_eq!(test.prints(&["entity", "count", "orders"]), "2\n");
    test.prints(&["table", "retention", "orders", "--off"]);
    assert_eq!(shown(), "entities do not expire\n");
    let refused = test.says(1, &["table", "retention", "orders", "--age", "0s"]);
    assert!(refused.contains("--age must be from one second to 36500 days"), "{refused}");
    assert!(test.says(4, &["table", "retention", "none"]).contains("TableNotFound"));
}

#[test]
fn indexes_are_added_listed_used_and_removed() {
    let test = with_orders();
    let list = || test.prints(&["table", "index", "list", "orders"]);
    assert_eq!(list(), "");
    test.prints(&["table", "index", "add", "orders", "Total", "Created"]);
    test.prints(&["table", "index", "add", "orders", "Total"]);
    assert_eq!(list(), "Total ready\nCreated ready\n");
    let rows = |view| {
        let printed = test.prints(&["entity", "query", view, "--select", "Total", "--output", "csv"]);
        printed.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rows("$ByTotalOforders"), ["2", "3", "1"]);
    assert_eq!(rows("$ByTotalDescendingOforders"), ["1", "3", "2"]);
    test.prints(&["table", "index", "remove", "orders", "Created"]);
    assert_eq!(list(), "Total ready\n");
    let refused = test.says(1, &["table", "index", "remove", "orders", "Created"]);
    assert!(refused.contains("has no index of the property 'Created'"), "{refused}");
    assert!(test.says(1, &["table", "index", "add", "orders", "RowKey"]).contains("InvalidInput"));
}

#[test]
fn servers_without_extensions_refuse_settings() {
    let test = CommandTest::new();
    test.prints(&["table", "create", "orders"]);
    for words in [&["retention", "orders"][..], &["index", "list", "orders"], &["index", "add", "orders", "Total"]] {
        let refused = test.says(1, &[&["table"], words].concat());
        assert!(refused.contains("InvalidQueryParameterValue"), "{refused}");
    }
}

#[test]
fn copies_exports_and_backups_contain_settings() {
    let test = with_orders();
    test.prints(&["table", "retention", "orders", "--property", "Ends"]);
    test.prints(&["table", "index", "add", "orders", "Total"]);
    let run = |command: &str, words: &[&str]| {
        let ran = test.folder.run(command, words, &[]);
        assert_eq!(ran.code, Some(0), "{command} {words:?}: {ran:?}");
    };
    run("export", &["--from", &test.endpoint, "--to", "files"]);
    run("import", &["--from", "files", "--to", "imported"]);
    run("copy", &["--from", &test.endpoint, "--to", "copied"]);
    run("backup", &["--data", "copied", "--to", "backups"]);
    run("restore", &["--from", "backups", "--data", "restored"]);
    for data in ["imported", "copied", "restored"] {
        let other = CommandTest::with(&["--data", &test.folder.path(data), "--extensions"]);
        let retention = other.prints(&["table", "retention", "orders"]);
        assert_eq!(retention, "entities expire 0 s after the time in their property 'Ends'\n", "{data}");
        // Waits until the index has been built.
        other.prints(&["table", "index", "add", "orders", "Total"]);
        assert_eq!(other.prints(&["table", "index", "list", "orders"]), "Total ready\n", "{data}");
        let first = other.prints(&["entity", "query", "$ByTotalOforders", "--top", "1", "--output", "csv"]);
        assert!(first.lines().nth(1).unwrap().starts_with("p,2,"), "{data}: {first}");
    }
}
