//! Tests of `rowhouse table`.

use super::CommandTest;

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

#[test]
fn help_has_examples() {
    let test = CommandTest::new();
    for words in [&["table"][..], &["table", "create"], &["entity"], &["entity", "query"], &["export"], &["import"]] {
        let help = test.prints(&[words, &["--help"]].concat());
        assert!(help.contains("Examples:\n  rowhouse "), "{words:?}: {help}");
    }
}
