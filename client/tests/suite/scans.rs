//! Scans and counts, which read several key ranges concurrently.

use crate::support::{Account, account, new_name};
use bytes::Bytes;
use http::{Request, Response};
use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
use rowhouse_client::{
    BoxFuture, Continuation, ErrorKind, HttpError, PropertyBag, RetryPolicy, Table, TableService, Transport,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
struct Requests {
    current: AtomicUsize,
    most: AtomicUsize,
    /// The number of requests that are answered before the service becomes unreachable.
    left: AtomicUsize,
}

#[derive(Debug)]
struct Observed(HttpClient, Arc<Requests>);

impl Transport for Observed {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        let Self(http, requests) = self;
        Box::pin(async move {
            if requests.left.fetch_sub(1, Ordering::Relaxed) == 0 {
                requests.left.store(0, Ordering::Relaxed);
                return Err(HttpError::TimedOut(time_max));
            }
            let current = requests.current.fetch_add(1, Ordering::Relaxed) + 1;
            requests.most.fetch_max(current, Ordering::Relaxed);
            let response = Transport::send(http, request, time_max).await;
            requests.current.fetch_sub(1, Ordering::Relaxed);
            response
        })
    }
}

/// The table has 6,000 entities, 20 in each partition.
async fn new_table() -> (Account, Table, Arc<Requests>) {
    let account = account().await;
    let requests = Arc::new(Requests { left: AtomicUsize::new(usize::MAX), ..Requests::default() });
    let http = HttpClient::new(HttpOptions::default(), tls_config(system_roots()).unwrap());
    let builder = TableService::builder_from_connection_string(&account.connection_string).unwrap();
    let builder = builder.transport(Observed(http, Arc::clone(&requests))).retry(RetryPolicy::none());
    let table = builder.build().unwrap().table(&new_name());
    table.create().await.unwrap();
    let mut bulk = table.bulk();
    for number in 0..6000 {
        let bag = PropertyBag::new(&format!("p{:03}", number / 20), &format!("{:02}", number % 20)).unwrap();
        bulk.insert(&bag.with("Number", number).unwrap()).await.unwrap();
    }
    assert_eq!(bulk.finish().await.written, 6000);
    (account, table, requests)
}

#[tokio::test]
async fn a_scan_has_every_entity_once_and_reads_ranges_concurrently() {
    let (_account, table, requests) = new_table().await;
    for parallel in [1, 3, 8] {
        requests.most.store(0, Ordering::Relaxed);
        let numbers = table.query::<PropertyBag>().select(|p| p.property::<i32>("Number"));
        let mut numbers = numbers.scan().parallel(parallel).stream();
        let mut seen = BTreeSet::new();
        while let Some(number) = numbers.next().await {
            assert!(seen.insert(number.unwrap()));
        }
        assert_eq!((seen.len(), requests.most.load(Ordering::Relaxed)), (6000, parallel));
    }
}

#[tokio::test]
async fn a_count_follows_the_conditions_of_its_query() {
    let (_account, table, _) = new_table().await;
    assert_eq!(table.scan::<PropertyBag>().count().await.unwrap(), 6000);
    let all = || table.query::<PropertyBag>();
    for (query, expected) in [
        (all().filter_text("RowKey ge '15'"), 1500),
        (all().filter_text("RowKey eq '15' or RowKey eq '16'").partitions("p1".."p2"), 200),
        (all().partition("p007"), 20),
        (all().partition("q"), 0),
        (all().filter(|p| p.property::<i32>("Number").lt(2500)), 2500),
    ] {
        for parallel in [1, 8] {
            let text = query.text().unwrap();
            assert_eq!(query_again(&table, text.as_deref()).scan().parallel(parallel).count().await.unwrap(), expected);
        }
    }
    let error = all().filter_text("Number gt").scan().count().await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)), "the service says what is wrong");
    let error = all().take(5).scan().count().await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, None));
    let from = Continuation { partition: "p".to_owned(), row: None };
    assert_eq!(all().resume(from).scan().stream().next().await.unwrap().unwrap_err().kind(), ErrorKind::Invalid);
}

fn query_again(table: &Table, text: Option<&str>) -> rowhouse_client::Query<PropertyBag> {
    text.into_iter().fold(table.query(), rowhouse_client::Query::filter_text)
}

#[tokio::test]
async fn a_page_that_fails_ends_the_scan() {
    let (_account, table, requests) = new_table().await;
    let all = requests.left.load(Ordering::Relaxed);
    let mut entities = table.scan::<PropertyBag>().parallel(4).stream();
    while let Some(entity) = entities.next().await {
        entity.unwrap();
    }
    let pages = all - requests.left.load(Ordering::Relaxed);
    for left in [0, 1, pages / 2, pages - 1] {
        requests.left.store(left, Ordering::Relaxed);
        let mut all = table.scan::<PropertyBag>().parallel(4).stream();
        let error = loop {
            if let Err(error) = all.next().await.unwrap() {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(all.next().await.is_none());
    }
}
