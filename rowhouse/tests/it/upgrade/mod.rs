//! Tests that this release opens what earlier releases left on disk, without changing any entity, ETag or policy.
//!
//! Each folder below `fixtures/` is a release. It contains a data folder, a backup repository and a database, and their
//! contents as the release itself showed them. The fixtures of a release are created once, by its own program, before
//! the release is published:
//!
//! ```sh
//! UPDATE_FIXTURES=1 cargo test -p rowhouse-tables --test it -- --exact
//! upgrade::this_release_opens_what_it_leaves_itself
//! ```
//!
//! The fixtures of a published release are never recreated, because they would differ from the data that users have.
//! See `fixtures/README.md`.

mod database;
mod leave;

use crate::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::command::Folder;
use test_support::content::{create_table, exact_snapshot, put};
use test_support::{Client, Server, TIMEOUT};

const DATA: &str = "data.tar.gz";
const REPOSITORY: &str = "backups.tar.gz";
const CONTENT: &str = "content.json";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/upgrade/fixtures")
}

fn releases() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut releases: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

fn tar(arguments: &[&str]) {
    assert!(Command::new("tar").args(arguments).status().unwrap().success(), "tar {arguments:?}");
}

fn unpack(release: &Path, archive: &str, place: &Folder) -> String {
    tar(&["-xzf", release.join(archive).to_str().unwrap(), "-C", &place.path("")]);
    place.path(archive.strip_suffix(".tar.gz").unwrap())
}

fn expected(release: &Path) -> Value {
    serde_json::from_slice(&fs::read(release.join(CONTENT)).unwrap()).unwrap()
}

/// Writes to an entity that every release left. The entity's ETag must increase.
fn write_to_known_entity(server: &Server, release: &str) {
    let path = "/Harvest(PartitionKey='types',RowKey='none')";
    let etag = || server.client().request("GET", path, &[], b"").header("etag").unwrap().to_owned();
    let old = etag();
    put(&mut server.client(), "Harvest", "types", "none", &json!({ "New": 1 }));
    assert!(etag() > old, "{release}");
}

fn checked(place: &Folder, data: &str) -> Value {
    let ran = place.run("check", &["--data", data, "--quiet", "--json"], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The server must have been started with `--admin`.
fn wait_for_figure(server: &Server, name: &str, is_there: impl Fn(u64) -> bool) {
    let began = Instant::now();
    loop {
        let mut operator = Client::connect(&server.admin).unwrap();
        operator.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let page = String::from_utf8(operator.receive().unwrap().body).unwrap();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in {page}"));
        if is_there(value.parse().unwrap()) {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{name} is still {value}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn data_folders_of_all_releases_are_opened_with_everything_as_it_was() {
    for release in releases() {
        open_and_compare(&release);
    }
}

/// Returns whether a data folder was shut down cleanly: the last segment of the log contains only its header.
fn was_shut_down(data: &Path) -> bool {
    const SEGMENT_HEADER_BYTES: usize = 4096;
    let log = fs::read_dir(data.join("log")).unwrap();
    let files = log.map(|entry| entry.unwrap().path());
    let last = files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    fs::read(last).unwrap()[SEGMENT_HEADER_BYTES..].iter().all(|byte| *byte == 0)
}

fn open_and_compare(release: &Path) {
    let (place, name) = (PROGRAM.folder(), release.display());
    let (data, expected) = (unpack(release, DATA, &place), expected(release));
    // A crash left the folder, with a log, sorted files and a purge in progress.
    assert!(!was_shut_down(Path::new(&data)));
    let before = checked(&place, &data);
    assert!(before["purged_entities"].as_u64() > Some(0) && before["files"].as_u64() > Some(0), "{name}: {before}");
    let server = PROGRAM.start(&["--data", &data]);
    let found = exact_snapshot(&server);
    assert_eq!(found.to_json(), expected, "{name}");
    // The data can be written, and ETags continue to increase.
    write_to_known_entity(&server, &name.to_string());
    create_table(&mut server.client(), "Gone");
    let changed = exact_snapshot(&server);
    let (status, log) = server.stop();
    assert!(status.success(), "{name}: {log:?}");
    // The current data survives a restart, and the purge completes.
    let server = PROGRAM.start(&["--data", &data, "--admin", "127.0.0.1:0"]);
    assert_eq!(exact_snapshot(&server), changed, "{name}");
    wait_for_figure(&server, "rowhouse_purge_backlog_tables", |tables| tables == 0);
    let (status, log) = server.stop();
    assert!(status.success(), "{name}: {log:?}");
    assert_eq!(checked(&place, &data)["purged_entities"], 0, "{name}");
}

#[test]
fn backups_of_all_releases_are_restored_with_everything_as_it_was() {
    for release in releases() {
        restore_and_compare(&release);
    }
}

fn restore_and_compare(release: &Path) {
    let (place, name) = (PROGRAM.folder(), release.display());
    let (repository, expected) = (unpack(release, REPOSITORY, &place), expected(release));
    let data = place.path("restored");
    let ran = place.run("restore", &["--from", &repository, "--data", &data, "--quiet"], &[]);
    assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
    let server = PROGRAM.start(&["--data", &data]);
    assert_eq!(exact_snapshot(&server).to_json(), expected, "{name}");
    // The next backup reuses the chunks of the old release.
    let ran = place.run("backup", &["--data", &data, "--to", &repository, "--quiet", "--json"], &[]);
    let made: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(made["new_chunks"], 0, "{name}: {made}");
}

/// This release must open its own files as it opens the files of earlier releases. With `UPDATE_FIXTURES=1`, these
/// files become fixtures.
#[test]
fn this_release_opens_what_it_leaves_itself() {
    let place = PROGRAM.folder();
    let release = match std::env::var_os("UPDATE_FIXTURES") {
        Some(_) => fixtures().join(env!("CARGO_PKG_VERSION")),
        None => place.path("release").into(),
    };
    fs::create_dir_all(&release).unwrap();
    leave::files(&release);
    open_and_compare(&release);
    restore_and_compare(&release);
    if let Some(cluster) = Cluster::shared() {
        leave::database(cluster, &release);
        database::open_and_compare(cluster, &release);
    }
}
