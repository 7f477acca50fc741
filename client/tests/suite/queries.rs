use crate::support::{Account, Customer, account, customer, new_name, new_table};
use bytes::Bytes;
use http::{Request, Response};
use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
use rowhouse_client::{
    BoxFuture, Continuation, Entity, ErrorKind, HttpError, IfMatch, PropertyBag, RetryPolicy, Stored, Table,
    TableService, Transaction, Transport,
};
use rowhouse_testing::{Fault, TestServer, TestServerBuilder};
use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

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
async fn observed_table() -> (Account, Table, Arc<Requests>) {
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
    let (_account, table, requests) = observed_table().await;
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
    let (_account, table, _) = observed_table().await;
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
    let (_account, table, requests) = observed_table().await;
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
