//! The change feed. These tests always use the server in this process, because other services have none.

use crate::support::{Customer, customer};
use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy};
use rowhouse_client::{
    Change, ChangeOperation, ChangePosition, Error, ErrorKind, IfMatch, PropertyBag, RetryPolicy, TableService,
    Transaction,
};
use rowhouse_testing::{Fault, TestServer};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

async fn server() -> (TestServer, TableService) {
    let server = TestServer::builder().keep_log(HOUR).start().await.unwrap();
    let builder = TableService::builder_from_connection_string(&server.connection_string()).unwrap();
    let retry = RetryPolicy::linear(Duration::from_millis(5)).attempts(2);
    let service = builder.retry(retry).build().unwrap();
    (server, service)
}

fn short<E>(change: &Change<E>) -> (ChangeOperation, String) {
    let key = change.key.as_ref().map(|key| format!("{}/{}", key.partition.as_str(), key.row.as_str()));
    (change.operation, format!("{} {}", change.table, key.unwrap_or_default()).trim().to_owned())
}

#[tokio::test]
async fn changes_are_typed_and_in_order() {
    let (_server, service) = server().await;
    let customers = service.table("Customers");
    customers.create().await.unwrap();
    let ada = customer("Turin", "1", 3);
    let written = customers.insert(&ada).await.unwrap();
    customers
        .commit(Transaction::new().merge(&customer("Turin", "1", 4), IfMatch::Any).insert(&customer("Turin", "2", 0)))
        .await
        .unwrap();
    service.table("others").create().await.unwrap();
    customers.delete("Turin", "1", IfMatch::Any).await.unwrap();
    customers.delete_table().await.unwrap();

    let mut changes = Vec::new();
    let mut stream = customers.changes::<Customer>().from_start().until_end().stream();
    assert_eq!(stream.position(), None);
    while let Some(change) = stream.next().await {
        let change = change.unwrap();
        if changes.len() < 4 {
            assert_eq!(stream.position(), Some(change.position));
        }
        changes.push(change);
    }
    let operations: Vec<_> = changes.iter().map(short).collect();
    let expected = [
        (ChangeOperation::CreateTable, "Customers"),
        (ChangeOperation::Put, "Customers Turin/1"),
        (ChangeOperation::Put, "Customers Turin/1"),
        (ChangeOperation::Put, "Customers Turin/2"),
        (ChangeOperation::Delete, "Customers Turin/1"),
        (ChangeOperation::DeleteTable, "Customers"),
    ];
    assert_eq!(operations, expected.map(|(operation, text)| (operation, text.to_owned())));
    assert!(changes.is_sorted_by(|one, next| one.position < next.position));
    assert_eq!(changes[2].position.next(), changes[3].position, "one transaction");
    let put = changes[1].entity.as_ref().unwrap();
    assert_eq!((&put.entity, &put.etag, put.timestamp), (&ada, &written.etag, written.timestamp));
    assert_eq!(Some(changes[1].timestamp), written.timestamp);
    assert_eq!(changes[2].entity.as_ref().unwrap().visits, 4);
    assert!(changes[4].entity.is_none());

    let rest = customers.changes::<Customer>().from(changes[2].position).until_end();
    let mut rest = rest.filter_text("Operation ne 'DeleteTable'").stream();
    for change in &changes[3..5] {
        assert_eq!(rest.next().await.unwrap().unwrap(), *change);
    }
    assert!(rest.next().await.is_none());

    let mut all = service.changes().from_start().until_end().stream();
    let mut tables = Vec::new();
    while let Some(change) = all.next().await {
        tables.push(change.unwrap().table);
    }
    assert_eq!((tables.len(), tables.iter().filter(|table| *table == "others").count()), (7, 1));
}

#[tokio::test]
async fn a_stream_waits_for_changes_and_survives_errors() {
    let (server, service) = server().await;
    let orders = service.table("orders");
    let missing = orders.changes::<PropertyBag>().stream().next().await.unwrap().unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    orders.create().await.unwrap();
    let order = |row: u32| PropertyBag::new("2031", &format!("{row:04}")).unwrap();
    orders.insert(&order(0)).await.unwrap();
    let end = orders.changes::<PropertyBag>().end().await.unwrap();

    let writer = orders.clone();
    let (go, going) = tokio::sync::oneshot::channel::<()>();
    let writes = tokio::spawn(async move {
        going.await.unwrap();
        for row in 1..=500 {
            writer.insert(&order(row)).await.unwrap();
        }
        writer.delete_table().await.unwrap();
    });
    let mut stream = orders.changes::<PropertyBag>().from(end).stream();
    // Nothing is lost if a wait for the next change is abandoned.
    tokio::time::timeout(Duration::from_millis(30), stream.next()).await.unwrap_err();
    assert_eq!(stream.position(), Some(end));
    go.send(()).unwrap();
    let (mut rows, mut errors, mut failing) = (Vec::new(), 0, 0);
    loop {
        if rows.len() >= failing {
            // Two attempts fail, so the request fails.
            failing += 50;
            server.inject(Fault::status(503).path("Changes").times(2));
            server.inject(Fault::lost_answer().path("Changes").times(2));
        }
        match stream.next().await.unwrap() {
            Ok(change) if change.operation == ChangeOperation::DeleteTable => break,
            Ok(change) => rows.push(change.key.unwrap().row.as_str().parse::<u32>().unwrap()),
            Err(_) => errors += 1,
        }
    }
    assert_eq!(rows, (1..=500).collect::<Vec<_>>());
    assert!(errors > 0);
    writes.await.unwrap();

    // The table no longer exists, but the stream continues.
    server.clear_faults();
    tokio::time::timeout(Duration::from_millis(100), stream.next()).await.unwrap_err();
    orders.create().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().operation, ChangeOperation::CreateTable);
}

#[tokio::test]
async fn a_stream_from_now_has_no_earlier_changes() {
    let (_server, service) = server().await;
    let orders = service.table("orders");
    let position = service.changes().end().await.unwrap();
    orders.create().await.unwrap();
    let mut stream = orders.changes::<PropertyBag>().stream();
    assert!(!stream.has_read());
    // The stream asks for the end of the log first.
    while stream.position().is_none() {
        tokio::time::timeout(Duration::from_millis(50), stream.next()).await.unwrap_err();
    }
    assert!(stream.position() > Some(position));
    orders.insert(&PropertyBag::new("2031", "0001").unwrap()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().operation, ChangeOperation::Put);
}

#[tokio::test]
async fn a_position_advances_while_the_table_does_not_exist() {
    let (server, service) = server().await;
    let (orders, other) = (service.table("orders"), service.table("other"));
    other.create().await.unwrap();
    orders.create().await.unwrap();
    let mut stream = orders.changes::<PropertyBag>().from_start().stream();
    assert_eq!(stream.next().await.unwrap().unwrap().operation, ChangeOperation::CreateTable);
    orders.delete_table().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().operation, ChangeOperation::DeleteTable);
    for row in ["1", "2"] {
        other.insert(&PropertyBag::new("2031", row).unwrap()).await.unwrap();
        let end = service.changes().end().await.unwrap();
        while stream.position() < Some(end) {
            tokio::time::timeout(Duration::from_millis(10), stream.next()).await.unwrap_err();
        }
        // The next change drops everything before it.
        server.clock().advance(2 * HOUR);
    }
    orders.create().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().operation, ChangeOperation::CreateTable);
}

#[tokio::test]
async fn a_dropped_position_is_named() {
    let (server, service) = server().await;
    let orders = service.table("orders");
    orders.create().await.unwrap();
    let start = orders.changes::<PropertyBag>().end().await.unwrap();
    orders.insert(&PropertyBag::new("2031", "0001").unwrap()).await.unwrap();
    server.clock().advance(2 * HOUR);
    orders.insert(&PropertyBag::new("2031", "0002").unwrap()).await.unwrap();
    let mut stream = orders.changes::<PropertyBag>().from(start).stream();
    for _ in 0..2 {
        let error = stream.next().await.unwrap().unwrap_err();
        let Error::PositionExpired { oldest: Some(oldest), .. } = &error else { panic!("{error}") };
        assert!(*oldest > start, "{oldest}");
        assert_eq!((error.kind(), error.status()), (ErrorKind::PositionExpired, Some(410)));
        assert!(error.to_string().contains(&oldest.to_string()), "{error}");
    }
    // The end is known even if nothing is kept.
    let end = orders.changes::<PropertyBag>().end().await.unwrap();
    server.clock().advance(2 * HOUR);
    assert_eq!(orders.changes::<PropertyBag>().end().await.unwrap(), end);
    // A feed without further changes was nevertheless read.
    let mut stream = orders.changes::<PropertyBag>().from(end).until_end().stream();
    assert!(stream.next().await.is_none());
    assert_eq!((stream.has_read(), stream.position()), (true, Some(end)));
    // A position of another log.
    let other = ChangePosition::start_of(4711);
    let error = orders.changes::<PropertyBag>().from(other).stream().next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PositionExpired);
}

#[tokio::test]
async fn an_entity_that_does_not_fit_is_passed_over() {
    let (_server, service) = server().await;
    let customers = service.table("customers");
    customers.create().await.unwrap();
    customers.insert(&customer("Turin", "1", 3)).await.unwrap();
    customers.insert(&PropertyBag::new("Turin", "2").unwrap()).await.unwrap();
    customers.insert(&customer("Turin", "3", 3)).await.unwrap();
    let mut stream = customers.changes::<Customer>().from_start().until_end().stream();
    let mut results = Vec::new();
    while let Some(change) = stream.next().await {
        results.push(change.map(|change| short(&change).1).map_err(|error| error.kind()));
    }
    let (one, three) = (Ok("customers Turin/1".to_owned()), Ok("customers Turin/3".to_owned()));
    assert_eq!(results, [Ok("customers".to_owned()), one, Err(ErrorKind::Entity), three]);
}

#[tokio::test]
async fn entities_are_decrypted() {
    let (_server, service) = server().await;
    let policy = EncryptionPolicy::new(EncryptionMode::AesGcm).key(AesKey::new("key", &[7; 32]).unwrap());
    let staff = service.table("staff").with_encryption(policy.encrypt_where(|_, _, name| name == "Salary"));
    staff.create().await.unwrap();
    let ada = PropertyBag::new("Turin", "7").unwrap().with("Salary", 70_000_i64).unwrap();
    staff.insert(&ada).await.unwrap();
    let mut stream = staff.changes::<PropertyBag>().from_start().stream();
    stream.next().await.unwrap().unwrap();
    let change = stream.next().await.unwrap().unwrap();
    assert_eq!(change.entity.unwrap().get::<i64>("Salary").unwrap(), 70_000);
    let plain = service.table("staff");
    let mut stream =
        plain.changes::<PropertyBag>().from(change.position).from_start().filter_text("Operation eq 'Put'").stream();
    let stored = stream.next().await.unwrap().unwrap().entity.unwrap();
    assert!(stored.get::<i64>("Salary").is_err());
}

#[tokio::test]
async fn an_entity_with_the_most_properties_arrives() {
    let (_server, service) = server().await;
    let wide = service.table("wide");
    wide.create().await.unwrap();
    let names = (0..252).map(|number| format!("{}{number:03}", "n".repeat(252)));
    let bag = names.fold(PropertyBag::new("p", "r").unwrap(), |bag, name| bag.with(&name, 1).unwrap());
    wide.insert(&bag).await.unwrap();
    let mut stream = wide.changes::<PropertyBag>().from_start().stream();
    stream.next().await.unwrap().unwrap();
    let entity = stream.next().await.unwrap().unwrap().entity.unwrap().entity;
    assert_eq!(entity.properties, bag.properties);
}

#[tokio::test]
async fn a_service_without_a_change_feed_refuses() {
    let server = TestServer::start().await.unwrap();
    let service = TableService::from_connection_string(&server.connection_string()).unwrap();
    service.table("orders").create().await.unwrap();
    for start in [true, false] {
        let changes = service.table("orders").changes::<PropertyBag>();
        let mut stream = if start { changes.from_start() } else { changes }.stream();
        let error = stream.next().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
}
