//! The examples of the change feed in docs/client.md and docs/change-feed.md.

use crate::Outcome;
use crate::tour::{Customer, ada};
use rowhouse_client::{ChangeOperation, ChangePosition, IfMatch, TableService};
use rowhouse_testing::TestServer;
use std::time::Duration;

#[tokio::test]
async fn changes() -> Outcome {
    let server = TestServer::builder().keep_log(Duration::from_mins(1)).start().await?;
    let customers = TableService::from_connection_string(&server.connection_string())?.table("customers");
    customers.create().await?;
    customers.insert(&ada()).await?;
    let start = customers.changes::<Customer>().end().await?;
    {
        let position = customers.changes::<Customer>().end().await?;
        customers.delete("Turin", "000007", IfMatch::Any).await?;

        let mut changes = customers.changes::<Customer>().from(position).stream();
        while let Some(change) = changes.next().await {
            let change = change?;
            println!("{:?} {:?}", change.operation, change.key);
            // Store the position. Another process continues with `ChangePosition::parse` and `from`.
            println!("processed up to {}", change.position);
            if change.operation == ChangeOperation::Delete {
                break;
            }
        }
        assert!(changes.position().is_some_and(|position| ChangePosition::parse(&position.to_string()).is_some()));
    }
    {
        let position = start;
        let mut changes = customers.changes::<Customer>().from(position).until_end().stream();
        while let Some(change) = changes.next().await {
            let change = change?;
            println!("{:?} {:?}", change.operation, change.key);
        }
        assert!(changes.position() > Some(start));
    }
    Ok(())
}
