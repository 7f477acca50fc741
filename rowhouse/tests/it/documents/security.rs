//! Checks that the tests named in `docs/security.md` exist.

use super::{read, root};
use std::path::{Path, PathBuf};

/// Returns true if a test or a module of tests exists. `name` consists of a crate, a space, and the path in the crate.
fn exists(name: &str) -> bool {
    let Some((package, path)) = name.split_once(' ') else { return false };
    let parts: Vec<&str> = path.split("::").collect();
    [root().join(package).join("src"), root().join(package).join("tests/it")]
        .into_iter()
        .any(|folder| is_in(&folder, &parts))
}

fn is_in(folder: &Path, parts: &[&str]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return true };
    let file = folder.join(format!("{first}.rs"));
    let is_found = |file: PathBuf, rest: &[&str]| {
        std::fs::read_to_string(file).is_ok_and(|text| {
            rest.iter().all(|part| text.contains(&format!("mod {part} {{")) || text.contains(&format!("fn {part}(")))
        })
    };
    is_found(file, rest)
        || folder.join(first).is_dir() && is_in(&folder.join(first), rest)
        || is_found(folder.join("mod.rs"), parts)
}

#[test]
fn every_test_that_holds_a_claim_exists() {
    let document = read("docs/security.md");
    let (_, table) = document.split_once("## Which test verifies which claim").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let (_, tests) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        for name in tests.split(", ").map(|name| name.trim_matches('`')) {
            assert!(exists(name), "{name} is not a test");
        }
    }
    assert!(!exists("rowhouse overload::no_such_test") && !exists("nowhere overload"));
}
