//! docs/backup.md.

use super::{Runbook, stop};
use serde_json::{Value, json};
use std::fs;
use test_support::content::{create_table, exact_snapshot, fill_with_everything, put, snapshot};
use test_support::{ACCOUNT, KEY, Server, eventually};

const OBJECT_STORAGE: &str = "`backup::repository` uses services of the test";

/// Returns what the page's first command for listing prints about the newest backup.
fn newest(book: &mut Runbook) -> Value {
    let listed = book.run_own(0, "rowhouse backup --list /mnt/backup/rowhouse --json");
    serde_json::from_str(listed.lines().last().unwrap()).unwrap()
}

/// Writes an entity, and returns its Timestamp.
fn write(server: &Server, row: &str) -> String {
    let mut client = server.client();
    put(&mut client, "Cars", "kestrel", row, &json!({ "Doors": 4 }));
    let answer = client.request("GET", &format!("/Cars(PartitionKey='kestrel',RowKey='{row}')"), &[], b"");
    answer.json()["Timestamp"].as_str().unwrap().to_owned()
}

/// Waits until the log in the repository contains everything until a time.
fn wait_until_covered(book: &mut Runbook, time: &str) {
    eventually("the log in the repository", || {
        let until = newest(book)["restorable_to"].as_str()?.to_owned();
        // The fractions may have different lengths.
        (until.trim_end_matches('Z') >= time.trim_end_matches('Z')).then_some(())
    });
}

#[test]
fn a_data_folder_is_backed_up_followed_restored_and_checked() {
    let words =
        [("--follow", "--follow --every 1s"), ("127.0.0.1:10002/orchard", &format!("127.0.0.1:10002/{ACCOUNT}"))];
    let mut book = Runbook::open("backup.md", &words);
    fs::write(book.path("orchard.key"), KEY).unwrap();
    let restored = |book: &mut Runbook, folder: &str| {
        let server = book.start_own(&format!("rowhouse serve --data {folder} --listen 127.0.0.1:0"));
        let found = exact_snapshot(&server);
        stop(server);
        found
    };

    let server = book.start_own("rowhouse serve --data /var/lib/rowhouse");
    fill_with_everything(&server);
    for table in ["Cars", "Log"] {
        create_table(&mut server.client(), table);
    }
    write(&server, "0001");
    let all = exact_snapshot(&server);
    book.run(0, "rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse");
    stop(server);
    book.run_own(0, "rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse --quiet");
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --data /var/lib/rowhouse-new");
    assert!(restored(&mut book, "/var/lib/rowhouse-new") == all);

    // Following a server
    let server = book.start("rowhouse serve --data /var/lib/rowhouse --keep-log 24h");
    let following = book.start_running("rowhouse backup --data /var/lib/rowhouse --to /mnt/backup/rowhouse --follow");
    // Its first backup is the newest one.
    eventually("a followed backup", || newest(&mut book)["restorable_to"].as_str().map(drop));
    let backup = newest(&mut book)["backup"].as_str().unwrap().to_owned();
    let time = write(&server, "0002");
    let before = exact_snapshot(&server);
    let last = write(&server, "0003");
    let after = exact_snapshot(&server);
    wait_until_covered(&mut book, &last);
    let position = newest(&mut book)["restorable_to_position"].to_string();
    // The machine is lost.
    drop(following);
    server.kill9();

    for command in ["export AWS_", "rowhouse backup --data", "rowhouse restore --from s3:", "export AZURE_"] {
        book.skip(command, OBJECT_STORAGE);
    }
    for command in ["rowhouse backup --data", "rowhouse backup --list az:"] {
        book.skip(command, OBJECT_STORAGE);
    }

    // Listing and verifying
    assert!(book.run(0, "rowhouse backup --list /mnt/backup/rowhouse").contains(&backup));
    book.run(0, "rowhouse backup --verify /mnt/backup/rowhouse");
    book.run_own(0, "cp -r /mnt/backup/rowhouse damaged && rm -r damaged/chunks && mkdir damaged/chunks");
    book.run_own(1, "rowhouse backup --verify damaged");

    // Restoring
    book.replace("20310301T0930000000000Z-0123456789abcdef", &backup);
    book.replace("2031-03-01T09:30:00Z", &time);
    book.replace("2031-03-01T09:31:02.5Z", &time);
    book.replace("--to 4711", &format!("--to {position}"));
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --data ./new");
    assert!(restored(&mut book, "./new") == after);
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --table Cars");
    let some = restored(&mut book, "./some").tables();
    assert_eq!(some.keys().collect::<Vec<_>>(), ["Cars", "LogBefore"]);
    assert_eq!(some["Cars"], after.tables()["Cars"]);
    for (command, folder) in [
        ("rowhouse restore --from /mnt/backup/rowhouse --backup latest", "./newest-backup"),
        ("rowhouse restore --from /mnt/backup/rowhouse --at", "./as-it-was"),
        ("rowhouse restore --from /mnt/backup/rowhouse --backup", "./that-one"),
    ] {
        book.run(0, command);
        assert!(restored(&mut book, folder) == all, "{command}");
    }
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --to");
    assert!(restored(&mut book, "./just-before") == before);
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --to");
    assert!(restored(&mut book, "./after-transaction-4711") == after);
    book.run_own(1, "rowhouse restore --from /mnt/backup/rowhouse --to 2001-01-01T00:00:00Z --data ./nothing");
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --without-retention");
    assert!(restored(&mut book, "./with-expired") == after);
    let server = book.start_own("rowhouse serve --data ./after-transaction-4711");
    let live = snapshot(&server).tables();
    book.run(0, "rowhouse restore --from /mnt/backup/rowhouse --table Cars=CarsBefore");
    let mut tables = snapshot(&server).tables();
    assert!(tables.remove("CarsBefore").is_some_and(|table| table.contains("0001") && table.contains("0003")));
    assert_eq!(tables, live);
    stop(server);

    // Checking a data folder
    book.run(0, "rowhouse check --data /var/lib/rowhouse");
    let report = book.run(0, "rowhouse check --data /var/lib/rowhouse --json");
    assert!(serde_json::from_str::<Value>(&report).is_ok(), "{report}");
    book.run_own(0, "rowhouse check --backup /mnt/backup/rowhouse");
    book.run_own(1, "rowhouse check --backup damaged");
    book.run_own(1, "cp -r /var/lib/rowhouse torn && truncate -s 0 torn/tree/tables/* && rowhouse check --data torn");
    book.run_own(2, "rowhouse check --data ./nothing");
    book.end();
}
