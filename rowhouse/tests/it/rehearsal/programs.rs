//! A test that a correct program gets the same results, whatever conditions are rehearsed: random tables, writes and
//! queries through the client library, with every condition enabled, over many seeds.

use super::*;
use client::{Error, IfMatch, PropertyBag, RetryPolicy, Table, TableService, Transaction};
use std::collections::BTreeMap;
use std::time::Duration;
use test_support::{KEY, Random, TIMEOUT};

const REHEARSALS: usize = 12;
/// Every condition, with times that a test can wait for, and responses that are lost far more often than in the cloud.
/// A refusal costs the client a second, because the server tells it to wait that long.
const CONDITIONS: &str =
    "all,busy=1%,lost-answers=30%,latency=0ms..3ms,deletion=300ms,partition-pages=60%,empty-pages=60%";

type Model = BTreeMap<(String, String), i32>;

/// The filter of a query, as text and as a predicate.
type FilterCase = (&'static str, fn(&str, &str, i32) -> bool);

fn questions() -> [FilterCase; 8] {
    [
        ("", |_, _, _| true),
        ("Rank ge 5", |_, _, rank| rank >= 5),
        ("Rank lt 0", |_, _, _| false),
        ("PartitionKey eq 'p2'", |partition, _, _| partition == "p2"),
        ("PartitionKey eq 'p1' and RowKey eq 'r3'", |partition, row, _| (partition, row) == ("p1", "r3")),
        ("PartitionKey gt 'p1' and Rank lt 5", |partition, _, rank| partition > "p1" && rank < 5),
        (
            "(PartitionKey eq 'p0' and RowKey ge 'r4') or (PartitionKey eq 'p3' and RowKey lt 'r5')",
            |partition, row, _| (partition == "p0" && row >= "r4") || (partition == "p3" && row < "r5"),
        ),
        ("RowKey ge 'r7'", |_, row, _| row >= "r7"),
    ]
}

fn tree(partition: &str, row: &str, rank: i32) -> PropertyBag {
    PropertyBag::new(partition, row).unwrap().with("Rank", rank).unwrap()
}

fn service(server: &Server) -> TableService {
    let text = format!(
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};TableEndpoint=http://{}/devstoreaccount1;",
        server.address
    );
    let retry = RetryPolicy::exponential().attempts(20).pauses(Duration::from_millis(1), Duration::from_millis(50));
    TableService::builder_from_connection_string(&text).unwrap().retry(retry).build().unwrap()
}

/// Inserts an entity, and determines whether a lost response was the response to its own insert.
async fn insert_once(table: &Table, partition: &str, row: &str, rank: i32) -> bool {
    match table.insert(&tree(partition, row, rank)).await {
        Ok(_) => true,
        Err(error) if error.code() == Some("EntityAlreadyExists") => false,
        Err(Error::Unreachable { .. }) => {
            let stored = table.get::<PropertyBag>(partition, row).await.unwrap();
            assert_eq!(
                stored.entity.get::<i32>("Rank").unwrap(),
                rank,
                "the write must have completed before its response was lost"
            );
            true
        }
        Err(error) => panic!("{error}"),
    }
}

/// Deletes a table. A lost response belonged to a completed deletion, which the library does not retry.
async fn delete_once(table: &Table) {
    match table.delete_table().await {
        Ok(()) => {}
        Err(Error::Unreachable { .. }) => assert!(!table.delete_table_if_exists().await.unwrap()),
        Err(error) => panic!("{error}"),
    }
}

async fn write(table: &Table, model: &mut Model, random: &mut Random, number: i32) {
    let (partition, row) = (format!("p{}", random.below(4)), format!("r{}", random.below(10)));
    let rank = i32::try_from(random.below(10)).unwrap();
    let key = (partition.clone(), row.clone());
    match random.below(5) {
        0 => {
            // A unique rank identifies the insert.
            let is_new = insert_once(table, &partition, &row, number).await;
            assert_eq!(is_new, !model.contains_key(&key), "{key:?}");
            model.entry(key).or_insert(number);
        }
        1 => {
            // After a lost response, it is not known whether the entity existed.
            table.delete_if_exists(&partition, &row, IfMatch::Any).await.unwrap();
            model.remove(&key);
        }
        2 => {
            let mut transaction = Transaction::new();
            for row in 0..5 {
                let row = format!("r{row}");
                transaction = transaction.insert_or_replace(&tree(&partition, &row, rank));
                model.insert((partition.clone(), row), rank);
            }
            table.commit(transaction).await.unwrap();
        }
        _ => {
            table.insert_or_replace(&tree(&partition, &row, rank)).await.unwrap();
            model.insert(key, rank);
        }
    }
}

async fn ask(table: &Table, model: &Model, random: &mut Random) {
    for (text, decide) in questions() {
        let expected: Vec<_> = model
            .iter()
            .filter(|((partition, row), rank)| decide(partition, row, **rank))
            .map(|(key, _)| key.clone())
            .collect();
        let size = [1000, 7, 2, 1][random.index(4)];
        let query = table.query::<PropertyBag>().page_size(size);
        let query = if text.is_empty() { query } else { query.filter_text(text) };
        let found = query.collect().await.unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.entity.key.partition.as_str().to_owned(), found.entity.key.row.as_str().to_owned()))
            .collect();
        assert_eq!(found, expected, "{text:?} in pages of {size}");
    }
}

async fn rehearse(seed: u64) {
    let (server, _) = rehearsing(&format!("{CONDITIONS},seed={seed}"));
    let (service, mut random) = (service(&server), Random::new(seed));
    let (table, mut model) = (service.table("harvest"), Model::new());
    table.create_if_missing().await.unwrap();
    ask(&table, &model, &mut random).await;
    for number in 100..125 {
        write(&table, &mut model, &mut random, number).await;
    }
    ask(&table, &model, &mut random).await;
    service.table("other").create_if_missing().await.unwrap();
    assert_eq!(service.tables().all().await.unwrap(), ["harvest", "other"]);
    // The table is created again, empty, once its name is free.
    delete_once(&table).await;
    table.create_if_missing().await.unwrap();
    ask(&table, &Model::new(), &mut random).await;
}

#[test]
fn a_correct_program_comes_to_the_same_results() {
    let mut random = Random::from_environment("ROWHOUSE_REHEARSAL_SEED");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let running: Vec<_> = (0..REHEARSALS).map(|_| runtime.spawn(rehearse(random.number() >> 12))).collect();
    for rehearsal in running {
        // An endless sequence of pages is a failure, too.
        runtime
            .block_on(async { tokio::time::timeout(5 * TIMEOUT, rehearsal).await })
            .expect("the rehearsal must end")
            .unwrap();
    }
}
