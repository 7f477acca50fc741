//! Tests that pages over the partitions of a Citus cluster equal the pages of the in-memory engine, however the pages
//! are read and wherever the shards are.

use engine::{Engine, EngineExt, Fault, Memory, ReadError, Scan, ScanEnd, TableKey};
use engine_contract::support::*;
use engine_postgres::{Postgres, PostgresOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use model::filter::{Comparison, Literal, Operator, PropertyName};
use model::limits::STORE_STATEMENT_SECONDS_MAX;
use model::{Filter, KeyRange, Transaction};
use rowhouse_engine_citus::{Balance, open as open_database};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::CitusCluster;

const MOVES_MIN: u32 = 12;
const PAGES_MIN: u32 = 400;

type TestEngine = Postgres;

async fn open(url: String) -> TestEngine {
    let options = PostgresOptions::new(url, 16);
    open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap()
}

/// Keys have several lengths, and some are prefixes of others.
fn random_partition_key(random: &mut Random) -> String {
    let bits = 4 + random.index(24);
    format!("{:x}", random.below(1 << bits))
}

/// Returns the transactions that fill the table: many small partitions, several large ones, and values that filters can
/// select.
fn transactions(random: &mut Random) -> Vec<Transaction> {
    let mut partitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for n in 0..1500 {
        let rows = if n % 300 == 0 { 400 } else { 1 + random.index(3) };
        let rows = (0..rows).map(|row| format!("{:03}", row * (1 + random.index(2)))).collect();
        partitions.insert(random_partition_key(random), rows);
    }
    let mut transactions = Vec::new();
    for (partition, mut rows) in partitions {
        rows.sort();
        rows.dedup();
        for rows in rows.chunks(100) {
            let of = |row: &String| upsert(&partition, row, i64::try_from(random.below(20)).unwrap());
            transactions.push(Transaction::new(rows.iter().map(of).collect()).unwrap());
        }
    }
    transactions
}

fn bound(random: &mut Random) -> Bound<String> {
    let text = random_partition_key(random);
    match random.index(5) {
        0 | 1 => Bound::Unbounded,
        2 => Bound::Excluded(text),
        _ => Bound::Included(text),
    }
}

fn random_scan(random: &mut Random) -> Scan {
    let (from, to) = (bound(random), bound(random));
    let mut ranges = match random.index(4) {
        0 => vec![KeyRange::all()],
        _ => vec![KeyRange::partitions(from.as_ref().map(String::as_str), to.as_ref().map(String::as_str))],
    };
    if random.index(4) == 0 {
        let row = KeyRange::rows("7", Bound::Unbounded, Bound::Included("002"));
        ranges = vec![row, KeyRange::partitions(Bound::Included("8"), to.as_ref().map(String::as_str))];
    }
    let filter = (random.index(3) == 0).then(|| {
        Filter::Compare(Comparison {
            property: PropertyName::Custom("value".into()),
            operator: Operator::LessThan,
            literal: Literal::Int64(i64::try_from(random.below(12)).unwrap()),
        })
    });
    let limit = [0, 1, 7, 100, 1000][random.index(5)];
    let bytes_expected = [usize::MAX, 20_000][random.index(2)];
    Scan { ranges, filter, limit, bytes_expected, ..scan_all() }
}

/// Returns the number of pages compared.
async fn compare(engine: &TestEngine, memory: &Memory, table: &TableKey, mut scan: Scan) -> u32 {
    for count in 1.. {
        scan.deadline = Instant::now() + TIMEOUT;
        let question = scan.clone();
        let look = async |(entities, end): (Vec<model::Entity>, ScanEnd)| {
            let entities = entities.iter().map(|entity| (entity.key.clone(), value(&entity.record)));
            (entities.collect::<Vec<_>>(), end)
        };
        let expected = look(page(memory, table, scan.clone()).await).await;
        let found = look(page(engine, table, scan.clone()).await).await;
        assert_eq!(found, expected, "{question:?}");
        scan.from = found.1.next;
        if scan.from.is_none() || count == 5 {
            return count;
        }
    }
    unreachable!("the last page was returned")
}

fn move_shards(cluster: &CitusCluster, database: &str, done: &AtomicBool, moves: &AtomicU32) {
    while !done.load(Ordering::SeqCst) {
        let number = moves.load(Ordering::SeqCst);
        let sql = format!(
            "SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport, 'block_writes') \
             FROM (SELECT * FROM citus_shards WHERE table_name = 'rowhouse_entities'::regclass \
             ORDER BY hashint8(shardid + {number}) LIMIT 1) s JOIN pg_dist_node n \
             ON n.shouldhaveshards AND (n.nodename, n.nodeport) <> (s.nodename, s.nodeport)"
        );
        cluster.sql(0, database, &sql);
        // A moved shard is removed from its old location, either immediately or later.
        if number.is_multiple_of(2) {
            cluster.sql(0, database, "CALL citus_cleanup_orphaned_resources()");
        }
        moves.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_those_of_the_engine_in_memory_while_shards_move() {
    let Some(cluster) = CitusCluster::shared() else { return };
    let mut random = Random::from_environment(SEED);
    let database = cluster.database();
    let table = table("Pages");
    let options = PostgresOptions { distribute: true, ..PostgresOptions::new(cluster.workers(&database), 16) };
    let engine = open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap();
    let memory = Memory::new(ManualClock::at(START_TICKS));
    engine.create_table(&table).await.unwrap();
    memory.create_table(&table).await.unwrap();
    // Add neighbouring tables, so that a range that is too wide is detected.
    let (before, after) = (table_of(ACCOUNT, "Before"), table_of(ACCOUNT, "After"));
    for (table, key) in [(&before, "ffffff"), (&after, "0")] {
        engine.create_table(table).await.unwrap();
        fill(&engine, table, key, &["1".to_owned()]).await;
    }
    for transaction in transactions(&mut random) {
        memory.commit(&table, transaction.clone()).await.unwrap();
        engine.commit(&table, transaction).await.unwrap();
    }
    // One engine connects only to the coordinator, and one only to a single worker. Their pages are read through Citus.
    let others = [open(cluster.coordinator(&database)).await, open(cluster.url_of_several(&[1], &database)).await];
    for _ in 0..20 {
        for engine in [&engine, &others[0], &others[1]] {
            compare(engine, &memory, &table, random_scan(&mut random)).await;
        }
    }
    let (done, moves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mover = thread::spawn({
        let (database, done, moves) = (database.clone(), Arc::clone(&done), Arc::clone(&moves));
        move || move_shards(cluster, &database, &done, &moves)
    });
    let mut pages = 0;
    while pages < PAGES_MIN || moves.load(Ordering::SeqCst) < MOVES_MIN {
        assert!(!mover.is_finished(), "shards are no longer being moved");
        // Entities written after a shard was moved are not in the shard's old location.
        for _ in 0..10 {
            let written =
                upsert(&random_partition_key(&mut random), &format!("{:03}", random.below(4)), i64::from(pages % 20));
            for committed in
                [commit_one(&memory, &table, written.clone()).await, commit_one(&engine, &table, written).await]
            {
                committed.unwrap();
            }
        }
        let asked = random_scan(&mut random);
        let (first, second) = (random_scan(&mut random), random_scan(&mut random));
        let counts = tokio::join!(
            compare(&engine, &memory, &table, asked),
            compare(&engine, &memory, &table, first),
            compare(&engine, &memory, &table, second),
        );
        pages += counts.0 + counts.1 + counts.2;
    }
    done.store(true, Ordering::SeqCst);
    mover.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_partitions_elsewhere_go_on_while_a_node_is_silent() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let database = cluster.database();
    let table = table("Silent");
    let options = PostgresOptions { distribute: true, ..PostgresOptions::new(cluster.workers(&database), 16) };
    let engine = open_database(&options, Balance::Off, ManualClock::at(START_TICKS)).await.unwrap();
    engine.create_table(&table).await.unwrap();
    let partitions = (0..40).map(|n| n.to_string()).collect::<Vec<_>>();
    for partition in &partitions {
        fill(&engine, &table, partition, &["1".to_owned()]).await;
    }
    assert_eq!(all(&engine, &table).await.len(), 40);
    let rows = |partition: &String| Scan {
        ranges: vec![KeyRange::rows(partition, Bound::Unbounded, Bound::Unbounded)],
        ..scan_all()
    };
    let frozen = cluster.freeze(2);
    let silent = engine.scan(&table, scan_all(), CollectingSink::default()).await;
    assert!(matches!(silent, Err(ReadError::Fault(Fault::Unavailable(_)))));
    // By now, the node is known to be unresponsive, so it is not asked for data that the other node has.
    let asked = partitions.iter().map(|partition| engine.scan(&table, rows(partition), CollectingSink::default()));
    let began = Instant::now();
    let mut answers = asked.collect::<FuturesUnordered<_>>();
    for _ in 0..8 {
        let (kept, _) = answers.next().await.unwrap().unwrap();
        assert_eq!(kept.entities.len(), 1);
    }
    // A request to the unresponsive node would take longer.
    let statement_time_max = Duration::from_secs(STORE_STATEMENT_SECONDS_MAX);
    assert!(began.elapsed() < statement_time_max, "{:?}", began.elapsed());
    drop(answers);
    drop(frozen);
    while engine.figures().database.unwrap().nodes.iter().any(|node| !node.is_up) {
        assert!(began.elapsed() < TIMEOUT, "the node does not respond again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(all(&engine, &table).await.len(), 40);
}
