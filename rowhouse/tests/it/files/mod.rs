//! `rowhouse export` and `rowhouse import` as their users run them: round trips in both formats, interruptions, bad lines,
//! signatures that allow a little, and how much memory a large table takes.

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
use test_support::command::{Folder, Ran};

/// Runs a subcommand that must succeed.
fn done(folder: &Folder, subcommand: &str, arguments: &[&str]) -> Ran {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(0), "{subcommand} {arguments:?}: {ran:?}");
    ran
}

/// Runs a subcommand that must fail; answers what it says.
fn refused(folder: &Folder, subcommand: &str, arguments: &[&str]) -> String {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(1), "{subcommand} {arguments:?}: {ran:?}");
    ran.stderr
}

/// The files of an export, but for the manifest, which names its time.
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

/// The manifest of an export without what another export of the same says otherwise.
fn manifest(folder: &Folder, name: &str) -> serde_json::Value {
    let text = std::fs::read(folder.path(name) + "/export.json").unwrap();
    let mut manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    for other in ["finished", "from"] {
        assert!(manifest.as_object_mut().unwrap().remove(other).is_some());
    }
    manifest
}

/// Many lines.
fn repeated(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

/// The endpoint of the development account on a server.
fn endpoint(server: &Server) -> String {
    test_support::command::endpoint(&server.address)
}
