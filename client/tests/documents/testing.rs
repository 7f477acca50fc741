//! The test in docs/testing-with-rowhouse.md.

use rowhouse_testing::{Error, TestServer};
use std::time::Duration;

#[tokio::test]
async fn the_program_reads_no_entities() -> Result<(), Error> {
    let server = TestServer::start().await?;
    let _connection_string = server.connection_string(); // for any client library

    server.clock().advance(Duration::from_secs(86_400)); // moves Timestamps and the expiry of signatures to tomorrow

    let before = server.costs();
    // … the program under test …
    let costs = server.costs() - before;
    assert_eq!(costs.entities_examined, 0, "{costs}");
    Ok(())
}
