//! Inter-partition secondary index: each entity is stored twice, in two partitions.
//!
//! Use it when a single partition would receive too many requests, or when no partition suits both keys. The copies are
//! in different partitions, so no transaction covers both. Instead, the order of the writes makes failures harmless:
//! the program first writes the copy that must be unique, as a claim, and then the entity. A claim without an entity is
//! an incomplete registration, which a repair removes. A reader that must not see incomplete registrations also reads
//! the entity.

use crate::support::{Pattern, Result, refused, requests};
use rowhouse_client::{DateTime, Entity, ErrorKind, Table};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "id_{id:06}", row_key = "customer")]
struct Customer {
    id: u32,
    email: String,
    name: String,
}

/// The copy of a customer, sorted by e-mail address, which must be unique.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(partition_key = "email_{email}", row_key = "customer")]
struct CustomerByEmail {
    email: String,
    id: i64,
    name: String,
    #[entity(timestamp)]
    written: Option<DateTime>,
}

fn customer(id: u32) -> Customer {
    Customer { id, email: format!("customer{id}@example.com"), name: format!("Customer {id}") }
}

async fn claim(customers: &Table, customer: &Customer) -> Result {
    let Customer { id, email, name } = customer.clone();
    customers.insert(&CustomerByEmail { email, id: id.into(), name, written: None }).await?;
    Ok(())
}

async fn register(customers: &Table, customer: &Customer) -> Result {
    claim(customers, customer).await?;
    customers.insert(customer).await?;
    Ok(())
}

/// Removes the claims whose customer does not exist. Skips recent claims, because the registration may still be in
/// progress.
async fn repair(customers: &Table, written_before: DateTime) -> Result<usize> {
    let old = customers.query::<CustomerByEmail>().partition_prefix("email_");
    let old = old.filter(|claim| claim.written.lt(written_before)).collect().await?;
    let mut removed = 0;
    for claim in old {
        let key = Customer::key_of(u32::try_from(claim.id)?)?;
        if customers.find::<Customer>(key.partition.as_str(), key.row.as_str()).await?.is_none() {
            let key = claim.key()?;
            customers.delete(key.partition.as_str(), key.row.as_str(), &claim).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("inter_partition_index").await?;
    let customers = pattern.table("customers").await?;

    let ada = customer(1);
    let registered = register(&customers, &ada);
    pattern.step("register a customer", requests(2).written(2), registered).await?;
    for id in 2..=50 {
        register(&customers, &customer(id)).await?;
    }

    let scan = customers.query::<Customer>().filter(|c| c.email.eq("customer7@example.com")).partition_prefix("id_");
    let cost = requests(1).examined(50).returned(1);
    pattern.step("find a customer by e-mail address, without the index", cost, scan.collect()).await?;

    let key = CustomerByEmail::key_of("customer7@example.com")?;
    let found = customers.get_by_key::<CustomerByEmail>(&key);
    let cost = requests(1).examined(1).returned(1);
    let found = pattern.step("find a customer by e-mail address", cost, found).await?;
    assert_eq!((found.id, found.name.as_str()), (7, "Customer 7"));

    let certain = async {
        let key = Customer::key_of(u32::try_from(found.id)?)?;
        Ok::<_, Box<dyn std::error::Error>>(customers.get_by_key::<Customer>(&key).await?)
    };
    let cost = requests(1).examined(1).returned(1);
    let certain = pattern.step("check that the registration is complete", cost, certain).await?;
    assert_eq!(certain.email, found.email);

    let taken = CustomerByEmail { email: ada.email.clone(), id: 51, name: "Customer 51".into(), written: None };
    let claimed = refused(customers.insert(&taken));
    let error = pattern.step("register with an address in use", requests(1), claimed).await?;
    assert_eq!(error.kind(), ErrorKind::Conflict);

    // Simulates a crash between the two writes.
    claim(&customers, &customer(52)).await?;
    let cost = requests(53).examined(101).returned(101).written(1);
    let removed =
        pattern.step("repair: look for the customer of each claim", cost, repair(&customers, DateTime::MAX)).await?;
    assert_eq!(removed, 1);
    register(&customers, &customer(52)).await?;

    pattern.finish().await
}
