//! Tests of copies between all kinds of endpoints.

use crate::PROGRAM;
use serde_json::json;
use std::fs;
use test_support::ACCOUNT;
use test_support::cluster::Cluster;
use test_support::command::endpoint;
use test_support::content::{fill, fill_large, fill_with_everything, put, set_properties, snapshot};

#[test]
fn everything_is_copied_through_folders_accounts_and_services() {
    let folder = PROGRAM.folder();
    let first = PROGRAM.start(&["--in-memory"]);
    fill_with_everything(&first);
    fill_large(&first);
    fill(&first, "many", 2, 600);
    let expected = snapshot(&first);
    assert_eq!(expected.entities(), 2 + 81 + 4 + 1200);
    let service = endpoint(&first.address);
    // One folder with two accounts: the first is copied under its own name.
    folder.copy_successfully(&["--from", &service, "--to", "one"]);
    folder.copy_successfully(&["--from", &service, "--to", "one", "--to-account", "orchard"]);
    let ran = folder.copy_successfully(&["--from", "one", "--to", "two"]);
    assert!(ran.stdout.contains("copied 12 tables, 2,574 entities"), "{ran:?}");
    let second = PROGRAM.start(&["--in-memory"]);
    let told = folder.copy_error(&["--from", "two", "--to", &endpoint(&second.address)]);
    assert!(told.contains("several accounts (devstoreaccount1, orchard)") && told.contains("--account"), "{told}");
    folder.copy_successfully(&["--from", "two", "--to", &endpoint(&second.address), "--account", "orchard"]);
    assert_eq!(snapshot(&second), expected);
    let third = PROGRAM.start(&["--in-memory"]);
    folder.copy_successfully(&[
        "--from",
        &endpoint(&second.address),
        "--to",
        &endpoint(&third.address),
        "--parallel",
        "3",
    ]);
    assert_eq!(snapshot(&third), expected);
    // A server on the target folder serves the same data.
    let fourth = PROGRAM.start(&["--data", &folder.path("two")]);
    assert_eq!(snapshot(&fourth), expected);
    folder.copy_successfully(&[
        "--from",
        &endpoint(&fourth.address),
        "--to",
        &endpoint(&third.address),
        "--verify-only",
    ]);
}

#[test]
fn everything_is_copied_through_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let folder = PROGRAM.folder();
    let first = PROGRAM.start(&["--in-memory"]);
    fill_with_everything(&first);
    fill(&first, "many", 2, 300);
    folder.copy_successfully(&["--from", &endpoint(&first.address), "--to", &database]);
    let told = folder.copy_error(&["--from", &endpoint(&first.address), "--to", &database]);
    assert!(told.contains("--overwrite"), "{told}");
    folder.copy_successfully(&["--from", &database, "--to", "folder"]);
    let second = PROGRAM.start(&["--data", &folder.path("folder")]);
    assert_eq!(snapshot(&second), snapshot(&first));
}

#[test]
fn selected_tables_without_properties() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    for table in ["cars", "LogOne", "logTwo", "trucks"] {
        fill(&from, table, 1, 3);
    }
    set_properties(&mut from.client(), "https://from.example");
    set_properties(&mut to.client(), "https://to.example");
    let before = snapshot(&to);
    let (source, target) = (endpoint(&from.address), endpoint(&to.address));
    let told = folder.copy_error(&["--from", &source, "--to", &target, "--tables", "cars,vans"]);
    assert!(told.contains("no table 'vans'"), "{told}");
    assert_eq!(snapshot(&to), before, "nothing was copied");
    let some = ["--from", &source, "--to", &target, "--tables", "CARS,log*", "--skip-properties"];
    let ran = folder.copy_successfully(&some);
    assert!(ran.stdout.contains("copied 3 tables, 9 entities"), "{ran:?}");
    assert_eq!(snapshot(&to).entities(), 9);
    let ran = folder.copy(&["--from", &source, "--to", &target, "--tables", "cars", "--verify-only"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("service properties of the account 'devstoreaccount1' differ"), "{ran:?}");
}

#[test]
fn differences_are_found_counted_and_listed() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill(&from, "cars", 3, 100);
    fill_with_everything(&from);
    let (source, target) = (endpoint(&from.address), endpoint(&to.address));
    folder.copy_successfully(&["--from", &source, "--to", &target]);
    let verify = ["--from", &source, "--to", &target, "--verify-only"];
    folder.copy_successfully(&verify);
    let mut client = to.client();
    put(&mut client, "cars", "p00001", "00007", &json!({ "Number": 8, "Text": "1 7".repeat(8) }));
    put(&mut client, "cars", "p00001", "00008", &json!({ "Number": "8", "Text": "1 8".repeat(9) }));
    put(&mut client, "cars", "p00001", "000075", &json!({}));
    let any = [("If-Match", "*")];
    let deleted = client.request("DELETE", "/cars(PartitionKey='p00000',RowKey='00000')", &any, b"");
    assert_eq!(deleted.status, 204);
    let deleted = client.request("DELETE", "/Tables('EMPTY')", &[], b"");
    assert_eq!(deleted.status, 204);
    let cleared = client.request("PUT", "/Harvest?comp=acl", &[("Content-Type", "application/xml")], b"");
    assert_eq!(cleared.status, 204);
    let ran = folder.copy(&verify);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for told in [
        "partition \"p00000\", row \"00000\": the target has no such entity",
        "row \"00007\": the property 'Number' has a different value",
        "row \"000075\": the source has no such entity",
        "row \"00008\": the property 'Number' is Edm.Int32 in the source and Edm.String in the target",
        "the target has no table 'EMPTY'",
        "the stored access policies of the table 'Harvest' differ",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {ran:?}");
    }
    assert!(!ran.stdout.contains("more"), "{ran:?}");
    let deleted = client.request("DELETE", "/Tables('cars')", &[], b"");
    assert_eq!(deleted.status, 204);
    test_support::content::create_table(&mut client, "cars");
    let ran = folder.copy(&[&verify[..], &["--tables", "cars"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("and 290 more"), "{ran:?}");
    assert_eq!(ran.stdout.matches("the target has no such entity").count(), 10, "{ran:?}");
}

#[test]
fn a_shared_access_signature_is_enough_for_what_it_covers() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill(&from, "cars", 2, 150);
    let source = endpoint(&from.address);
    let made = folder.run("sas", &["account", "--permissions", "rl", "--expiry", "1h"], &[]);
    let token = made.stdout.lines().find_map(|line| line.strip_prefix("token: ")).unwrap();
    let arguments = ["--from", &source, "--to", "to"];
    let ran = folder.run("copy", &arguments, &[("ROWHOUSE_FROM_KEY", token)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("--skip-policies") && !ran.stderr.contains("sig="), "{ran:?}");
    fs::write(folder.path("token"), format!("{source}?{token}\n")).unwrap();
    let with_file = ["--from-key-file", "token", "--skip-policies"];
    folder.copy_successfully(&[&arguments[..], &with_file].concat());
    // A token for one table cannot list tables, so the table has to be named.
    let made = folder.run("sas", &["table", "cars", "--permissions", "r", "--expiry", "1h"], &[]);
    let token = made.stdout.lines().find_map(|line| line.strip_prefix("token: ")).unwrap();
    let arguments = ["--from", &source, "--to", "one", "--skip-policies", "--skip-properties", "--tables", "cars"];
    let ran = folder.run("copy", &arguments, &[("ROWHOUSE_FROM_KEY", token)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("both sides are equal: 1 table, 300 entities"), "{ran:?}");
}

#[test]
fn variables_name_both_sides() {
    let folder = PROGRAM.folder();
    let server = PROGRAM.start(&["--in-memory"]);
    fill(&server, "cars", 2, 150);
    let from = format!("AccountName={ACCOUNT};TableEndpoint={}", endpoint(&server.address));
    let ran = folder.run("copy", &[], &[("ROWHOUSE_FROM", from.as_str()), ("ROWHOUSE_TO", "to")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("both sides are equal: 1 table, 300 entities"), "{ran:?}");
}
