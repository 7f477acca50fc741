use crate::support::{Account, Customer, customer, new_table};
use rowhouse_client::{Continuation, Entity, ErrorKind, PropertyBag, Stored, Table, Transaction};
use std::collections::BTreeSet;

const CITIES: [&str; 3] = ["Genoa", "Milan", "Turin"];

/// The table has 90 customers, 30 in each city.
async fn new_customers() -> (Account, Table) {
    let (account, table) = new_table().await;
    for city in CITIES {
        let all = (0..30).map(|id| customer(city, &format!("{id:02}"), id));
        table.commit(all.fold(Transaction::new(), |all, entity| all.insert(&entity))).await.unwrap();
    }
    (account, table)
}

fn ids(customers: &[Stored<Customer>]) -> Vec<String> {
    customers.iter().map(|customer| format!("{}{}", &customer.city[..1], customer.id)).collect()
}

#[tokio::test]
async fn conditions_select_what_they_say() {
    let (_account, table) = new_customers().await;
    let all = || table.query::<Customer>();
    for (query, expected) in [
        (all().filter(|c| c.visits.lt(2)), vec!["G00", "G01", "M00", "M01", "T00", "T01"]),
        (all().partition("Turin").filter(|c| c.visits.ge(28)), vec!["T28", "T29"]),
        (all().filter(|c| c.city.eq("Milan") & c.id.in_range("05"..="06")), vec!["M05", "M06"]),
        (all().filter(|c| c.visits.eq(3) & !c.city.starts_with("M")), vec!["G03", "T03"]),
        (all().filter(|c| c.name.eq("Name 07") | c.name.eq("Name 08")).partition("Genoa"), vec!["G07", "G08"]),
        (all().partitions("H".."T").rows("10".."12"), vec!["M10", "M11"]),
        (all().partition_prefix("Tu").row_prefix("1").take(3), vec!["T10", "T11", "T12"]),
        (all().partition_prefix("T").filter_text("visits gt 27 and visits ne 28"), vec!["T29"]),
        (all().filter_text("visits eq 1 or visits eq 2").filter_text("PartitionKey lt 'H'"), vec!["G01", "G02"]),
        (all().filter(|c| c.mail.eq("nobody")), vec![]),
        (all().take(0), vec![]),
    ] {
        let text = query.text().unwrap();
        assert_eq!(ids(&query.collect().await.unwrap()), expected, "{text:?}");
    }
    let first = all().partition("Milan").first().await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.timestamp.is_some()), ("00", true));
    assert_eq!(all().partition("Rome").first().await.unwrap(), None);
    let error = all().filter_text("visits equals 5").collect().await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)), "{error}");
}

#[derive(Entity, Debug, PartialEq)]
struct Badge {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    id: String,
    name: String,
}

#[tokio::test]
async fn projections_of_every_kind() {
    let (_account, table) = new_customers().await;
    let genoa = || table.query::<Customer>().partition("Genoa").take(2);
    let names = genoa().select(|c| c.name).collect().await.unwrap();
    assert_eq!(names, ["Name 00", "Name 01"]);
    let tuples = genoa().select(|c| (c.id, c.mail, c.visits)).collect().await.unwrap();
    assert_eq!(tuples, [("00".to_owned(), None, 0), ("01".to_owned(), None, 1)]);
    let badges = genoa().select_as::<Badge>().collect().await.unwrap();
    assert_eq!(badges[1].entity, Badge { city: "Genoa".into(), id: "01".into(), name: "Name 01".into() });
    let lines = genoa().resolve(&["visits"], |bag| {
        assert_eq!(bag.properties.len(), 1, "no other property may be read");
        Ok(format!("{} {}", bag.key.row.as_str(), bag.get::<i32>("visits")?))
    });
    assert_eq!(lines.collect().await.unwrap(), ["00 0", "01 1"]);
    let wrong = genoa().resolve(&["visits"], |bag| bag.get::<String>("visits")).collect().await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Entity, "{wrong}");
}

#[tokio::test]
async fn pages_and_continuations_lose_nothing() {
    let (account, table) = new_customers().await;
    let mut pages = table.query::<Customer>().page_size(7).pages();
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert!(page.items.len() <= 7);
        seen.extend(ids(&page.items));
        count += 1;
    }
    assert_eq!(seen.len(), 90);
    assert!(count >= 13, "{count}");

    // Simulate a separate process for each page by passing only a string to the next one.
    let mut stored: Option<String> = None;
    let mut seen = Vec::new();
    loop {
        let table = account.service.table(table.name());
        let mut query = table.query::<Customer>().filter(|c| c.visits.lt(20)).page_size(11);
        if let Some(text) = &stored {
            let continuation: Continuation = serde_json::from_str(text).unwrap();
            assert_eq!(continuation.to_string().parse(), Ok(continuation.clone()));
            query = query.resume(continuation);
        }
        let page = query.pages().next().await.unwrap().unwrap();
        seen.extend(ids(&page.items));
        match page.next {
            Some(next) => stored = Some(serde_json::to_string(&next).unwrap()),
            None => break,
        }
    }
    assert_eq!((seen.len(), seen.is_sorted()), (60, true));

    let mut stream = table.query::<PropertyBag>().page_size(20).take(50).stream();
    let mut count = 0;
    while let Some(bag) = stream.next().await {
        bag.unwrap();
        count += 1;
    }
    assert_eq!(count, 50);
}

#[tokio::test]
async fn an_error_ends_a_stream() {
    let (_account, table) = new_customers().await;
    table.insert_or_replace(&PropertyBag::new("Milan", "05").unwrap().with("name", 5).unwrap()).await.unwrap();
    let mut stream = table.query::<Customer>().page_size(40).stream();
    let (mut good, mut bad) = (0, 0);
    while let Some(customer) = stream.next().await {
        match customer {
            Ok(_) => good += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Entity);
                assert!(error.to_string().contains("name"), "{error}");
                bad += 1;
            }
        }
    }
    assert_eq!((good, bad), (0, 1), "the page with the entity must not be returned in part");
    let unprintable = std::time::SystemTime::UNIX_EPOCH - std::time::Duration::from_hours(4_392_000);
    let query = table.query::<PropertyBag>().filter(|p| p.property::<std::time::SystemTime>("When").eq(unprintable));
    let error = query.collect().await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Entity, None), "nothing was sent: {error}");
}
