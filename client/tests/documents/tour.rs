//! The entity types in docs/client.md.

use crate::{Outcome, start};
use rowhouse_client::{DateTime, Entity, PropertyBag, TableService};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(rename_all = "PascalCase")]
pub(crate) struct Customer {
    #[entity(partition_key)]
    pub(crate) city: String,
    #[entity(row_key, padded = 6)]
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) visits: i64,
    pub(crate) mail: Option<String>,
}

pub(crate) fn ada() -> Customer {
    Customer { city: "Turin".into(), number: 7, name: "Ada".into(), visits: 9, mail: None }
}

/// Returns a service with two customers.
pub(crate) async fn with_customers() -> (rowhouse_testing::TestServer, TableService) {
    let (server, service) = start().await;
    let customers = service.table("customers");
    customers.create().await.unwrap();
    let emmy = Customer { number: 8, name: "Emmy".into(), visits: 1, ..ada() };
    for customer in [ada(), emmy] {
        customers.insert(&customer).await.unwrap();
    }
    (server, service)
}

mod shown {
    //! The same type as shown on the page, and its properties described there.

    use rowhouse_client::{Entity, EntityError};

    #[derive(Debug, Clone, PartialEq, Entity)]
    #[entity(rename_all = "PascalCase")]
    struct Customer {
        #[entity(partition_key)]
        city: String,
        #[entity(row_key, padded = 6)]
        number: u32,
        name: String,
        visits: i64,
        mail: Option<String>,
    }

    #[test]
    fn an_entity_type() -> Result<(), EntityError> {
        let ada = Customer { city: "Turin".into(), number: 7, name: "Ada".into(), visits: 9, mail: None };
        assert_eq!(ada.key()?.row.as_str(), "000007");
        assert_eq!(ada.to_bag()?.get::<i64>("Visits")?, 9);
        Ok(())
    }
}

#[tokio::test]
async fn keys_that_sort() -> Outcome {
    let (_server, service) = start().await;
    let log = service.table("log");
    log.create().await?;
    {
        #[derive(Debug, Entity)]
        #[entity(partition_key = "log-{server}", row_key = "{at:inverted}_{number:04}")]
        struct LogEntry {
            server: String,
            at: DateTime,
            number: u16,
            message: String,
        }

        for (second, message) in [(1, "started"), (2, "ready")] {
            let at = DateTime::parse(&format!("2031-04-01T06:30:0{second}Z")).map_err(|_| "not an instant")?;
            log.insert(&LogEntry { server: "web1".into(), at, number: 0, message: message.into() }).await?;
        }
        let newest = log.query::<LogEntry>().partition("log-web1").first().await?;
        assert_eq!(newest.map(|entry| entry.entity.message).as_deref(), Some("ready"));
    }
    Ok(())
}

#[tokio::test]
async fn property_bags() -> Outcome {
    let (_server, service) = start().await;
    let orders = service.table("orders");
    orders.create().await?;
    {
        let mut order = PropertyBag::new("2031", "0001")?.with("Total", 120_i64)?.with("State", "open")?;
        order.set("State", "paid")?;
        orders.insert(&order).await?;

        let order = orders.get::<PropertyBag>("2031", "0001").await?;
        assert_eq!(order.get::<i64>("Total")?, 120);
        assert_eq!(order.get::<Option<bool>>("IsGift")?, None);
        for (name, value) in order.properties.iter() {
            println!("{name} = {value:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn several_kinds() -> Outcome {
    let (_server, service) = start().await;
    let table = service.table("customers");
    table.create().await?;
    {
        #[derive(Debug, Entity)]
        #[entity(partition_key = "{city}", row_key = "visit_{at}")]
        struct Visit {
            city: String,
            at: DateTime,
            minutes: i32,
        }

        #[derive(Debug, Entity)]
        #[entity(tag = "Kind")]
        enum Record {
            Customer(Customer),
            Visit(Visit),
            #[entity(other)]
            Other(PropertyBag),
        }

        let at = DateTime::parse("2031-04-01T06:30:00Z").map_err(|_| "not an instant")?;
        table.insert(&Record::Customer(ada())).await?;
        table.insert(&Record::Visit(Visit { city: "Turin".into(), at, minutes: 40 })).await?;
        for record in table.query::<Record>().partition("Turin").collect().await? {
            match record.into_entity() {
                Record::Customer(customer) => println!("{}", customer.name),
                Record::Visit(visit) => println!("{} minutes", visit.minutes),
                Record::Other(bag) => println!("another kind: {}", bag.key.row.as_str()),
            }
        }
    }
    table.insert(&PropertyBag::new("Turin", "x")?).await?;
    assert_eq!(table.query::<PropertyBag>().collect().await?.len(), 3);
    Ok(())
}
