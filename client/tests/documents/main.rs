//! Checks that every Rust snippet for the client library in the documentation is part of these programs, which run as
//! tests.
//!
//! Lines are compared without indentation, so that a snippet can show part of a function. Blocks for other libraries
//! have the library's name after the language, and are skipped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may panic and print")]
#![allow(clippy::items_after_statements, reason = "a snippet shows a type where it is used")]

mod getting_started;
mod readme;
mod testing;
mod tour;
mod tour_operations;
mod tour_queries;
mod tour_setup;

use rowhouse_client::TableService;
use rowhouse_testing::TestServer;
use std::error::Error;
use std::fs;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error>>;

/// The pages, and the minimum number of blocks in each.
const DOCUMENTS: [(&str, usize); 8] = [
    ("client/README.md", 1),
    ("testing/README.md", 1),
    ("docs/change-feed.md", 1),
    ("docs/client.md", 25),
    ("docs/client-coming-from.md", 3),
    ("docs/client-encryption.md", 1),
    ("docs/getting-started.md", 1),
    ("docs/testing-with-rowhouse.md", 1),
];

async fn start() -> (TestServer, TableService) {
    let server = TestServer::start().await.unwrap();
    let service = TableService::from_connection_string(&server.connection_string()).unwrap();
    (server, service)
}

/// Omits indentation and blank lines.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Returns the blocks whose info string is just `rust`.
fn blocks(document: &str) -> impl Iterator<Item = &str> {
    document.split("\n```rust\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0)
}

#[test]
fn every_snippet_is_a_part_of_a_program_that_runs() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs: Vec<String> = fs::read_dir(package.join("tests/documents"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let programs: Vec<Vec<&str>> = programs.iter().map(|program| lines(program)).collect();
    for (name, least) in DOCUMENTS {
        let document = fs::read_to_string(package.join("..").join(name)).unwrap();
        let mut count = 0;
        for block in blocks(&document) {
            let shown = lines(block);
            let runs = programs.iter().any(|program| program.windows(shown.len()).any(|part| part == shown));
            assert!(runs, "{name} contains a block that is in no program in client/tests/documents:\n{block}");
            count += 1;
        }
        assert!(count >= least, "{name} has only {count} Rust blocks");
    }
}
