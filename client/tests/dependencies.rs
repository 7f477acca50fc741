//! The number of crates that a program with the client library compiles (ADR 12).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::process::Command;

/// The maximum number of crates with the default features, including the library.
const CRATES_MAX: usize = 60;

#[test]
fn a_program_compiles_few_crates() {
    let arguments = ["tree", "--locked", "--package", "rowhouse-client", "--edges", "normal,build", "--prefix", "none"];
    let tree = Command::new(env!("CARGO")).args(arguments).args(["--format", "{p}"]).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let crates = String::from_utf8(tree.stdout).unwrap();
    let crates: BTreeSet<String> =
        crates.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert!(crates.len() <= CRATES_MAX, "{} crates: {crates:#?}", crates.len());
}
