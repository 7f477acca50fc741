//! Creates the data that this release leaves on disk: the fixtures that later releases must be able to read.

use super::{CONTENT, DATA, REPOSITORY, checked, database, tar, wait_for_figure};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use test_support::Server;
use test_support::cluster::Cluster;
use test_support::command::Folder;
use test_support::content::{create_table, exact_snapshot, fill, fill_with_everything, put};

/// The number of entities in the deleted table: more than one step of a purge removes.
const GONE_ENTITIES: usize = 6000;

/// The maximum number of attempts to crash before the end of a purge; no machine needs that many.
const ATTEMPTS_MAX: u32 = 50;

fn describe(server: &Server, file: &Path) {
    let content = serde_json::to_string_pretty(&exact_snapshot(server).to_json()).unwrap();
    fs::write(file, content + "\n").unwrap();
}

/// Creates a data folder with a purge in progress, and a repository with a backup of it.
pub(crate) fn files(release: &Path) {
    let place = PROGRAM.folder();
    let data = place.path("data");
    write_sorted_files(&data);
    let mut server = PROGRAM.start(&["--data", &data]);
    write_late(&server);
    let mut attempts = 1;
    while !crash_in_a_purge(server, &place, &data) {
        assert!(attempts < ATTEMPTS_MAX, "the purge was always faster than the crash");
        attempts += 1;
        server = PROGRAM.start(&["--data", &data]);
    }
    pack(&place, &data, release);
}

fn write_sorted_files(data: &str) {
    let server = PROGRAM.start(&["--data", data, "--admin", "127.0.0.1:0"]);
    fill_with_everything(&server);
    fill(&server, "Cars", 3, 50);
    // Compressible data, and so much of it that a part is flushed to sorted files.
    create_table(&mut server.client(), "Large");
    let parts: serde_json::Map<String, Value> =
        (0..16).map(|part| (format!("Part{part}"), "x".repeat(30_000).into())).collect();
    for number in 0..180 {
        let mut properties = Value::Object(parts.clone());
        properties["Number"] = number.into();
        put(&mut server.client(), "Large", "p", &format!("{:02}", number % 20), &properties);
    }
    wait_for_figure(&server, "rowhouse_tree_sorted_files", |files| files > 0);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

fn write_late(server: &Server) {
    fill(server, "Late", 1, 40);
    put(&mut server.client(), "Late", "p00000", "00000", &json!({ "Changed": true }));
    // Later writes override data in the sorted files.
    for number in 0..19 {
        put(&mut server.client(), "Large", "p", &format!("{number:02}"), &json!({ "Number": number }));
    }
    let answer = server.client().request("DELETE", "/Large(PartitionKey='p',RowKey='19')", &[("If-Match", "*")], b"");
    assert_eq!(answer.status, 204, "{answer:?}");
}

/// Deletes a table and crashes. Returns true if entities of the table have not been removed yet.
fn crash_in_a_purge(server: Server, place: &Folder, data: &str) -> bool {
    fill(&server, "Gone", 1, GONE_ENTITIES);
    delete_gone(&server);
    server.kill9();
    let _socket = fs::remove_file(Path::new(data).join("control.sock"));
    checked(place, data)["purged_entities"].as_u64() > Some(0)
}

fn delete_gone(server: &Server) {
    let answer = server.client().request("DELETE", "/Tables('Gone')", &[], b"");
    assert_eq!(answer.status, 204, "{answer:?}");
}

fn pack(place: &Folder, data: &str, release: &Path) {
    let archive = |name: &str, folder: &str| {
        tar(&["-czSf", release.join(name).to_str().unwrap(), "-C", &place.path(""), folder]);
    };
    archive(DATA, "data");
    // From here on, the test only reads, so what the server shows now is what the archive contains.
    let server = PROGRAM.start(&["--data", data]);
    describe(&server, &release.join(CONTENT));
    let ran = place.run("backup", &["--data", data, "--to", &place.path("backups"), "--quiet"], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    archive(REPOSITORY, "backups");
}

pub(crate) fn database(cluster: &Cluster, release: &Path) {
    let url = cluster.database();
    let server = PROGRAM.start(&["--store", &url]);
    fill_with_everything(&server);
    fill(&server, "Cars", 2, 40);
    fill(&server, "Gone", 1, 500);
    // The purge waits until this transaction ends.
    let held = cluster.open_transaction(&url, "LOCK TABLE rowhouse_entities IN SHARE MODE");
    delete_gone(&server);
    server.kill9();
    let deleted = cluster.sql(&url, "SELECT count(*) FROM rowhouse_tables WHERE is_deleted");
    assert_eq!(deleted.trim(), "1");
    fs::write(release.join(database::DATABASE), cluster.dump(&url)).unwrap();
    drop(held);
    describe(&PROGRAM.start(&["--store", &url]), &release.join(database::CONTENT));
}
