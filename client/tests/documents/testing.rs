//! The test in docs/testing-with-rowhouse.md.

use rowhouse_testing::{Error, TestServer};
use std::time::Duration;

#[tokio::test]
async fn the_program_reads_no_entities() -> Result<(), Error> {
    let server = TestServer::start().await?;
    let _connection_string = server.connection_string(); // for any client library

    server.clock().advance(Duration::from_hours(24)); // moves Timestamps and the expiry of signatures to tomorrow

    let before = server.costs();
    // … the program under test …
    let costs = server.costs() - before;
    assert_eq!(costs.entities_examined, 0, "{costs}");
    Ok(())
}

/// Only compiled here. `testing/tests/it/program.rs` calls these methods, because it can build the program.
#[expect(dead_code, reason = "the program may not be installed")]
async fn the_installed_program() -> Result<(), Error> {
    let server = TestServer::program().argument("--seed").argument("fixtures").start().await?;
    let account = server.new_account()?; // an empty account for this test, with its own connection string
    server.clock().advance(Duration::from_hours(24))?;
    let snapshot = server.snapshot()?;
    server.restore(&snapshot)?;
    drop(account);
    Ok(())
}

mod faults {
    use crate::{Outcome, start};
    use rowhouse_client::{ErrorKind, PropertyBag, Table};
    use rowhouse_testing::Fault;

    /// Inserts an order, and checks whether it was written if no response arrives.
    async fn place_order(orders: &Table) -> Result<(), rowhouse_client::Error> {
        let order = PropertyBag::new("2031", "0001")?.with("Total", 120_i64)?;
        match orders.insert(&order).await {
            Err(error) if error.kind() == ErrorKind::Unreachable => {
                orders.get_by_key::<PropertyBag>(&order.key).await.map(drop)
            }
            result => result.map(drop),
        }
    }

    #[tokio::test]
    async fn a_lost_answer() -> Outcome {
        let (server, service) = start().await;
        let orders = service.table("orders");
        orders.create().await?;
        {
            // The order is written, but the program does not learn that.
            server.inject(Fault::lost_answer().method("POST").path("/orders"));
            place_order(&orders).await?;
            assert_eq!(server.pending_faults(), 0, "the program met the fault");
        }
        Ok(())
    }
}
