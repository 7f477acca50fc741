//! Checks of the repository as text: how its crates, folders and files depend on each other, and what its pages and
//! comments name and link to. They run before anything is compiled at length, so they must not depend on other crates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod citations;
mod code_paths;
mod dependency_direction;
mod large_dependencies;
mod links;
mod rust_version;
mod structure;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the files in the repository whose names end with `ending`, except symbolic links, whose targets are in the
/// list.
fn files(ending: &str) -> Vec<String> {
    let listed = Command::new("git")
        // The folder may belong to another user: nothing in it is executed.
        .args(["-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let found: Vec<_> = listed.lines().filter(|name| name.ends_with(ending)).map(str::to_owned).collect();
    assert!(!found.is_empty(), "no file of the repository ends with {ending}");
    let is_file = |name: &String| root().join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    found.into_iter().filter(is_file).collect()
}

/// Returns the lines of a page outside blocks of code, each with its number.
fn unfenced(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !(is_code || is_fence)
    })
}
