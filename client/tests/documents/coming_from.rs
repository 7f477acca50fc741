//! The snippets in docs/client-coming-from.md.

use crate::Outcome;
use crate::tour::{Customer, with_customers};
use rowhouse_client::{Entity, ErrorKind, IfMatch, PropertyBag, Transaction};

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
