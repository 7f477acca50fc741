//! The snippets in the README.md of both packages and in docs/client-encryption.md.

use crate::tour::{Customer, with_customers};
use crate::{Outcome, start};
use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy, KeyRing};
use rowhouse_client::{Entity, ErrorKind, IfMatch, PropertyBag, Transaction};
use rowhouse_testing::TestServer;

#[tokio::test]
async fn the_package() -> Outcome {
    let server = TestServer::start().await?;
    let connection_string = server.connection_string();
    {
        use rowhouse_client::{Entity, TableService};

        #[derive(Entity, Debug)]
        struct Customer {
            #[entity(partition_key)]
            city: String,
            #[entity(row_key)]
            id: String,
            name: String,
            visits: i64,
        }

        let customers = TableService::from_connection_string(&connection_string)?.table("customers");
        customers.create_if_missing().await?;
        customers.insert(&Customer { city: "Turin".into(), id: "7".into(), name: "Ada".into(), visits: 9 }).await?;

        let mut regulars = customers.query::<Customer>().partition("Turin").filter(|c| c.visits.gt(5)).stream();
        while let Some(customer) = regulars.next().await {
            println!("{}", customer?.name);
        }
    }
    assert_eq!(server.costs().entities_returned, 1);
    Ok(())
}

#[tokio::test]
async fn the_package_for_tests() -> Outcome {
    use std::time::Duration;

    let server = rowhouse_testing::TestServer::start().await?;
    let connection_string = server.connection_string(); // for any client library
    server.clock().advance(Duration::from_hours(24)); // moves Timestamps and expiry to tomorrow
    println!("{:?}", server.costs()); // requests, and entities examined, returned and written
    assert!(!connection_string.is_empty());
    Ok(())
}

#[tokio::test]
async fn encryption() -> Outcome {
    let (_server, service) = start().await;
    let (secret, secret_of_last_year) = ([1; 32], [2; 32]);
    let policy = EncryptionPolicy::new(EncryptionMode::AesGcm)
        .key(AesKey::new("key-2026", &secret)?)
        .resolver(KeyRing::new().with(AesKey::new("key-2025", &secret_of_last_year)?))
        .required(true);
    let staff = service.table("staff").with_encryption(policy);
    staff.create().await?;
    staff.insert(&PropertyBag::new("Turin", "1")?.with("Name", "Ada")?).await?;
    assert_eq!(staff.get::<PropertyBag>("Turin", "1").await?.get::<String>("Name")?, "Ada");
    Ok(())
}

#[tokio::test]
async fn a_typed_entity() -> Outcome {
    let (_server, service) = with_customers().await;
    let cars = service.table("cars");
    cars.create().await?;
    {
        #[derive(Debug, Entity)]
        #[entity(rename_all = "PascalCase")]
        struct Car {
            #[entity(partition_key)]
            make: String,
            #[entity(row_key)]
            number: String,
            mileage: i64,
        }

        cars.insert(&Car { make: "kestrel".into(), number: "0007".into(), mileage: 120 }).await?;
        let car = cars.get::<Car>("kestrel", "0007").await?;
        println!("{} {}", car.mileage, car.etag.as_str());

        cars.insert(&Car { make: "kestrel".into(), number: "0008".into(), mileage: 7 }).await?;
        // Changes several entities at once, like SaveChanges with SaveChangesOptions.Batch.
        let mut first = cars.get::<Car>("kestrel", "0007").await?;
        let second = cars.get::<Car>("kestrel", "0008").await?;
        first.mileage += 80;
        let added = Car { make: "kestrel".into(), number: "0009".into(), mileage: 0 };
        let changes = Transaction::new().replace(&first, &first).delete("kestrel", "0008", &second);
        cars.commit(changes.insert(&added)).await?;
        let mileages = cars.query::<Car>().select(|car| car.mileage).collect().await?;
        assert_eq!(mileages, [200, 0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_filter() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let query = customers.query::<Customer>().filter(|c| c.city.eq("Turin") & c.visits.ge(9));
        assert_eq!(query.text()?.as_deref(), Some("PartitionKey eq 'Turin' and Visits ge 9L"));
    }
    {
        let names: Vec<String> =
            customers.query::<PropertyBag>().resolve(&["Name"], |bag| bag.get("Name")).take(5).collect().await?;
        assert_eq!(names, ["Ada", "Emmy"]);
    }
    Ok(())
}

#[tokio::test]
async fn conditions() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let first = customers.get::<Customer>("Turin", "000007").await?;
        customers.replace(&first, IfMatch::Any).await?; // like "*"
        let error = customers.replace(&first, &first).await.unwrap_err(); // it has changed since
        assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    }
    Ok(())
}
