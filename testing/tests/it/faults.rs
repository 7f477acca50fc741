//! Injected faults, met by the client library and its retry policies.

use client::{Error, ErrorKind, IfMatch, PropertyBag, RetryPolicy, Table, TableService, Transaction};
use rowhouse_testing::{Fault, TestServer};
use std::time::{Duration, Instant};

/// Starts a server with one table. The client makes up to three attempts, without long pauses.
async fn start() -> (TestServer, Table) {
    let server = TestServer::start().await.unwrap();
    let service = TableService::builder_from_connection_string(&server.connection_string()).unwrap();
    let retry = RetryPolicy::linear(Duration::from_millis(1)).attempts(3);
    let table = service.retry(retry).build().unwrap().table("orders");
    table.create().await.unwrap();
    (server, table)
}

fn order(row: &str) -> PropertyBag {
    PropertyBag::new("2031", row).unwrap().with("Total", 1).unwrap()
}

async fn rows(table: &Table) -> Vec<String> {
    let query = table.query::<PropertyBag>().resolve(&["Total"], |bag| Ok(bag.key.row.as_str().to_owned()));
    query.collect().await.unwrap()
}

#[tokio::test]
async fn a_busy_service_is_asked_again_even_for_inserts() {
    let (server, table) = start().await;
    server.inject(Fault::status(503).code("ServerBusy").times(2));
    table.insert(&order("1")).await.unwrap();
    server.inject(Fault::status(503).code("ServerBusy").times(3));
    let error = table.insert(&order("2")).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Throttled, Some("ServerBusy")));
    assert_eq!(error.refusal().unwrap().attempts, 3);
    assert_eq!((rows(&table).await, server.pending_faults()), (vec!["1".to_owned()], 0));
}

#[tokio::test]
async fn a_failure_without_a_code_is_retried_only_if_that_does_no_harm() {
    let (server, table) = start().await;
    for status in [500, 502, 503, 504] {
        server.inject(Fault::status(status).times(2));
        table.insert_or_replace(&order("1")).await.unwrap();
        server.inject(Fault::status(status));
        let error = table.insert(&order("2")).await.unwrap_err();
        assert_eq!((error.status(), error.refusal().unwrap().attempts), (Some(status), 1));
    }
    assert_eq!((rows(&table).await, server.pending_faults()), (vec!["1".to_owned()], 0));
}

#[tokio::test]
async fn a_lost_answer_is_that_of_an_executed_operation() {
    let (server, table) = start().await;
    server.inject(Fault::lost_answer().method("POST"));
    let error = table.insert(&order("1")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { attempts: 1, .. }), "{error}");
    server.inject(Fault::lost_answer());
    let error = table.commit(Transaction::new().insert(&order("2")).insert(&order("3"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(rows(&table).await, ["1", "2", "3"], "all were executed");

    server.inject(Fault::lost_answer().method("DELETE"));
    assert!(!table.delete_if_exists("2031", "1", IfMatch::Any).await.unwrap(), "the first attempt has deleted it");
    server.inject(Fault::lost_answer());
    assert_eq!(rows(&table).await, ["2", "3"], "a query is repeated");
    assert_eq!(server.pending_faults(), 0);
}

#[tokio::test]
async fn requests_are_counted_and_selected() {
    let (server, table) = start().await;
    server.inject(Fault::status(404).code("ResourceNotFound").method("GET").path("RowKey='2'").nth(2));
    table.insert(&order("1")).await.unwrap();
    table.insert(&order("2")).await.unwrap();
    for (row, is_found) in [("1", true), ("2", true), ("1", true), ("2", false), ("2", true)] {
        assert_eq!(table.find::<PropertyBag>("2031", row).await.unwrap().is_some(), is_found);
    }
    server.inject(Fault::status(500).method("PUT").times(u64::MAX));
    assert!(table.insert_or_replace(&order("1")).await.is_err());
    assert_eq!(server.pending_faults(), 1);
    server.clear_faults();
    table.insert_or_replace(&order("1")).await.unwrap();
}

#[tokio::test]
async fn faults_of_one_request_add_up() {
    let (server, table) = start().await;
    let delay = Duration::from_millis(40);
    server.inject(Fault::delay(delay).times(2));
    server.inject(Fault::delay(delay));
    server.inject(Fault::status(503).code("ServerBusy"));
    let began = Instant::now();
    table.insert(&order("1")).await.unwrap();
    assert!(began.elapsed() >= 3 * delay, "two delays for the first attempt, one for the second");

    // The third attempt must end within the timeout, also on a busy machine.
    server.inject(Fault::delay(Duration::from_mins(1)).times(2));
    let hurried = table.with_timeout(Duration::from_secs(2));
    assert!(hurried.find::<PropertyBag>("2031", "1").await.unwrap().is_some(), "the third attempt is not delayed");
}

#[tokio::test]
async fn a_long_body_is_refused_before_it_is_read() {
    let (server, table) = start().await;
    let large = "x".repeat(32 * 1024);
    let entity = |row: u32| order(&row.to_string()).with("A", large.as_str()).unwrap();
    let transaction = (0..60).fold(Transaction::new(), |all, row| all.insert_or_replace(&entity(row)));
    server.inject(Fault::status(503).code("ServerBusy").times(2));
    assert_eq!(table.commit(transaction).await.unwrap().len(), 60);
}

#[tokio::test]
async fn faults_of_a_builder_are_there_from_the_first_request() {
    let server = TestServer::builder().fault(Fault::status(403)).start().await.unwrap();
    let table = TableService::from_connection_string(&server.connection_string()).unwrap().table("orders");
    assert_eq!(table.create().await.unwrap_err().kind(), ErrorKind::Forbidden);
    table.create().await.unwrap();
}
