//! What this release leaves on disk: the fixtures that later ones are held to.

use crate::cluster::Cluster;
use crate::command::Folder;
use crate::content::{create_table, exact_snapshot, fill, fill_with_everything, put};
use crate::support::{PATIENCE, Server};
use crate::{CONTENT, DATA, REPOSITORY, checked, database, tar};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Entities of the table that is deleted: more than one step of a purge removes.
const GONE_ENTITIES: usize = 6000;

/// Tries until a crash comes before the end of a purge; it may be too late on a machine that halts the test.
fn until_caught(mut attempt: impl FnMut() -> bool) {
    let began = Instant::now();
    while !attempt() {
        assert!(began.elapsed() < PATIENCE, "the purge was always faster than the crash");
    }
}

/// Writes what a server shows to a file.
fn describe(server: &Server, file: &Path) {
    let content = serde_json::to_string_pretty(&exact_snapshot(server).to_json()).unwrap();
    fs::write(file, content + "\n").unwrap();
}

/// A data folder with a purge on its way, and a repository with a backup of it.
pub(crate) fn files(release: &Path) {
    until_caught(|| {
        let place = Folder::new();
        let data = place.path("data");
        crash(&data);
        let is_caught = checked(&place, &data)["purged_entities"].as_u64() > Some(0);
        if is_caught {
            pack(&place, &data, release);
        }
        is_caught
    });
}

fn crash(data: &str) {
    let server = Server::start(&["--data", data]);
    fill_with_everything(&server);
    fill(&server, "Cars", 3, 50);
    // Written so often that some of it is in sorted files, and compressible.
    create_table(&mut server.client(), "Large");
    let parts: serde_json::Map<String, Value> =
        (0..16).map(|part| (format!("Part{part}"), "x".repeat(30_000).into())).collect();
    for number in 0..180 {
        let mut properties = Value::Object(parts.clone());
        properties["Number"] = number.into();
        put(&mut server.client(), "Large", "p", &format!("{:02}", number % 20), &properties);
    }
    drop(server.stop());
    let server = Server::start(&["--data", data]);
    fill(&server, "Late", 1, 40);
    fill(&server, "Gone", 1, GONE_ENTITIES);
    put(&mut server.client(), "Late", "p00000", "00000", &json!({ "Changed": true }));
    // What is in the sorted files is not the last word on it.
    for number in 0..19 {
        put(&mut server.client(), "Large", "p", &format!("{number:02}"), &json!({ "Number": number }));
    }
    let answer = server.client().request("DELETE", "/Large(PartitionKey='p',RowKey='19')", &[("If-Match", "*")], b"");
    assert_eq!(answer.status, 204, "{answer:?}");
    delete_gone(&server);
    server.kill9();
    let _socket = fs::remove_file(Path::new(data).join("control.sock"));
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
    // Only reading remains, so what the server shows now is what the archive holds.
    let server = Server::start(&["--data", data]);
    describe(&server, &release.join(CONTENT));
    let ran = place.run("backup", &["--data", data, "--to", &place.path("backups"), "--quiet"], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    archive(REPOSITORY, "backups");
}

/// A dump of a database with a purge on its way.
pub(crate) fn database(cluster: &Cluster, release: &Path) {
    until_caught(|| {
        let url = cluster.database();
        let server = Server::start(&["--store", &url]);
        fill_with_everything(&server);
        fill(&server, "Cars", 2, 40);
        fill(&server, "Gone", 1, 500);
        delete_gone(&server);
        server.kill9();
        let deleted = cluster.sql(&url, "SELECT count(*) FROM rowhouse_tables WHERE is_deleted");
        let is_caught = deleted.trim() == "1";
        if is_caught {
            fs::write(release.join(database::DATABASE), cluster.dump(&url)).unwrap();
            describe(&Server::start(&["--store", &url]), &release.join(database::CONTENT));
        }
        is_caught
    });
}
