use crate::support::{Customer, account, customer, new_name, new_table};
use rowhouse_client::{ErrorKind, IfMatch, PropertyBag};
use std::sync::{Arc, Mutex};
use std::task::Poll;

#[tokio::test]
async fn very_many_entities_in_many_partitions() {
    let (_account, table) = new_table().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mut bulk = table.bulk().concurrency(3).on_progress(move |report| log.lock().unwrap().push(report.written));
    for number in 0..2500 {
        let city =
            ["Turin", "Milan", "Genoa"][number % 3].to_owned() + if number % 500 == 0 { " and more" } else { "" };
        bulk.insert(&customer(&city, &format!("{number:05}"), 1)).await.unwrap();
    }
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed, report.failures.len()), (2500, 0, 0));
    assert!((26..=40).contains(&report.transactions), "{report:?}");
    {
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&2500), "{seen:?}");
    }
    assert_eq!(table.query::<Customer>().select(|c| c.id).collect().await.unwrap().len(), 2500);
}

#[tokio::test]
async fn what_fails_is_left_out_and_reported() {
    let (_account, table) = new_table().await;
    for id in ["07", "30"] {
        table.insert(&customer("Turin", id, 100)).await.unwrap();
    }
    let mut bulk = table.bulk();
    for id in 0..40 {
        bulk.insert(&customer("Turin", &format!("{id:02}"), id)).await.unwrap();
    }
    bulk.delete("Turin", "nobody", IfMatch::Any).await.unwrap();
    let too_long = customer(&"x".repeat(600), "1", 1);
    assert_eq!(bulk.insert(&too_long).await.unwrap_err().kind(), ErrorKind::Entity);
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed), (38, 3));
    let failures: Vec<_> =
        report.failures.iter().map(|failure| (failure.key.row.as_str(), failure.error.kind())).collect();
    let expected = [("07", ErrorKind::Conflict), ("30", ErrorKind::Conflict), ("nobody", ErrorKind::NotFound)];
    assert_eq!(failures, expected);
    assert_eq!(table.query::<Customer>().collect().await.unwrap().len(), 40);

    let account = account().await;
    let mut bulk = account.service.table(&new_name()).bulk();
    for id in 0..300 {
        bulk.insert(&customer("Turin", &id.to_string(), id)).await.unwrap();
    }
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed, report.transactions), (0, 300, 3), "they are not retried one by one");
    assert!(report.failures.iter().all(|failure| failure.error.code() == Some("TableNotFound")));
}

#[tokio::test]
async fn operations_on_one_entity_keep_their_order() {
    let (_account, table) = new_table().await;
    let mut bulk = table.bulk().concurrency(8);
    for round in 0..20 {
        for id in 0..30 {
            bulk.insert_or_replace(&customer("Turin", &id.to_string(), round)).await.unwrap();
        }
    }
    bulk.delete("Turin", "0", IfMatch::Any).await.unwrap();
    bulk.insert(&customer("Turin", "0", 1000)).await.unwrap();
    assert_eq!(bulk.report().failed, 0);
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed), (602, 0));
    for customer in table.query::<Customer>().collect().await.unwrap() {
        assert_eq!(customer.visits, if customer.id == "0" { 1000 } else { 19 });
    }
}

#[tokio::test]
async fn large_entities_are_divided_among_transactions() {
    let (_account, table) = new_table().await;
    // As JSON, each of these characters takes six bytes, so a hundred entities exceed the maximum size of a request.
    let text = "\u{1}".repeat(8_000);
    let mut bulk = table.bulk();
    for id in 0..100 {
        let bag = PropertyBag::new("p", &format!("{id:03}")).unwrap();
        bulk.insert(&bag.with("Text", text.as_str()).unwrap()).await.unwrap();
    }
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed), (100, 0), "{:?}", report.failures.first());
    assert!(report.transactions > 1);
}

/// Polls a future once and drops it. Returns whether the future was ready.
async fn given_up<F: Future>(future: F) -> bool {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn what_was_added_is_written_although_a_later_future_was_dropped() {
    let (_account, table) = new_table().await;
    let mut bulk = table.bulk().concurrency(1);
    let big = vec![0; 60_000];
    let (mut kept, mut waited) = (0, 0);
    // The writer cannot buffer all operations, so an addition waits. Its future is dropped at that point.
    for number in 0..400 {
        let entity = PropertyBag::new(&format!("p{number}"), "r").unwrap().with("Bytes", big.as_slice()).unwrap();
        if number % 3 == 2 && !given_up(bulk.insert_or_replace(&entity)).await {
            waited += 1;
            continue;
        }
        if number % 3 != 2 {
            bulk.insert_or_replace(&entity).await.unwrap();
        }
        kept += 1;
    }
    let report = bulk.finish().await;
    assert_eq!(report.failed, 0);
    assert!(waited > 0 && report.written >= kept, "{} of {kept}, {waited} dropped", report.written);
    assert_eq!(
        table.query::<PropertyBag>().resolve(&["Nothing"], Ok).collect().await.unwrap().len() as u64,
        report.written
    );
}
