//! Entities that only one dialect stores are in the way of nothing in the other one: tables are the same data.

use crate::PROGRAM;
use serde_json::{Value, json};
use test_support::Server;
use test_support::command::{Folder, endpoint};
use test_support::content::{Snapshot, create_table, put, snapshot};

const MIB: usize = 1024 * 1024;

/// Stores entities beyond the limits of Table storage: in their number of properties, in the length of a name, in the
/// size of a value, and in their size.
fn fill_wide(server: &Server) {
    let mut client = server.client();
    create_table(&mut client, "wide");
    let numbers = (0..255).map(|number| (format!("P{number:03}"), Value::from(number)));
    put(&mut client, "wide", "p", "many", &Value::Object(numbers.collect()));
    put(&mut client, "wide", "p", "name", &json!({ "n".repeat(1024): 1 }));
    put(&mut client, "wide", "p", "text", &json!({ "Text": "e".repeat(2 * MIB - 2048), "Size": 2 }));
    // Each character takes six bytes in JSON, and a request has at most four megabytes.
    put(&mut client, "wide", "q", "escapes", &json!({ "One": "\u{1}".repeat(600_000) }));
    let merge = json!({ "Two": "\u{2}".repeat(600_000) }).to_string();
    let path = "/wide(PartitionKey='q',RowKey='escapes')";
    assert_eq!(client.request("MERGE", path, &[("If-Match", "*")], merge.as_bytes()).status, 204);
    put(&mut client, "wide", "p", "usual", &json!({ "Size": 1 }));
}

fn run(folder: &Folder, subcommand: &str, arguments: &[&str]) {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(0), "{subcommand} {arguments:?}: {}", ran.stderr);
}

fn content(folder: &Folder, data: &str) -> Snapshot {
    snapshot(&PROGRAM.start(&["--data", &folder.path(data)]))
}

#[test]
fn entities_of_the_other_dialect_take_every_way() {
    let folder = PROGRAM.folder();
    let data = folder.path("data");
    let server = PROGRAM.start(&["--data", &data, "--service", "cosmos"]);
    fill_wide(&server);
    server.stop();
    let server = PROGRAM.start(&["--data", &data]);
    let expected = snapshot(&server);
    assert_eq!(expected.entities(), 5);
    let mut client = server.client();
    let found = client.query("/wide()?$filter=P254%20eq%20254%20or%20Size%20eq%202&$select=RowKey", &[]).unwrap();
    assert_eq!(found.iter().map(|entity| &entity["RowKey"]).collect::<Vec<_>>(), ["many", "text"]);
    // What is refused in the cloud says which entity it is.
    let to = PROGRAM.start(&["--in-memory"]);
    let told = folder.copy_error(&["--from", &endpoint(&server.address), "--to", &endpoint(&to.address)]);
    let named = ["many", "name", "text", "escapes"].map(|row| format!("and row \"{row}\" in table 'wide'"));
    assert!(
        told.contains("the target accepts no entity as large as the one with partition")
            && named.iter().any(|row| told.contains(row)),
        "{told}"
    );
    let state = folder.states("copy");
    std::fs::remove_file(&state[0]).unwrap();
    // From a service, and into a service of the dialect, whose order a verification cannot follow.
    let cosmos = PROGRAM.start(&["--in-memory", "--service", "cosmos"]);
    folder.copy_successfully(&["--from", &endpoint(&server.address), "--to", "copied"]);
    assert_eq!(content(&folder, "copied"), expected);
    let deleted = client.request("DELETE", "/wide(PartitionKey='q',RowKey='escapes')", &[("If-Match", "*")], b"");
    assert_eq!(deleted.status, 204);
    let skipped = ["--skip-policies", "--skip-properties", "--no-verify"];
    let arguments = ["--from", &endpoint(&server.address), "--to", &endpoint(&cosmos.address)];
    run(&folder, "copy", &[&arguments[..], &skipped].concat());
    let text = cosmos.client().request("GET", "/wide(PartitionKey='p',RowKey='text')", &[], b"").json();
    assert_eq!(text["Text"], "e".repeat(2 * MIB - 2048));

    run(&folder, "backup", &["--data", "copied", "--to", "backups", "--quiet"]);
    run(&folder, "restore", &["--from", "backups", "--data", "restored", "--quiet"]);
    run(&folder, "check", &["--data", "restored"]);
    assert_eq!(content(&folder, "restored"), expected);
    for format in ["jsonl", "csv"] {
        let (files, imported) = (format!("exported-{format}"), format!("imported-{format}"));
        run(&folder, "export", &["--from", "copied", "--to", &files, "--format", format]);
        run(&folder, "import", &["--from", &files, "--to", &imported]);
        assert_eq!(content(&folder, &imported).tables(), expected.tables(), "{format}");
    }
    // A line that the target refuses is a bad line.
    let cloud = endpoint(&to.address);
    let into_cloud = ["--from", "exported-jsonl", "--to", &cloud, "--mode", "replace"];
    let ran = folder.run("import", &into_cloud, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("the target accepts no entity as large as this one"), "{}", ran.stderr);
    let ran = folder.run("import", &[&into_cloud[..], &["--skip-bad", "4"]].concat(), &[]);
    assert!(ran.code == Some(0) && ran.stdout.ends_with("; 4 bad lines were skipped\n"), "{ran:?}");
    assert_eq!(snapshot(&to).entities(), 1);
}
