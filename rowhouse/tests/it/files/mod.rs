//! Tests of `rowhouse export` and `rowhouse import` as users run them: round trips in both formats, interruptions, bad
//! lines, signatures with few permissions, and the memory that a large table needs.

mod bad_lines;
mod disturbed;
mod interrupted;
mod large;
mod options;
mod random;
mod round_trip;
mod signatures;

use std::collections::BTreeMap;
use test_support::Server;
use test_support::command::{CommandResult, Folder};

fn done(folder: &Folder, subcommand: &str, arguments: &[&str]) -> CommandResult {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(0), "{subcommand} {arguments:?}: {ran:?}");
    ran
}

fn refused(folder: &Folder, subcommand: &str, arguments: &[&str]) -> String {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(1), "{subcommand} {arguments:?}: {ran:?}");
    ran.stderr
}

/// Leaves out the manifest, because it contains a time.
fn files(folder: &Folder, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(folder.path(name)).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name != "export.json" {
            files.insert(name, std::fs::read(file.path()).unwrap());
        }
    }
    files
}

fn assert_same_files(folder: &Folder, one: &str, other: &str) {
    let (one, other) = (files(folder, one), files(folder, other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, content) in &one {
        assert!(*content == other[name], "{name} differs");
    }
}

/// Returns the manifest of an export without the parts that differ between exports of the same data.
fn manifest(folder: &Folder, name: &str) -> serde_json::Value {
    let text = std::fs::read(folder.path(name) + "/export.json").unwrap();
    let mut manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    for other in ["finished", "from"] {
        assert!(manifest.as_object_mut().unwrap().remove(other).is_some());
    }
    manifest
}

fn repeated(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn endpoint(server: &Server) -> String {
    test_support::command::endpoint(&server.address)
}
