//! Counts and deletions of the entities that match a query, on servers with and without extensions.

use crate::support::{Customer, account, customer, new_name};
use bytes::Bytes;
use http::{Request, Response};
use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
use rowhouse_client::{
    BoxFuture, Continuation, ErrorKind, HttpError, IfMatch, PropertyBag, Table, TableService, Transport,
};
use rowhouse_testing::{Fault, TestServer, TestServerBuilder};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Starts servers with and without extensions, with and without continuation tokens. Also returns the configured
/// service, if there is one.
async fn services() -> Vec<(Option<TestServer>, TableService)> {
    let mut services = Vec::new();
    if env::var("TABLES_CONNECTION_STRING").is_ok() {
        services.push((None, account().await.service));
    }
    let builder = TestServer::builder;
    for builder in [
        builder(),
        builder().query_time(Duration::ZERO),
        builder().extensions(),
        builder().extensions().query_time(Duration::ZERO),
    ] {
        let (server, service) = started(builder).await;
        services.push((Some(server), service));
    }
    services
}

async fn started(builder: TestServerBuilder) -> (TestServer, TableService) {
    let server = builder.start().await.unwrap();
    let service = TableService::from_connection_string(&server.connection_string()).unwrap();
    (server, service)
}

/// The table has 250 customers in Turin and 20 in Genoa. Their visits are numbered from 0 in each city.
async fn filled(service: &TableService) -> Table {
    let table = service.table(&new_name());
    table.create().await.unwrap();
    let mut bulk = table.bulk();
    for (city, count) in [("Turin", 250), ("Genoa", 20)] {
        for id in 0..count {
            bulk.insert(&customer(city, &format!("{id:03}"), id)).await.unwrap();
        }
    }
    assert_eq!(bulk.finish().await.written, 270);
    table
}

async fn rest(table: &Table) -> usize {
    table.query::<PropertyBag>().collect().await.unwrap().len()
}

#[tokio::test]
async fn every_service_counts() {
    for (_server, service) in services().await {
        let table = filled(&service).await;
        let all = || table.query::<Customer>();
        for (query, expected) in [
            (all(), 270),
            (all().partition("Turin"), 250),
            (all().filter(|c| c.visits.lt(10)), 20),
            (all().filter_text("visits ge 10 and visits lt 12"), 4),
            (all().partition("Rome"), 0),
            (all().take(7), 7),
            (all().take(0), 0),
        ] {
            let text = query.text().unwrap();
            assert_eq!(query.count().await.unwrap(), expected, "{text:?}");
        }
        let names = table.query::<PropertyBag>().select(|p| p.property::<String>("name"));
        assert_eq!(names.count().await.unwrap(), 270);
        let page = all().page_size(100).pages().next().await.unwrap().unwrap();
        let (read, next) = (page.items.len() as u64, page.next.unwrap());
        assert_eq!(read + all().resume(next).count().await.unwrap(), 270);
        let error = all().filter_text("visits gt").count().await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)), "{error}");
        let error = service.table(&new_name()).query::<Customer>().count().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::NotFound, Some("TableNotFound")), "{error}");
    }
}

#[tokio::test]
async fn every_service_deletes_what_matches() {
    for (_server, service) in services().await {
        let table = filled(&service).await;
        let all = || table.query::<Customer>();
        assert_eq!(all().filter(|c| c.visits.lt(5)).delete_matching().await.unwrap(), 10);
        assert_eq!(rest(&table).await, 260);
        assert_eq!(all().filter(|c| c.visits.lt(5)).delete_matching().await.unwrap(), 0);
        let bags = table.query::<PropertyBag>().filter_text("visits ge 240").select_as::<Customer>();
        assert_eq!(bags.delete_matching().await.unwrap(), 10);
        let page = all().page_size(100).pages().next().await.unwrap().unwrap();
        let kept = page.items.len() as u64;
        let mut progress = Vec::new();
        let deletion = all().partitions(..).filter_text("true").resume(page.next.unwrap());
        let deleted = deletion.delete_matching_with(|deleted| progress.push(deleted)).await.unwrap();
        assert_eq!((deleted + kept, rest(&table).await as u64), (250, kept));
        assert!(progress.is_sorted() && progress.last() == Some(&deleted), "{progress:?}");
        assert_eq!(all().filter_text("true").delete_matching().await.unwrap(), kept);
        assert_eq!(rest(&table).await, 0);
    }
}

#[tokio::test]
async fn a_deletion_that_is_refused_deletes_nothing() {
    for (_server, service) in services().await {
        let table = filled(&service).await;
        let all = || table.query::<Customer>();
        let continuation = Continuation { partition: "1!4!cA--".to_owned(), row: None };
        for query in [all(), all().filter_text(""), all().filter_text(" "), all().resume(continuation)] {
            let error = query.delete_matching().await.unwrap_err();
            assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, None), "{error}");
        }
        let error = all().partition("Turin").take(5).delete_matching().await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, None), "{error}");
        let error = all().filter_text("visits gt").delete_matching().await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)), "{error}");
        assert_eq!(rest(&table).await, 270);
    }
}

#[tokio::test]
async fn a_server_with_extensions_needs_one_request() {
    let (server, service) = started(TestServer::builder().extensions()).await;
    let table = filled(&service).await;
    let turin = || table.query::<Customer>().partition("Turin");
    let before = server.costs().requests;
    assert_eq!(turin().count().await.unwrap(), 250);
    assert_eq!(turin().scan().count().await.unwrap(), 250);
    assert_eq!(turin().delete_matching().await.unwrap(), 250);
    assert_eq!(server.costs().requests - before, 3);
}

#[tokio::test]
async fn lost_responses_to_deletions_are_repeated() {
    // The entities that an executed request deleted are not counted if its response is lost.
    for (builder, method, counts) in
        [(TestServer::builder(), "POST", &[250, 220, 170][..]), (TestServer::builder().extensions(), "DELETE", &[0])]
    {
        let (server, service) = started(builder).await;
        let table = filled(&service).await;
        server.inject(Fault::lost_answer().method(method));
        let deleted = table.query::<Customer>().filter_text("true").delete_matching().await.unwrap();
        assert!(counts.contains(&deleted), "{method}: {deleted}");
        assert_eq!((server.pending_faults(), rest(&table).await), (0, 0));
    }
}

/// Changes entities before it sends the first transaction.
#[derive(Debug)]
struct Changing {
    http: HttpClient,
    table: Table,
    is_done: AtomicBool,
}

impl Transport for Changing {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        Box::pin(async move {
            if request.method() == "POST" && !self.is_done.swap(true, Ordering::Relaxed) {
                self.table.insert_or_replace(&customer("Turin", "7", 2000)).await.unwrap();
                self.table.insert_or_replace(&customer("Turin", "8", 500)).await.unwrap();
                self.table.delete("Turin", "9", IfMatch::Any).await.unwrap();
            }
            Transport::send(&self.http, request, time_max).await
        })
    }
}

#[tokio::test]
async fn entities_that_change_during_a_deletion_are_deleted_only_if_they_match() {
    let (server, service) = started(TestServer::builder()).await;
    let table = service.table("customers");
    table.create().await.unwrap();
    for id in 0..10 {
        table.insert(&customer("Turin", &id.to_string(), id)).await.unwrap();
    }
    let http = HttpClient::new(HttpOptions::default(), tls_config(system_roots()).unwrap());
    let transport = Changing { http, table: table.clone(), is_done: AtomicBool::new(false) };
    let service = TableService::builder_from_connection_string(&server.connection_string()).unwrap();
    let changing = service.transport(transport).build().unwrap().table("customers");
    let deleted = changing.query::<Customer>().filter(|c| c.visits.lt(1000)).delete_matching().await.unwrap();
    let rest = table.query::<Customer>().select(|c| c.visits).collect().await.unwrap();
    assert_eq!((deleted, rest), (8, vec![2000]));
}
