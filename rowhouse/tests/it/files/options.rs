//! Tests of what options select, and which options are refused.

use super::{done, endpoint, files, refused};
use crate::PROGRAM;
use serde_json::json;
use std::fs::write;
use std::io::Write as _;
use std::process::{Command, Stdio};
use test_support::command::wait_for_exit;
use test_support::content::{fill, put};

#[test]
fn selected_tables_entities_and_properties() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--data", &folder.path("data")]);
    fill(&from, "cars", 2, 10);
    fill(&from, "LogOne", 1, 1);
    fill(&from, "logTwo", 1, 1);
    put(&mut from.client(), "cars", "p00001", "extra", &json!({ "Text": "a,b" }));
    let service = endpoint(&from);
    done(&folder, "export", &["--from", &service, "--to", "logs", "--table", "log*"]);
    assert_eq!(files(&folder, "logs").into_keys().collect::<Vec<_>>(), ["LogOne.jsonl", "logTwo.jsonl"]);
    let chosen = ["--table", "cars", "--filter", "RowKey ge '00009'", "--select", "Text,Number"];
    let expected = "{\"PartitionKey\":\"p00000\",\"RowKey\":\"00009\",\"Number\":9,\"Text\":\"0 90 90 90 90 90 90 90 90 90 9\"}\n\
        {\"PartitionKey\":\"p00001\",\"RowKey\":\"00009\",\"Number\":9,\"Text\":\"1 91 91 91 91 91 91 91 91 91 9\"}\n\
        {\"PartitionKey\":\"p00001\",\"RowKey\":\"extra\",\"Text\":\"a,b\"}\n";
    let csv = "PartitionKey,RowKey,Number,Number@type,Text,Text@type\r\n\
        p00000,00009,9,Edm.Int32,0 90 90 90 90 90 90 90 90 90 9,Edm.String\r\n\
        p00001,00009,9,Edm.Int32,1 91 91 91 91 91 91 91 91 91 9,Edm.String\r\n\
        p00001,extra,,,\"a,b\",Edm.String\r\n";
    let ran = done(&folder, "export", &[&["--from", &service, "--to", "-"][..], &chosen].concat());
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (expected, ""));
    let ran = done(&folder, "export", &[&["--from", &service, "--to", "-", "--format", "csv"][..], &chosen].concat());
    assert_eq!(ran.stdout, csv);
    done(&folder, "export", &[&["--from", &service, "--to", "some.csv"][..], &chosen].concat());
    assert_eq!(std::fs::read_to_string(folder.path("some.csv")).unwrap(), csv);
    // An export directly from the engine produces the same files as an export from the service.
    from.stop();
    let ran = done(&folder, "export", &[&["--from", "data", "--to", "-"][..], &chosen].concat());
    assert_eq!(ran.stdout, expected);
    let ran = done(&folder, "export", &["--from", "data", "--to", "-", "--table", "LogOne", "--with-timestamps"]);
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let etag = format!("W/\"datetime'{}'\"", line["Timestamp"].as_str().unwrap().replace(':', "%3A"));
    assert_eq!((&line["odata.etag"], &line["Timestamp@odata.type"]), (&json!(etag), &json!("Edm.DateTime")));
}

#[test]
fn files_of_other_tools_and_pipes() {
    let folder = PROGRAM.folder();
    let csv = "\u{FEFF}PartitionKey,RowKey,Age,Name\nann,1,41,\"Ann, the first\"\nbob,1,,\"\"\n";
    write(folder.path("people.csv"), csv).unwrap();
    done(&folder, "import", &["--from", "people.csv", "--to", "data", "--types", "Age=Edm.Int32"]);
    let ran = done(&folder, "export", &["--from", "data", "--to", "-"]);
    let lines = "{\"PartitionKey\":\"ann\",\"RowKey\":\"1\",\"Age\":41,\"Name\":\"Ann, the first\"}\n\
        {\"PartitionKey\":\"bob\",\"RowKey\":\"1\",\"Name\":\"\"}\n";
    assert_eq!(ran.stdout, lines);
    let guessed = ["--guess-types", "--types", "Name=Edm.String"];
    done(&folder, "import", &[&["--from", "people.csv", "--to", "guessed"][..], &guessed].concat());
    let ran = done(&folder, "export", &["--from", "guessed", "--to", "-"]);
    assert_eq!(ran.stdout, lines);
    let mut command = Command::new(PROGRAM.path());
    command
        .env_clear()
        .current_dir(folder.path(""))
        .args(["import", "--from", "-", "--to", "piped", "--table", "people"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ran = wait_for_exit(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let ran = done(&folder, "export", &["--from", "piped", "--to", "-"]);
    assert_eq!(ran.stdout, lines);
}

#[test]
fn a_value_that_does_not_have_the_guessed_type_is_a_bad_line() {
    let folder = PROGRAM.folder();
    // The line comes after those from which the type was guessed.
    let many = (0..4000).map(|row| format!("q,{row},5\n")).collect::<Vec<_>>().concat();
    write(folder.path("many.csv"), format!("PartitionKey,RowKey,Age\n{many}q,last,old\n")).unwrap();
    let said = refused(&folder, "import", &["--from", "many.csv", "--to", "data", "--guess-types"]);
    assert!(said.contains("many.csv:4002:8: the value of 'Age' is not Edm.Int32"), "{said}");
}

#[test]
fn mistakes_are_explained_and_change_nothing() {
    let folder = PROGRAM.folder();
    let server = PROGRAM.start(&["--in-memory"]);
    fill(&server, "cars", 1, 3);
    fill(&server, "vans", 1, 3);
    let service = endpoint(&server);
    done(&folder, "export", &["--from", &service, "--to", "out"]);
    write(folder.path("a-b.jsonl"), "").unwrap();
    write(folder.path("empty.csv"), "").unwrap();
    write(folder.path("people.csv"), "PartitionKey,RowKey,Age\np,1,41\n").unwrap();
    // A record that swallows the next two records.
    write(folder.path("quotes.csv"), "PartitionKey,RowKey,Name\np,1,a\np,2,\"b\np,3,c\np,4,d\n").unwrap();
    std::fs::create_dir(folder.path("by-hand")).unwrap();
    write(folder.path("by-hand/vans.jsonl"), "written manually\n").unwrap();
    for (subcommand, arguments, told) in [
        ("export", &["--from", &service, "--to", "out"][..], "--overwrite"),
        ("export", &["--from", &service, "--to", "cars.jsonl"], "can hold only one table, but there are 2"),
        ("export", &["--from", &service, "--to", "-"], "can hold only one table"),
        ("export", &["--from", &service, "--to", "new", "--table", "bikes"], "no table 'bikes'"),
        ("export", &["--from", &service, "--to", "new", "--filter", "Number gt"], "is not a valid filter"),
        ("export", &["--from", &service, "--to", "x.csv", "--format", "jsonl"], "does not match --format"),
        ("export", &["--from", "nowhere", "--to", "new"], "there is no data folder"),
        ("import", &["--from", "out", "--to", "new", "--table", "bikes"], "has no table 'bikes'"),
        ("import", &["--from", "nowhere", "--to", "new"], "--from nowhere"),
        ("import", &["--from", "a-b.jsonl", "--to", "new"], "rename the file after its table, or pass --table"),
        ("import", &["--from", "empty.csv", "--to", "new"], "the first line of CSV must name the columns"),
        ("import", &["--from", "-", "--to", "new"], "pass its name with --table"),
        ("export", &["--from", &service, "--to", "by-hand"], "by-hand/vans.jsonl already exists"),
        ("import", &["--from", "out", "--to", "new", "--types", "Age=Int"], "--types"),
        ("import", &["--from", "out", "--to", "new", "--types", "Age=Edm.Int32"], "--types applies only to CSV"),
        ("import", &["--from", "out", "--to", "new", "--guess-types"], "--guess-types applies only to CSV"),
        ("import", &["--from", "-", "--to", "new", "--table", "people", "--format", "csv", "--guess-types"], "a pipe"),
        ("import", &["--from", "people.csv", "--to", "new", "--types", "age=Edm.Int32"], "no column 'age'"),
        ("import", &["--from", "quotes.csv", "--to", "new", "--skip-bad", "2"], "2 lines, but this record has 3"),
        ("import", &["--from", "out", "--to", "new", "--bad-lines", "bad"], "saves the lines of only one table"),
    ] {
        let said = refused(&folder, subcommand, arguments);
        assert!(said.contains(told), "{subcommand} {arguments:?}: {said}");
    }
    let ran = done(&folder, "import", &["--from", "quotes.csv", "--to", "new", "--skip-bad", "3"]);
    assert!(ran.stdout.contains("3 bad lines were skipped"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(folder.path("by-hand/vans.jsonl")).unwrap(), "written manually\n");
    done(&folder, "export", &["--from", &service, "--to", "by-hand", "--overwrite"]);
    done(&folder, "export", &["--from", &service, "--to", "out", "--overwrite", "--table", "cars"]);
    let text = std::fs::read_to_string(folder.path("out/cars.jsonl")).unwrap();
    write(folder.path("out/cars.jsonl"), text.replace("0 0", "0 1")).unwrap();
    let said = refused(&folder, "import", &["--from", "out", "--to", "changed"]);
    assert!(said.contains("its checksum differs"), "{said}");
    done(&folder, "import", &["--from", "out/cars.jsonl", "--to", "named"]);
}

#[test]
fn an_unfinished_export_is_neither_mixed_with_another_nor_imported() {
    let folder = PROGRAM.folder();
    let server = PROGRAM.start(&["--in-memory"]);
    fill(&server, "cars", 1, 3);
    let service = endpoint(&server);
    // The state left by a run that was killed right after it started.
    std::fs::create_dir(folder.path("out")).unwrap();
    write(
        folder.path("out/export.state.json"),
        format!(
            "{{\"format\":4,\"from\":\"{service}\",\"account\":\"devstoreaccount1\",\"file_format\":\"jsonl\",\"filter\":null,\
             \"select\":[],\"with_timestamps\":false,\"skip_policies\":false,\"tables\":{{}}}}"
        ),
    )
    .unwrap();
    let said = refused(&folder, "export", &["--from", &service, "--to", "out", "--format", "csv"]);
    assert!(said.contains("with different options"), "{said}");
    let said = refused(&folder, "import", &["--from", "out", "--to", "data"]);
    assert!(said.contains("is incomplete"), "{said}");
    done(&folder, "export", &["--from", &service, "--to", "out"]);
    done(&folder, "import", &["--from", "out", "--to", "data"]);
}

#[test]
fn one_of_several_accounts_in_a_folder_is_chosen() {
    let folder = PROGRAM.folder();
    write(folder.path("cars.jsonl"), "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n").unwrap();
    for account in ["orchard", "meadow"] {
        done(&folder, "import", &["--from", "cars.jsonl", "--to", "data", "--account", account]);
    }
    let said = refused(&folder, "export", &["--from", "data", "--to", "out"]);
    assert!(said.contains("several accounts (meadow, orchard): choose one with --account"), "{said}");
    let said = refused(&folder, "export", &["--from", "data", "--to", "out", "--account", "desert"]);
    assert!(said.contains("no account 'desert'; its accounts are meadow, orchard"), "{said}");
    done(&folder, "export", &["--from", "data", "--to", "out", "--account", "meadow"]);
    // An export records its account.
    done(&folder, "import", &["--from", "out", "--to", "other"]);
    let said = refused(&folder, "export", &["--from", "other", "--to", "x", "--account", "orchard"]);
    assert!(said.contains("its accounts are meadow"), "{said}");
}
