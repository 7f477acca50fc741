//! Tests of `rowhouse table`, `rowhouse entity` and `rowhouse follow` as users run them.

mod confirmation;
mod credentials;
mod entity;
mod follow;
mod hostile_service;

use crate::PROGRAM;
use test_support::Server;
use test_support::command::{CommandResult, Folder};

struct CommandTest {
    folder: Folder,
    server: Server,
    endpoint: String,
}

impl CommandTest {
    fn new() -> Self {
        Self::with(&["--in-memory"])
    }

    fn with(options: &[&str]) -> Self {
        let server = PROGRAM.start(options);
        let endpoint = test_support::command::endpoint(&server.address);
        Self { folder: PROGRAM.folder(), server, endpoint }
    }

    fn run(&self, code: i32, words: &[&str]) -> CommandResult {
        let ran = self.folder.run(words[0], &words[1..], &[("ROWHOUSE_ENDPOINT", &self.endpoint)]);
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        ran
    }

    fn prints(&self, words: &[&str]) -> String {
        let ran = self.run(0, words);
        assert_eq!(ran.stderr, "", "{words:?}");
        ran.stdout
    }

    fn says(&self, code: i32, words: &[&str]) -> String {
        let ran = self.run(code, words);
        assert_eq!(ran.stdout, "", "{words:?}");
        ran.stderr.replace(&self.endpoint, "ENDPOINT")
    }
}

#[test]
fn tables_are_listed_created_and_deleted() {
    let test = CommandTest::new();
    assert_eq!(test.prints(&["table", "list"]), "");
    assert_eq!(test.prints(&["table", "list", "--output", "json"]), "[]\n");
    assert_eq!(test.prints(&["table", "list", "--output", "jsonl"]), "");
    assert_eq!(test.prints(&["table", "create", "Cars", "logOne", "LogTwo"]), "");
    assert_eq!(test.prints(&["table", "list"]), "Cars\nlogOne\nLogTwo\n");
    assert_eq!(test.prints(&["table", "list", "LOG*"]), "logOne\nLogTwo\n");
    let json = "[{\"TableName\":\"logOne\"},\n{\"TableName\":\"LogTwo\"}]\n";
    assert_eq!(test.prints(&["table", "list", "log", "--output", "json"]), json);
    let lines = "{\"TableName\":\"logOne\"}\n{\"TableName\":\"LogTwo\"}\n";
    assert_eq!(test.prints(&["table", "list", "log", "-o", "jsonl"]), lines);
    assert_eq!(test.prints(&["table", "list", "log", "-o", "csv"]), "TableName\r\nlogOne\r\nLogTwo\r\n");
    let exists = "rowhouse: ENDPOINT: creating the table 'cars' was refused: 409 TableAlreadyExists: \
                  The table specified already exists.\n";
    assert_eq!(test.says(5, &["table", "create", "cars"]), exists);
    assert_eq!(test.prints(&["table", "create", "cars", "--if-not-exists"]), "");
    assert_eq!(test.prints(&["table", "delete", "Cars", "logTwo"]), "");
    assert_eq!(test.prints(&["table", "list"]), "logOne\n");
    let missing = test.says(4, &["table", "delete", "cars"]);
    assert!(missing.starts_with("rowhouse: ENDPOINT: deleting the table 'cars' was refused: 404 "), "{missing}");
    assert_eq!(test.prints(&["table", "delete", "cars", "--if-exists"]), "");
}

#[test]
fn nothing_is_done_if_one_name_is_invalid() {
    let test = CommandTest::new();
    let told = "rowhouse: 'a-b' is not a valid table name: use 3 to 63 letters and digits, beginning with a letter\n";
    assert_eq!(test.says(1, &["table", "create", "cars", "a-b"]), told);
    assert_eq!(test.prints(&["table", "list"]), "");
    assert!(test.says(2, &["table", "create"]).contains("required arguments"));
}

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
fn commands_that_need_extensions_say_how_to_start_the_server() {
    let test = CommandTest::new();
    test.prints(&["table", "create", "orders"]);
    let contains = ["orders", "--filter", "contains(PartitionKey,'p')"];
    for (words, code) in [
        (&["table", "retention", "orders"][..], "InvalidQueryParameterValue"),
        (&["table", "retention", "orders", "--age", "7d"], "InvalidQueryParameterValue"),
        (&["table", "index", "list", "orders"], "InvalidQueryParameterValue"),
        (&["table", "index", "add", "orders", "Total"], "InvalidQueryParameterValue"),
        (&["entity", "query", "$ByTotalOforders"], "InvalidResourceName"),
        (&[&["entity", "query"], &contains[..]].concat(), "NotImplemented"),
        (&[&["entity", "count"], &contains[..]].concat(), "NotImplemented"),
        (&[&["entity", "delete"], &contains[..]].concat(), "NotImplemented"),
    ] {
        let refused = test.says(1, words);
        assert!(refused.contains(code) && refused.contains("'rowhouse serve --extensions'"), "{words:?}: {refused}");
    }
    let extended = with_orders();
    for words in [&["table", "index", "add", "orders", "RowKey"][..], &["entity", "query", "orders", "--filter", "a b"]]
    {
        let refused = extended.says(1, words);
        assert!(!refused.contains("extensions"), "{words:?}: {refused}");
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
