//! The examples of queries in docs/client.md.

use crate::Outcome;
use crate::tour::{Customer, with_customers};
use rowhouse_client::{Continuation, Entity, Filter, PropertyBag};

#[tokio::test]
async fn filters() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let mut regulars = customers
            .query::<Customer>()
            .partition("Turin")
            .filter(|c| c.visits.gt(5) & !(c.name.eq("Emmy") | c.mail.starts_with("info@")))
            .stream();
        while let Some(customer) = regulars.next().await {
            println!("{}", customer?.name);
        }
    }
    {
        fn regulars() -> Filter<Customer> {
            Customer::PROPERTIES.visits.gt(5)
        }

        let query = customers.query::<Customer>().partition("L'Aquila").and(regulars());
        assert_eq!(query.text()?.as_deref(), Some("PartitionKey eq 'L''Aquila' and Visits gt 5L"));

        let found = customers.query::<PropertyBag>().filter(|p| p.property::<i64>("Visits").gt(5)).collect().await?;
        assert_eq!(found.len(), 1);
        let found = customers.query::<PropertyBag>().filter_text("Visits gt 5L and Name ne ''").collect().await?;
        assert_eq!(found.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn keys() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let all = customers.query::<Customer>().partition("Turin").collect().await?;
        let some = customers.query::<Customer>().partition("Turin").rows("000005".."000008").collect().await?;
        let same = customers.query::<Customer>().filter(|c| c.city.eq("Turin") & c.number.in_range(5..8));
        let few = customers.query::<Customer>().partitions("T".."V").row_prefix("00000").take(1).collect().await?;
        assert_eq!((all.len(), some.len(), same.collect().await?.len(), few.len()), (2, 1, 1, 1));
    }
    Ok(())
}

#[tokio::test]
async fn scans() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let mut all = customers.query::<Customer>().filter(|c| c.visits.gt(5)).scan().parallel(16).stream();
        while let Some(customer) = all.next().await {
            println!("{}", customer?.name);
        }
        println!("{} customers", customers.scan::<Customer>().parallel(16).count().await?);
    }
    {
        let regulars = customers.query::<Customer>().filter(|c| c.visits.gt(5)).count().await?;
        assert_eq!(regulars, 1);
    }
    Ok(())
}

#[tokio::test]
async fn projections() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let visits = customers.query::<Customer>().select(|c| (c.number, c.visits)).collect().await?;
        assert_eq!(visits, [(7, 9), (8, 1)]);

        #[derive(Entity)]
        struct Badge {
            #[entity(partition_key)]
            city: String,
            #[entity(row_key)]
            number: String,
            #[entity(rename = "Name")]
            name: String,
        }

        let badges = customers.query::<Customer>().filter(|c| c.visits.gt(5)).select_as::<Badge>().collect().await?;
        println!("{} {} {}", badges[0].city, badges[0].number, badges[0].name);

        let names = customers
            .query::<Customer>()
            .resolve(&["Name"], |bag| Ok(bag.get::<String>("Name")?.to_uppercase()))
            .collect()
            .await?;
        assert_eq!(names, ["ADA", "EMMY"]);
    }
    Ok(())
}

#[tokio::test]
async fn pages() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let mut pages = customers.query::<Customer>().partition("Turin").page_size(1).pages();
        let page = pages.next().await.ok_or("no page")??;
        println!("{}", page.items[0].name);

        // Written to a link, a file or a database …
        let bookmark: String = page.next.ok_or("no more pages")?.to_string();
        // … and read by another process.
        let from: Continuation = bookmark.parse()?;
        let rest = customers.query::<Customer>().partition("Turin").resume(from).collect().await?;
        assert_eq!(rest.len(), 1);
    }
    Ok(())
}
