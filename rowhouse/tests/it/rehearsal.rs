//! Tests of `--rehearse` on the built server: how it is requested, and that a program gets the same results with all
//! conditions. `server/tests` and `testing/tests` test what each condition does.

use crate::PROGRAM;
use client::{Error, IfMatch, PropertyBag, RetryPolicy, Table, TableService, Transaction};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};
use test_support::{Client, KEY, Random, Server, TIMEOUT, eventually};

const REHEARSALS: usize = 12;
/// Every condition, with times that a test can wait for, and responses that are lost far more often than in the cloud.
/// A refusal costs the client a second, because the server tells it to wait that long.
const CONDITIONS: &str =
    "all,busy=1%,lost-answers=30%,latency=0ms..3ms,creation=300ms,deletion=300ms,partition-pages=60%,empty-pages=60%";

type Model = BTreeMap<(String, String), i32>;

/// The filter of a query, as text and as a predicate.
type FilterCase = (&'static str, fn(&str, &str, i32) -> bool);

fn rehearsing(list: &str) -> (Server, Client) {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--rehearse", list]);
    let client = server.client();
    (server, client)
}

#[test]
fn the_log_names_the_conditions_and_a_seed_that_repeats_them() {
    let (server, mut client) = rehearsing("busy=50%,empty-pages");
    let line = server.wait_for_log("rehearsing");
    assert!(line.contains("WARN") && line.contains("empty-pages=50%,busy=50%, seed="), "{line}");
    let seed = line.split("seed=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let statuses = |client: &mut Client| -> Vec<u16> {
        (0..40).map(|_| client.request("GET", "/Tables", &[], b"").status).collect()
    };
    let first = statuses(&mut client);
    assert!(first.contains(&200) && first.contains(&503), "{first:?}");
    // Additional conditions do not change the decisions for this condition.
    let (_server, mut client) = rehearsing(&format!("seed={seed},busy=50%,lost-answers"));
    assert_eq!(statuses(&mut client), first);
    let (_server, mut client) = rehearsing(&format!("seed={seed}1,busy=50%"));
    assert_ne!(statuses(&mut client), first);
}

#[test]
fn environment_and_file_ask_for_it_as_the_option_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rowhouse.toml");
    std::fs::write(&file, "rehearse = \"busy=100%\"\n").unwrap();
    let by_file = ["--in-memory", "--config", file.to_str().unwrap()];
    let by_environment = |command: &mut Command| {
        command.env("ROWHOUSE_REHEARSE", "busy=100%");
    };
    for server in [PROGRAM.start(&by_file), PROGRAM.start_with(&["--in-memory"], by_environment)] {
        assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 503);
    }
    let off = PROGRAM.start(&[&by_file[..], &["--rehearse", "off"]].concat());
    assert_eq!(off.client().request("GET", "/Tables", &[], b"").status, 200);
    let (_, log) = off.stop();
    assert!(!log.iter().any(|line| line.contains("rehearsing")), "{log:?}");
}

#[test]
fn a_list_that_is_not_one_ends_the_start_with_what_to_give() {
    for (list, part) in [
        ("rain", "there is no condition \"rain\": give all, off, or some of partition-pages, empty-pages,"),
        ("", "there is no condition"),
        ("busy=5", "\"5\" is not a valid value for busy: give a share from 0% to 100%"),
        ("deletion=2h", "give a time up to an hour"),
        ("seed=often", "give a whole number"),
        ("busy,busy", "busy is given twice"),
    ] {
        let ran = PROGRAM.serve(&["--in-memory", "--listen", "127.0.0.1:0", "--rehearse", list]).output().unwrap();
        let errors = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success() && errors.contains("--rehearse") && errors.contains(part), "{list}: {errors}");
    }
}

#[test]
fn targets_are_those_of_throttling() {
    let server = PROGRAM.start(&["--in-memory", "--rehearse", "targets", "--account-entities-per-second", "1"]);
    let mut client = server.client();
    let busy = eventually("a request beyond the target", || {
        Some(client.request("GET", "/Tables", &[], b"")).filter(|answer| answer.status == 503)
    });
    assert!(String::from_utf8(busy.body).unwrap().contains("over the account limit"));
}

#[test]
fn every_request_is_late_and_the_admin_listener_is_not() {
    let (server, mut client) = rehearsing("latency=1s");
    let began = Instant::now();
    // The latency does not count toward the time limit of a query.
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
    assert!(began.elapsed() >= Duration::from_secs(1));
    let mut admin = Client::connect(&server.admin).unwrap();
    let began = Instant::now();
    let quick = eventually("a response without the latency", || {
        let began = Instant::now();
        admin.send(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        admin.receive().unwrap();
        Some(began.elapsed()).filter(|elapsed| *elapsed < Duration::from_secs(1))
    });
    assert!(quick <= began.elapsed());
}

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
