//! Tests of the initial tables of a server (`--seed`), with the built program.

use super::*;
use std::fs;
use std::path::Path;
use test_support::command::Folder;

fn write_seed(folder: &str) {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, lines: &[Value]| {
        let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
        fs::write(Path::new(folder).join(name), text).unwrap();
    };
    let tree =
        |row: &str| json!({ "PartitionKey": "p", "RowKey": row, "Rings@odata.type": "Edm.Int64", "Rings": "12" });
    write("Trees.jsonl", &[tree("1"), tree("2"), tree("3")]);
    write("Shrubs.jsonl", &[json!({ "PartitionKey": "p", "RowKey": "s" })]);
}

fn seeded() -> (Folder, String) {
    let folder = PROGRAM.folder();
    let seed = folder.path("seed");
    write_seed(&seed);
    (folder, seed)
}

#[test]
fn a_server_begins_with_the_tables_and_a_reset_returns_to_them() {
    let (_folder, seed) = seeded();
    let server = PROGRAM.start(&["--in-memory", "--test-controls", "--seed", &seed]);
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(tables(&mut client), ["Shrubs", "Trees"]);
        assert_eq!(rows(&mut client, "Trees"), ["1", "2", "3"]);
        let tree = client.request("GET", "/Trees(PartitionKey='p',RowKey='1')", &[], b"").json();
        assert_eq!((tree["Rings"].as_str(), tree["Rings@odata.type"].as_str()), (Some("12"), Some("Edm.Int64")));
        insert(&mut client, "Trees", "4");
        assert_eq!(client.request("DELETE", "/Tables('Shrubs')", &[], b"").status, 204);
        reset(&server);
    }
    let log = server.stop().1;
    assert!(log.iter().any(|line| line.contains("tables=2 entities=4")), "{log:?}");
}

#[test]
fn an_export_can_be_edited_and_is_loaded_with_its_policies() {
    let (folder, seed) = seeded();
    let first = PROGRAM.start(&["--in-memory", "--seed", &seed]);
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>readers</Id></SignedIdentifier></SignedIdentifiers>";
    let xml = [("Content-Type", "application/xml")];
    assert_eq!(first.client().request("PUT", "/Trees?comp=acl", &xml, policy.as_bytes()).status, 204);
    let (from, exported) = (format!("http://{}/devstoreaccount1", first.address), folder.path("exported"));
    let ran = folder.run("export", &["--from", &from, "--to", &exported], &[("ROWHOUSE_FROM_KEY", test_support::KEY)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let file = Path::new(&exported).join("Trees.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    fs::write(&file, lines.replace("\"12\"", "\"13\"")).unwrap();
    let second = PROGRAM.start(&["--in-memory", "--seed", &exported]);
    let mut client = second.client();
    assert_eq!(client.request("GET", "/Trees(PartitionKey='p',RowKey='3')", &[], b"").json()["Rings"], "13");
    let policies = client.request("GET", "/Trees?comp=acl", &[], b"").body;
    assert!(String::from_utf8(policies).unwrap().contains("readers"));
}

#[test]
fn data_that_are_kept_are_not_loaded_twice() {
    let (folder, seed) = seeded();
    let data = folder.path("data");
    let server = PROGRAM.start(&["--data", &data, "--seed", &seed]);
    assert_eq!(server.client().request("DELETE", "/Tables('Shrubs')", &[], b"").status, 204);
    assert_eq!(server.stop().0.code(), Some(0));
    let server = PROGRAM.start(&["--data", &data, "--seed", &seed]);
    assert_eq!(tables(&mut server.client()), ["Trees"]);
    let log = server.stop().1;
    assert!(log.iter().any(|line| line.contains("nothing was loaded") && line.contains("has tables")), "{log:?}");
}

#[test]
fn what_cannot_be_loaded_ends_the_program_before_it_is_ready() {
    let (folder, seed) = seeded();
    let failure = |arguments: &[&str]| {
        let output = PROGRAM.serve(&[&["--listen", "127.0.0.1:0"], arguments].concat()).output().unwrap();
        assert!(output.stdout.is_empty(), "readiness must not be announced");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let trees = Path::new(&seed).join("Trees.jsonl");
    let good = fs::read_to_string(&trees).unwrap();
    let row = |row: &str, more: &str| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"{more}}}\n");
    for (text, line) in [
        (good.clone() + "{\"PartitionKey\":\"p\"}\n", 4),
        (good.clone() + "\n\nno JSON\n", 6),
        (good.clone() + &row("3", ",\"Rings\":1"), 4),
    ] {
        fs::write(&trees, text).unwrap();
        for storage in [&["--in-memory"][..], &["--data", &folder.path("data")]] {
            let error = failure(&[storage, &["--seed", &seed]].concat());
            assert!(error.contains(&format!("Trees.jsonl:{line}:")), "{error}");
            assert!(!error.contains("--skip-bad") && !error.contains("--mode"), "advice for another command: {error}");
        }
    }
    fs::write(&trees, good).unwrap();
    let server = PROGRAM.start(&["--data", &folder.path("data"), "--seed", &seed]);
    assert_eq!(rows(&mut server.client(), "Trees"), ["1", "2", "3"], "the failures must leave nothing behind");
    fs::create_dir(folder.path("empty")).unwrap();
    for (path, reason) in
        [("nowhere", "is not a folder"), ("empty", "contains no tables"), ("seed/Trees.jsonl", "is not a folder")]
    {
        let error = failure(&["--in-memory", "--seed", &folder.path(path)]);
        assert!(error.contains("--seed") && error.contains(reason), "{path}: {error}");
    }
}

#[test]
fn the_account_of_the_connection_string_gets_the_tables() {
    let (_folder, seed) = seeded();
    let keys = "second:AAECAwQFBgcICQoLDA0ODw==;first:EBESExQVFhcYGRobHB0eHw==";
    let server = PROGRAM.start_with(&["--in-memory", "--seed", &seed], |command| {
        command.env("ROWHOUSE_ACCOUNT_KEYS", keys);
    });
    let tables_of = |name, key| tables(&mut server.client_of(&Account::new(name, key)));
    assert_eq!(tables_of("first", "EBESExQVFhcYGRobHB0eHw=="), ["Shrubs", "Trees"]);
    assert!(tables_of("second", "AAECAwQFBgcICQoLDA0ODw==").is_empty());
}
