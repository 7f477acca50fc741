//! The number of crates that a test with a server compiles (ADR 18).

use std::collections::BTreeSet;
use std::process::Command;

/// The maximum number of crates with the default features, including this crate.
const CRATES_MAX: usize = 90;
/// The maximum number of crates without the server, including this crate.
const PROGRAM_CRATES_MAX: usize = 20;

fn crates(features: &[&str]) -> BTreeSet<String> {
    let arguments =
        ["tree", "--locked", "--package", "rowhouse-testing", "--edges", "normal,build", "--prefix", "none"];
    let tree = Command::new(env!("CARGO")).args(arguments).args(["--format", "{p}"]).args(features).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let crates = String::from_utf8(tree.stdout).unwrap();
    crates.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_test_compiles_few_crates() {
    for (features, most) in [(&[][..], CRATES_MAX), (&["--no-default-features"], PROGRAM_CRATES_MAX)] {
        let crates = crates(features);
        assert!(crates.len() <= most, "{} crates: {crates:#?}", crates.len());
    }
}
