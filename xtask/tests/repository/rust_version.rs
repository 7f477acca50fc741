//! Checks the supported Rust version: files must mention only the `rust-version` of the workspace.

use super::{files, read};

const SUPPORTED: &str = env!("CARGO_PKG_RUST_VERSION");

const MARKERS: [&str; 4] = ["rust:", "Rust ", "rustc ", "toolchain install "];

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
        // The change log mentions the versions of earlier releases.
        for name in files(ending).iter().filter(|name| *name != "CHANGELOG.md") {
            for version in versions(&read(name)) {
                assert_eq!(version, SUPPORTED, "{name} mentions a different Rust version than Cargo.toml");
                count += 1;
            }
        }
    }
    assert!(count > 0, "the Dockerfile must mention one");
}
