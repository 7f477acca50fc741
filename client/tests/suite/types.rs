//! Every EDM type: written, read and found by a filter.

use crate::support::{Customer, new_table};
use rowhouse_client::{
    BulkReport, BulkWriter, ConnectionString, Continuation, Credential, DateTime, EdmType, Endpoint, EndpointError,
    Entity, EntityError, Error, Filter, Guid, IfMatch, MalformedContinuation, Page, Pages, Properties, PropertyBag,
    Query, Results, RetryPolicy, Stored, Table, TableService, TableServiceBuilder, Transaction, Written,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(rename_all = "PascalCase")]
struct Everything {
    #[entity(partition_key)]
    partition: String,
    #[entity(row_key, inverted)]
    number: u32,
    text: String,
    bytes: Vec<u8>,
    yes: bool,
    when: DateTime,
    part: f64,
    id: Guid,
    small: i32,
    large: i64,
    short: i16,
    count: u32,
    share: f32,
    none: Option<i64>,
    #[entity(json)]
    list: Vec<u8>,
    #[entity(rest)]
    rest: Properties,
}

fn everything() -> Everything {
    Everything {
        partition: "it's".to_owned(),
        number: 7,
        text: "line\r\n\"it's\" \u{1F600} <&>".to_owned(),
        bytes: vec![0, 255, 7],
        yes: true,
        when: DateTime::parse("2031-04-01T06:30:00.1234567Z").unwrap(),
        part: 5.0,
        id: Guid::parse("0b0c0d0e-1111-4222-8333-444455556666").unwrap(),
        small: i32::MIN,
        large: i64::MIN,
        short: i16::MIN,
        count: u32::MAX,
        share: 0.1,
        none: None,
        list: vec![1, 2],
        rest: Properties::default(),
    }
}

#[tokio::test]
async fn values_of_every_type_are_found_by_what_they_are() {
    let (_account, table) = new_table().await;
    let entity = everything();
    table.insert(&entity).await.unwrap();
    assert_eq!(table.query::<Everything>().collect().await.unwrap()[0].entity, entity);

    let bag = &table.query::<PropertyBag>().collect().await.unwrap()[0];
    let types: Vec<_> = bag.properties.iter().map(|(name, value)| (name, value.edm_type())).collect();
    for (name, expected) in [
        ("Text", EdmType::String),
        ("Bytes", EdmType::Binary),
        ("Yes", EdmType::Boolean),
        ("When", EdmType::DateTime),
        ("Part", EdmType::Double),
        ("Id", EdmType::Guid),
        ("Small", EdmType::Int32),
        ("Large", EdmType::Int64),
        ("Short", EdmType::Int32),
        ("Count", EdmType::Int64),
        ("Share", EdmType::Double),
        ("List", EdmType::String),
    ] {
        assert!(types.contains(&(name, expected)), "{name} in {types:?}");
    }
    assert_eq!(types.len(), 12, "neither keys nor None values are properties: {types:?}");
    assert_eq!(bag.key.row.as_str(), "4294967288");

    let p = Everything::PROPERTIES;
    let e = entity;
    for filter in [
        p.text.eq(e.text.as_str()),
        p.bytes.eq(e.bytes.as_slice()),
        p.yes.is_true(),
        p.yes.eq(true),
        p.when.eq(e.when),
        p.part.eq(5),
        p.part.gt(4.5) & p.part.lt(5.5),
        p.id.eq(e.id),
        p.small.eq(i32::MIN),
        p.large.eq(i64::MIN),
        p.short.lt(0).and(p.short.eq(i16::MIN)),
        p.count.ge(7).and(p.count.eq(u32::MAX)),
        p.share.gt(0.05).and(p.share.eq(0.1)),
        p.small.gt(0).or(p.large.gt(0).not()),
        p.number.eq(7),
        p.number.gt(6) & p.number.lt(8),
        p.partition.eq("it's"),
    ] {
        let found = table.query::<Everything>().and(filter.clone()).collect().await.unwrap();
        assert_eq!(found.len(), 1, "{filter}");
        let found = table.query::<Everything>().and(!filter.clone()).collect().await.unwrap();
        assert_eq!(found.len(), 0, "not {filter}");
    }
}

#[tokio::test]
async fn properties_that_the_type_does_not_know_survive_a_replace() {
    let (_account, table) = new_table().await;
    let mut bag = everything().to_bag().unwrap();
    bag.set("Later", "added by a newer program").unwrap();
    table.insert(&bag).await.unwrap();
    let mut known = table.query::<Everything>().collect().await.unwrap().remove(0);
    known.small = 5;
    table.replace(&known, &known).await.unwrap();
    let bag = &table.query::<PropertyBag>().collect().await.unwrap()[0];
    assert_eq!(bag.get::<String>("Later").unwrap(), "added by a newer program");
    assert_eq!(bag.get::<i32>("Small").unwrap(), 5);
    table.delete(bag.key.partition.as_str(), bag.key.row.as_str(), IfMatch::Any).await.unwrap();
}

fn is_sent<T: Send + 'static>(_: T) {}
fn is_shared<T: Send + Sync + 'static>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_cloned_and_shown<T: Clone + std::fmt::Debug>() {}
fn is_moved<T: Send + Unpin + 'static>() {}

/// Every future can be spawned on a multi-threaded runtime.
fn futures_are_sent(table: &'static Table, service: &'static TableService, bag: &'static PropertyBag) {
    is_sent(table.create_if_missing());
    is_sent(table.insert(bag));
    is_sent(table.insert_with_echo(bag));
    is_sent(table.get::<PropertyBag>("p", "r"));
    is_sent(table.find::<Customer>("p", "r"));
    is_sent(table.replace(bag, IfMatch::Any));
    is_sent(table.delete("p", "r", IfMatch::Any));
    is_sent(table.update::<PropertyBag>("p", "r", |_| Ok(())));
    is_sent(table.commit(Transaction::new().insert(bag)));
    is_sent(table.policies());
    is_sent(table.query::<Customer>().filter(|c| c.visits.gt(5)).select(|c| c.id).collect());
    is_sent(table.query::<Customer>().first());
    is_sent(table.query::<Customer>().count());
    is_sent(table.query::<Customer>().scan().count());
    is_sent(table.query::<Customer>().delete_matching());
    is_sent(service.tables().all());
    is_sent(service.properties());
    is_sent(async {
        let mut bulk = table.bulk();
        bulk.insert(bag).await?;
        let mut all = table.query::<Customer>().stream();
        while let Some(one) = all.next().await {
            drop(one?);
        }
        Ok::<_, Error>(bulk.finish().await)
    });
}

#[test]
fn values_can_be_sent_shared_and_shown() {
    let _ = futures_are_sent;
    is_shared::<TableService>();
    is_shared::<TableServiceBuilder>();
    is_shared::<Table>();
    is_shared::<Query<Customer>>();
    is_shared::<Filter<Customer>>();
    is_shared::<Transaction>();
    is_moved::<Pages<Stored<Customer>>>();
    is_moved::<Results<Stored<Customer>>>();
    is_moved::<BulkWriter>();
    is_error::<Error>();
    is_error::<EntityError>();
    is_error::<EndpointError>();
    is_error::<MalformedContinuation>();
    is_cloned_and_shown::<TableService>();
    is_cloned_and_shown::<Table>();
    is_cloned_and_shown::<Transaction>();
    is_cloned_and_shown::<Filter<Customer>>();
    is_cloned_and_shown::<RetryPolicy>();
    is_cloned_and_shown::<Credential>();
    is_cloned_and_shown::<ConnectionString>();
    is_cloned_and_shown::<Endpoint>();
    is_cloned_and_shown::<Continuation>();
    is_cloned_and_shown::<Page<Customer>>();
    is_cloned_and_shown::<Written>();
    is_cloned_and_shown::<BulkReport>();
}
