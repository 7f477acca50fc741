//! A partition stress test: determines whether one partition can handle the load, before the keys are chosen.
//!
//! The program sends the peak load of an application to one partition, and then distributes it over several partitions.
//! Nothing is retried, because a client that waits and tries again hides that the service is too busy. The server of
//! this program has a small target for each partition, so its results are always the same. Run the program on your
//! service, with your own entities and for at least ten minutes, because a service needs time to distribute partitions.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{ErrorKind, PropertyBag, RetryPolicy, Table, Transaction};
use rowhouse_testing::TestServer;
use tokio::task::JoinSet;

const TRANSACTIONS: usize = 10;
const ENTITIES: usize = 100;

/// Sends the transactions concurrently. Returns how many of them were refused because the service was too busy.
async fn stress(table: &Table, partitions: usize) -> Result<usize> {
    let table = table.with_retry(RetryPolicy::none());
    let mut running = JoinSet::new();
    for number in 0..TRANSACTIONS {
        let mut transaction = Transaction::new();
        for row in 0..ENTITIES {
            let entity = PropertyBag::new(&format!("{:02}", number % partitions), &format!("{number:02}_{row:03}"))?;
            transaction = transaction.insert_or_replace(&entity.with("text", "x".repeat(100))?);
        }
        let table = table.clone();
        running.spawn(async move { table.commit(transaction).await });
    }
    let mut refused = 0;
    while let Some(result) = running.join_next().await {
        match result? {
            Err(error) if error.kind() == ErrorKind::Throttled => refused += 1,
            result => drop(result?),
        }
    }
    Ok(refused)
}

pub(crate) async fn run() -> Result {
    // A transaction of 100 entities uses up the target of its partition for more than a minute, even on a slow machine.
    let mut pattern = Pattern::start_on("stress_test", TestServer::builder().throttle(20_000, 1)).await?;
    let is_own_server = pattern.has_own_server();
    let table = pattern.table("load").await?;
    let cost = requests(10).written(100);
    let refused = pattern.step("ten transactions of 100 in one partition", cost, stress(&table, 1)).await?;
    assert!(refused == 9 || !is_own_server);
    let other = pattern.table("other").await?;
    let cost = requests(10).written(1000);
    let refused = pattern.step("the same in ten partitions", cost, stress(&other, 10)).await?;
    assert!(refused == 0 || !is_own_server);
    pattern.finish().await
}
