use crate::support::{Account, Customer, account, customer, new_name, new_table};
use bytes::Bytes;
use http::{Request, Response};
use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
use rowhouse_client::{
    BoxFuture, ErrorKind, HttpError, IfMatch, PropertyBag, RetryPolicy, Table, TableService, Transport,
};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

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
async fn operations_on_the_same_entity_side_by_side_cost_few_requests() {
    let (_account, table, counted, operations) = counted_table(None).await;
    let mut bulk = counted.bulk();
    for id in 0..1000 {
        let city = ["Turin", "Milan"][id % 2];
        for visits in 0..3 {
            bulk.insert_or_replace(&customer(city, &format!("{id:03}"), visits)).await.unwrap();
        }
    }
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed), (3000, 0));
    let stored = table.query::<Customer>().collect().await.unwrap();
    assert!(stored.len() == 1000 && stored.iter().all(|customer| customer.visits == 2));
    let operations = operations.lock().unwrap();
    assert!(operations.len() <= 40, "{operations:?}");
}

#[tokio::test]
async fn operations_on_one_entity_in_very_many_groups() {
    let (_account, table) = new_table().await;
    let mut bulk = table.bulk();
    for visits in 0..300 {
        bulk.insert(&customer("Turin", "1", visits)).await.unwrap();
        bulk.delete("Turin", "1", IfMatch::Any).await.unwrap();
        bulk.insert_or_replace(&customer("Turin", &format!("more{visits}"), visits)).await.unwrap();
    }
    bulk.insert(&customer("Turin", "1", 300)).await.unwrap();
    let report = bulk.finish().await;
    assert_eq!((report.written, report.failed), (901, 0));
    assert_eq!(table.get::<Customer>("Turin", "1").await.unwrap().visits, 300);
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

/// Records the number of operations in each transaction, and fails the transaction at an index without sending it.
#[derive(Debug, Clone)]
struct Counted {
    http: HttpClient,
    operations: Arc<Mutex<Vec<usize>>>,
    unreachable: Option<usize>,
}

impl Transport for Counted {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        let count = String::from_utf8_lossy(request.body()).matches(" HTTP/1.1\r\n").count();
        let mut operations = self.operations.lock().unwrap();
        operations.push(count);
        if self.unreachable == Some(operations.len() - 1) {
            return Box::pin(async move { Err(HttpError::TimedOut(time_max)) });
        }
        Transport::send(&self.http, request, time_max)
    }
}

/// Returns the same new table twice: requests to the second are counted.
async fn counted_table(unreachable: Option<usize>) -> (Account, Table, Table, Arc<Mutex<Vec<usize>>>) {
    let (account, table) = new_table().await;
    let http = HttpClient::new(HttpOptions::default(), tls_config(system_roots()).unwrap());
    let operations = Arc::new(Mutex::new(Vec::new()));
    let transport = Counted { http, operations: Arc::clone(&operations), unreachable };
    let builder = TableService::builder_from_connection_string(&account.connection_string).unwrap();
    let counted = builder.transport(transport).retry(RetryPolicy::none()).build().unwrap().table(table.name());
    (account, table, counted, operations)
}

#[tokio::test]
async fn operations_that_are_refused_cost_few_requests_and_repeat_few_others() {
    type Exists = fn(usize) -> bool;
    // Which of 100 entities exist, and the maximum numbers of requests, and of operations in them.
    let cases: [(&str, Exists, usize, usize); 8] = [
        ("none", |_| false, 1, 100),
        ("one", |id| id == 50, 2, 199),
        ("the last", |id| id == 99, 2, 199),
        ("two", |id| id == 30 || id == 60, 3, 297),
        ("the first half", |id| id < 50, 56, 400),
        ("the second half", |id| id >= 50, 51, 450),
        ("every second", |id| id % 2 == 0, 51, 450),
        ("all", |_| true, 100, 297),
    ];
    for (name, exists, requests_max, operations_max) in cases {
        let (_account, table, counted, operations) = counted_table(None).await;
        let existing: Vec<_> = (0..100).filter(|id| exists(*id)).map(|id| format!("{id:02}")).collect();
        for id in &existing {
            table.insert(&customer("Turin", id, 1000)).await.unwrap();
        }
        let mut bulk = counted.bulk();
        for id in 0..100 {
            bulk.insert(&customer("Turin", &format!("{id:02}"), 1)).await.unwrap();
        }
        let report = bulk.finish().await;
        let failed: Vec<_> = report.failures.iter().map(|failure| failure.key.row.as_str()).collect();
        assert_eq!(failed, existing, "{name}");
        assert_eq!(report.written, 100 - existing.len() as u64, "{name}");
        for stored in table.query::<Customer>().collect().await.unwrap() {
            assert_eq!(stored.visits == 1000, existing.contains(&stored.id), "{name}: {}", stored.id);
        }
        let operations = operations.lock().unwrap();
        assert_eq!(report.transactions, operations.len() as u64, "{name}");
        let total: usize = operations.iter().sum();
        assert!(operations.len() <= requests_max && total <= operations_max, "{name}: {total} in {operations:?}");
    }
}

#[tokio::test]
async fn mixed_operations_succeed_and_fail_as_they_would_singly() {
    let (_account, table, counted, operations) = counted_table(None).await;
    // The operation, and whether the entity exists and was changed by another program, follow from the number.
    let (exists, is_outdated) = (|id: usize| id % 7 < 4, |id: usize| id % 11 < 5);
    let mut bulk = counted.bulk();
    let mut expected = Vec::new();
    for id in 0..100 {
        let entity = customer("Turin", &format!("{id:02}"), 1);
        let row = entity.id.as_str();
        let mut version = IfMatch::Any;
        if exists(id) {
            version = IfMatch::from(&table.insert(&customer("Turin", row, 1000)).await.unwrap());
            if is_outdated(id) {
                table.insert_or_replace(&customer("Turin", row, 2000)).await.unwrap();
            }
        }
        let fails = match id % 5 {
            0 => bulk.insert(&entity).await.map(|()| exists(id)),
            1 => bulk.insert_or_merge(&entity).await.map(|()| false),
            2 => bulk.replace(&entity, version).await.map(|()| !exists(id) || is_outdated(id)),
            3 => bulk.merge(&entity, version).await.map(|()| !exists(id) || is_outdated(id)),
            _ => bulk.delete("Turin", row, version).await.map(|()| !exists(id) || is_outdated(id)),
        };
        if fails.unwrap() {
            expected.push(entity.id);
        }
    }
    let report = bulk.finish().await;
    let mut failed: Vec<_> = report.failures.iter().map(|failure| failure.key.row.as_str()).collect();
    failed.sort_unstable();
    assert_eq!(failed, expected);
    let refused = expected.len() as u64;
    assert_eq!((report.written, report.failed), (100 - refused, refused));
    for stored in table.query::<Customer>().collect().await.unwrap() {
        assert_eq!(stored.visits > 1, expected.contains(&stored.id), "{}", stored.id);
    }
    let operations = operations.lock().unwrap();
    let total: usize = operations.iter().sum();
    assert!(operations.len() <= 2 * expected.len() && total <= 600, "{total} in {operations:?}");
}

#[tokio::test]
async fn a_transaction_without_an_outcome_does_not_keep_the_rest_of_its_group_from_being_written() {
    for unreachable in 0..8 {
        let (_account, table, counted, operations) = counted_table(Some(unreachable)).await;
        for id in 0..50 {
            table.insert(&customer("Turin", &format!("{id:02}"), 1000)).await.unwrap();
        }
        let mut bulk = counted.bulk();
        for id in 0..100 {
            bulk.insert(&customer("Turin", &format!("{id:02}"), 1)).await.unwrap();
        }
        let report = bulk.finish().await;
        let stored = table.query::<Customer>().collect().await.unwrap();
        let written = stored.iter().filter(|stored| stored.visits == 1).count() as u64;
        assert_eq!((report.written, report.failed), (written, 100 - written), "{unreachable}");
        let unknown = report.failures.iter().filter(|failure| failure.error.kind() == ErrorKind::Unreachable).count();
        assert_eq!(unknown, operations.lock().unwrap()[unreachable], "nothing else is given up");
    }
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
