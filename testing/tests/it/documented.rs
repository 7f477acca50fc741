//! The snippet of `docs/testing-with-rowhouse.md`, which has it from here.

use rowhouse_testing::{Error, TestServer};
use std::time::Duration;

#[tokio::test]
async fn the_program_reads_no_entities() -> Result<(), Error> {
    let server = TestServer::start().await?;
    let _connection_string = server.connection_string(); // for any client library

    server.clock().advance(Duration::from_secs(86_400)); // Timestamps, expiry of signatures: tomorrow

    let before = server.costs();
    // … the program that is tested …
    let costs = server.costs() - before;
    assert_eq!(costs.entities_examined, 0, "{costs}");
    Ok(())
}

#[test]
fn the_document_has_the_snippet() {
    let own = include_str!("documented.rs");
    let document = include_str!("../../../docs/testing-with-rowhouse.md");
    let snippet = document.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(snippet.is_some_and(|snippet| own.contains(snippet)), "{snippet:?}");
}
