//! The examples of entity operations in docs/client.md.

use crate::tour::{Customer, ada, with_customers};
use crate::{Outcome, start};
use rowhouse_client::{
    ChangeOperation, ChangePosition, ErrorKind, IfMatch, PropertyBag, Stored, TableService, Transaction,
};
use rowhouse_testing::TestServer;
use std::time::Duration;

#[tokio::test]
async fn operations() -> Outcome {
    let (_server, service) = start().await;
    let customers = service.table("customers");
    customers.create().await?;
    let ada = ada();
    {
        customers.insert(&ada).await?; // an error if it exists
        customers.insert_or_replace(&ada).await?; // replaces an existing one
        customers.insert_or_merge(&ada).await?; // preserves properties that the type does not declare

        let mut stored: Stored<Customer> = customers.get("Turin", "000007").await?;
        stored.visits += 1;
        let written = customers.replace(&stored, &stored).await?; // only if it has not changed since
        customers.merge(&PropertyBag::new("Turin", "000007")?.with("Rating", 5)?, &written).await?;
        customers.replace(&ada, IfMatch::Any).await?; // must exist, in any version

        customers.delete("Turin", "000007", IfMatch::Any).await?;
        assert!(customers.find::<Customer>("Turin", "000007").await?.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn deletion_by_filter() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let rare = customers.query::<Customer>().partition("Turin").filter(|c| c.visits.lt(5));
        let deleted = rare.delete_matching().await?;
        assert_eq!(deleted, 1);
    }
    Ok(())
}

#[tokio::test]
async fn keys_of_a_type() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let key = Customer::key_of("Turin", 7)?;
        let stored = customers.get_by_key::<Customer>(&key).await?;
        println!("{} of {:?}", stored.etag.as_str(), stored.timestamp);

        let visits = customers.get_projected::<Customer, _>("Turin", "000007", |c| c.visits).await?;
        assert_eq!(visits.into_entity(), 9);
    }
    Ok(())
}

#[tokio::test]
async fn update() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let stored = customers
            .update::<Customer>("Turin", "000007", |customer| {
                customer.visits += 1;
                Ok(())
            })
            .await?;
        assert_eq!(stored.visits, 10);
    }
    Ok(())
}

#[tokio::test]
async fn transactions() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let mut ada = customers.get::<Customer>("Turin", "000007").await?;
        let mut emmy = customers.get::<Customer>("Turin", "000008").await?;
        ada.visits -= 1;
        emmy.visits += 1;
        let log = PropertyBag::new("Turin", "log_0001")?.with("Moved", 1)?;
        let transaction = Transaction::new().replace(&ada, &ada).replace(&emmy, &emmy).insert(&log);

        let written = customers.commit(transaction.clone()).await?;
        assert_eq!(written.len(), 3);

        let error = customers.commit(transaction).await.unwrap_err(); // the entities have changed since
        assert_eq!((error.kind(), error.operation_index()), (ErrorKind::PreconditionFailed, Some(0)));
    }
    Ok(())
}

#[tokio::test]
async fn bulk_writer() -> Outcome {
    let (_server, service) = start().await;
    let customers = service.table("customers");
    customers.create().await?;
    {
        let mut bulk = customers.bulk().concurrency(4).on_progress(|report| println!("{} written", report.written));
        for number in 0..1000 {
            let city = if number % 2 == 0 { "Turin" } else { "Berlin" };
            let customer =
                Customer { city: city.into(), number, name: format!("Customer {number}"), visits: 0, mail: None };
            bulk.insert_or_replace(&customer).await?; // waits while too many operations are pending
        }
        let report = bulk.finish().await;
        for failure in &report.failures {
            println!("{}: {}", failure.key.row.as_str(), failure.error);
        }
        assert_eq!((report.written, report.failed), (1000, 0));
    }
    Ok(())
}

#[tokio::test]
async fn errors() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        match customers.insert(&ada()).await {
            Ok(written) => println!("version {}", written.etag.as_str()),
            Err(error) if error.kind() == ErrorKind::Conflict => println!("it already exists"),
            Err(error) if error.kind() == ErrorKind::Throttled => println!("try again later"),
            Err(error) => return Err(error.into()),
        }

        let error = customers.get::<Customer>("Turin", "999999").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!((error.status(), error.code()), (Some(404), Some("ResourceNotFound")));
        println!("{error}; request {}", error.request_id().unwrap_or("without an id"));
    }
    Ok(())
}

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
