use crate::support::*;
use engine::{Engine, EngineExt, EntitySink, SinkDecision, TableKey};
use model::{EntityView, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const MEMBERS: usize = 20;

async fn with_table(engine: &dyn Engine) -> TableKey {
    let table = table("Entities");
    engine.create_table(&table).await.unwrap();
    table
}

fn set_all(partition: &str, value: i64) -> Transaction {
    Transaction::new((0..MEMBERS).map(|n| upsert(partition, &format!("{n:02}"), value)).collect()).unwrap()
}

/// Starts writers that continue until `done` is set. When this returns, each of them has committed a transaction: on a
/// busy machine, a task may start only after others have read everything.
async fn writers(engine: &Arc<dyn Engine>, table: &TableKey, done: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let (engine, table, done) = (Arc::clone(engine), table.clone(), Arc::clone(done));
        let (begin, begun) = oneshot::channel();
        tasks.push(tokio::spawn(async move {
            let mut begin = Some(begin);
            for value in 1.. {
                engine.commit(&table, set_all(&writer.to_string(), value)).await.unwrap();
                if let Some(begin) = begin.take() {
                    begin.send(()).unwrap();
                }
                if done.load(Ordering::SeqCst) {
                    return;
                }
            }
        }));
        begun.await.expect("the writer has committed a transaction");
    }
    tasks
}

pub async fn a_page_never_shows_part_of_a_transaction(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    for partition in 0..4 {
        engine.commit(&table, set_all(&partition.to_string(), 0)).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let writers = writers(&engine, &table, &done).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        readers.push(tokio::spawn(async move {
            for _ in 0..100 {
                let entities = all(&*engine, &table).await;
                assert_eq!(entities.len(), 4 * MEMBERS);
                for members in entities.chunks(MEMBERS) {
                    let values: BTreeSet<i64> = members.iter().map(|entity| value(&entity.record)).collect();
                    assert_eq!(values.len(), 1, "a page shows part of a transaction");
                }
            }
        }));
    }
    for reader in readers {
        reader.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
}

pub async fn a_get_never_goes_back(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    for partition in 0..4 {
        engine.commit(&table, set_all(&partition.to_string(), 0)).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let writers = writers(&engine, &table, &done).await;
    let mut last = 0;
    for _ in 0..500 {
        // Read in both directions, so that a partial transaction is detected whichever entity becomes visible first.
        for member in ["00", "19", "10", "00"] {
            let record = engine.get(&table, &key("1", member)).await.unwrap().unwrap();
            assert!(value(&record) >= last, "an entity shows an older transaction than an entity read earlier");
            last = value(&record);
        }
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
}

/// A sink that changes the table when it receives the first entity, and waits until the change is done.
struct ChangesTable {
    engine: Arc<dyn Engine>,
    table: TableKey,
    kept: CollectingSink,
}

impl EntitySink for ChangesTable {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        if self.kept.entities.is_empty() {
            let (engine, table) = (Arc::clone(&self.engine), self.table.clone());
            // Do not wait for the commit: an engine may make writers wait for readers.
            tokio::spawn(async move { engine.commit(&table, set_all("p", 2)).await.unwrap() });
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        self.kept.entity(entity)
    }
}

pub async fn a_page_is_one_snapshot(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    engine.commit(&table, set_all("p", 1)).await.unwrap();
    let sink = ChangesTable { engine: Arc::clone(&engine), table: table.clone(), kept: CollectingSink::default() };
    let (sink, _) = engine.scan(&table, scan_all(), sink).await.unwrap();
    let values: Vec<i64> = sink.kept.entities.iter().map(|entity| value(&entity.record)).collect();
    assert_eq!(values, vec![1; MEMBERS]);
}

pub async fn what_was_acknowledged_is_seen_at_once(engine: Arc<dyn Engine>, _: ManualClock) {
    let table = with_table(&*engine).await;
    let mut tasks = Vec::new();
    for task in 0..8 {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tasks.push(tokio::spawn(async move {
            let partition = task.to_string();
            for n in 0..25 {
                let mutation = if n % 5 == 4 { delete(&partition, "r") } else { upsert(&partition, "r", n) };
                let is_there = n % 5 != 4;
                commit_one(&*engine, &table, mutation).await.unwrap();
                let record = engine.get(&table, &key(&partition, "r")).await.unwrap();
                assert_eq!(record.map(|record| value(&record)), is_there.then_some(n));
                let seen = all(&*engine, &table).await;
                let mine = seen.iter().find(|entity| entity.key.partition.as_str() == partition);
                assert_eq!(mine.map(|entity| value(&entity.record)), is_there.then_some(n));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
