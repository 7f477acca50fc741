//! The supported Rust version: `rust-version` of the workspace holds it. A file that names a version names that one.

use super::{files, read};

const SUPPORTED: &str = env!("CARGO_PKG_RUST_VERSION");

/// What stands before the version of Rust where a file names one.
const MARKERS: [&str; 4] = ["rust:", "Rust ", "rustc ", "toolchain install "];

/// The versions of Rust that a text names.
fn versions(text: &str) -> Vec<&str> {
    let after =
        MARKERS.iter().flat_map(|marker| text.match_indices(marker).map(|(at, found)| &text[at + found.len()..]));
    let numbers = after.map(|rest| rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next().unwrap());
    numbers.map(|number| number.trim_end_matches('.')).filter(|number| number.starts_with("1.")).collect()
}

#[test]
fn every_rust_version_that_a_file_names_is_the_supported_one() {
    assert_eq!(versions("FROM rust:1.95-alpine; Rust 1.90. Rust 2024, rust: 1.2"), ["1.95", "1.90"]);
    let mut count = 0;
    for ending in ["Dockerfile", ".md", ".toml", ".yml", ".yaml", ".sh", ".ci/run", "justfile"] {
        // The change log names those of earlier releases.
        for name in files(ending).iter().filter(|name| *name != "CHANGELOG.md") {
            for version in versions(&read(name)) {
                assert_eq!(version, SUPPORTED, "{name} names another Rust version than Cargo.toml");
                count += 1;
            }
        }
    }
    assert!(count > 0, "the Dockerfile names one");
}
