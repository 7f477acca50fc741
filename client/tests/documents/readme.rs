//! The snippets in the README.md of both packages and in docs/client-encryption.md.

use crate::{Outcome, start};
use rowhouse_client::PropertyBag;
use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy, KeyRing};
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
