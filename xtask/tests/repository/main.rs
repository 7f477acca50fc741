//! Checks of the repository as text: how its crates, folders and files depend on each other, and what its pages and
//! comments name and link to. They run before anything is compiled at length, so they must not depend on other crates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod citations;
mod code_paths;
mod dependency_direction;
mod files;
mod large_dependencies;
mod links;
mod rust_version;
mod structure;

use files::{files, read, root};

/// Returns the lines of a page outside blocks of code, each with its number.
fn unfenced(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !(is_code || is_fence)
    })
}
