//! Upsert and projection: components that write one customer without reading it, and a job that changes one property.
//!
//! This is the example of the paper about upserts. The app knows a customer's phone number, and the website the
//! address. Whichever is first inserts the customer, and the other merges its properties. A synchronization that knows
//! everything replaces the customer. A nightly job raises the ratings of old customers: it reads only what it needs,
//! and merges the rating, so that it neither transfers nor overwrites the other properties.

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, ErrorKind, IfMatch, Table, Transaction};

/// A customer as the synchronization knows it.
#[derive(Entity, Debug, Clone, PartialEq)]
struct Customer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    name: String,
    phone: Option<String>,
    address: Option<String>,
    /// The year of the first purchase.
    since: Option<i32>,
    rating: Option<i32>,
    /// The last run of the job that has raised the rating.
    rated: Option<i32>,
}

/// A customer as the app knows it.
#[derive(Entity, Debug, Clone, PartialEq)]
struct AppCustomer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    name: String,
    phone: String,
}

/// A customer as the website knows it.
#[derive(Entity, Debug, Clone, PartialEq)]
struct WebsiteCustomer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    name: String,
    address: String,
}

/// A customer as the job knows it.
#[derive(Entity, Debug, Clone, PartialEq)]
struct RatedCustomer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    name: String,
    rating: Option<i32>,
    rated: i32,
}

fn customer(number: i32) -> Customer {
    Customer {
        city: "Turin".into(),
        name: format!("Customer {number:03}"),
        phone: None,
        address: Some(format!("{number} Main Street")),
        since: Some(2000 + number % 20),
        rating: (number % 2 == 0).then_some(3),
        rated: Some(0),
    }
}

fn phone(name: &str) -> AppCustomer {
    AppCustomer { city: "Turin".into(), name: name.into(), phone: "555-0122".into() }
}

/// What a program must do without upserts. Starts over if another component inserts or deletes the customer in between.
async fn merge_or_insert(customers: &Table, phone: &AppCustomer) -> Result {
    loop {
        match customers.merge(phone, IfMatch::Any).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => return Ok(result.map(drop)?),
        }
        match customers.insert(phone).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Raises the ratings of the city's customers since before 2006, a hundred at a time. The job can be interrupted and
/// repeated, because a rating and the number of the run change together. Returns the number of customers.
async fn raise_ratings(customers: &Table, run: i32) -> Result<usize> {
    let mut raised = 0;
    loop {
        let old = customers.query::<Customer>().partition("Turin").filter(|c| c.since.lt(2006) & c.rated.lt(run));
        let old = old.take(100).select_as::<RatedCustomer>().collect().await?;
        if old.is_empty() {
            return Ok(raised);
        }
        let transaction = old.iter().fold(Transaction::new(), |all, read| {
            let rating = Some(read.rating.unwrap_or_default() + 1);
            all.merge(&RatedCustomer { rating, rated: run, ..read.entity.clone() }, read)
        });
        match customers.commit(transaction).await {
            // Another program has changed or deleted one of them. The next query returns their current ratings.
            Err(error) if [ErrorKind::NotFound, ErrorKind::PreconditionFailed].contains(&error.kind()) => {}
            result => raised += result?.len(),
        }
    }
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("upsert").await?;
    let customers = pattern.table("customers").await?;

    let (emmy, ada) = (phone("Emmy"), phone("Ada"));
    let inserted = merge_or_insert(&customers, &emmy);
    pattern.step("the app, without upserts", requests(2).written(1), inserted).await?;
    let upserted = customers.insert_or_merge(&ada);
    pattern.step("the app: upsert a new customer", requests(1).written(1), upserted).await?;
    let address = WebsiteCustomer { city: "Turin".into(), name: "Ada".into(), address: "6 Main Street".into() };
    let upserted = customers.insert_or_merge(&address);
    pattern.step("the website: upsert the same customer", requests(1).written(1), upserted).await?;
    let ada = customers.get::<Customer>("Turin", "Ada").await?;
    assert_eq!((ada.phone.as_deref(), ada.address.as_deref()), (Some("555-0122"), Some("6 Main Street")));

    let synchronized = Customer { name: "Ada".into(), ..customer(1) };
    let replaced = customers.insert_or_replace(&synchronized);
    pattern.step("the synchronization: replace the customer", requests(1).written(1), replaced).await?;
    assert_eq!(customers.get::<Customer>("Turin", "Ada").await?.phone, None, "replacing deletes a property");

    fill(&customers, &(0..200).map(customer).collect::<Vec<_>>()).await?;
    let cost = requests(3).examined(404).returned(61).written(61);
    assert_eq!(pattern.step("raise the ratings of 61 old customers", cost, raise_ratings(&customers, 1)).await?, 61);
    let cost = requests(1).examined(202);
    assert_eq!(pattern.step("repeat the job", cost, raise_ratings(&customers, 1)).await?, 0);
    let raised = customers.get::<Customer>("Turin", "Customer 004").await?;
    assert_eq!((raised.rating, raised.address.as_deref()), (Some(4), Some("4 Main Street")));
    assert_eq!(customers.get::<Customer>("Turin", "Customer 005").await?.rating, Some(1), "it had no rating");

    let count = customers.query::<Customer>().select(|c| c.row_key).collect();
    let cost = requests(1).examined(202).returned(202);
    assert_eq!(pattern.step("count the customers by their keys", cost, count).await?.len(), 202);
    pattern.finish().await
}
