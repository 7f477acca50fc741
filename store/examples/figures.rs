//! Measures the embedded engine without a server: `cargo run --release --example figures -- FOLDER [ENTITIES]`.
//!
//! A missing folder is filled and measured; a second run on the same folder measures a restart, and deletes the
//! table at its end. Figures depend on the machine and are compared within one run.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::unwrap_used, reason = "a tool for developers")]

use model::clock::SystemClock;
use model::{AccountName, EdmValue, EntityKey, EntityView, KeyRange, KeyText, Mutation};
use model::{RecordBuilder, TableName, Transaction};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::{Cancellation, Embedded, EmbeddedOptions, Engine, EntitySink, Scan, TableKey};

const BATCH: usize = 100;

struct Counter(usize);

impl EntitySink for Counter {
    fn entity(&mut self, entity: &EntityView<'_>) -> ControlFlow<()> {
        self.0 += black_box(entity.record.len()).min(1);
        ControlFlow::Continue(())
    }
}

fn table() -> TableKey {
    TableKey { account: AccountName::new("figures").unwrap(), name: TableName::new("Entities").unwrap() }
}

fn key(number: usize) -> EntityKey {
    let text = |text: String| KeyText::new(&text).unwrap();
    EntityKey { partition: text(format!("p{:06}", number / 10_000)), row: text(format!("{number:010}")) }
}

/// Ten properties that do not compress well, about 1 KiB.
fn properties(seed: usize) -> RecordBuilder {
    let mut state = seed as u64 + 1;
    let mut builder = RecordBuilder::with_capacity(1100);
    for property in 0..10 {
        let text: String = (0..90)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + u8::try_from((state >> 33) % 94).unwrap())
            })
            .collect();
        builder.push(&format!("property{property}"), EdmValue::String(&text));
    }
    builder
}

fn upsert(number: usize) -> Mutation {
    Mutation::InsertOrReplace { key: key(number), properties: properties(number) }
}

fn merge(number: usize) -> Mutation {
    let mut properties = RecordBuilder::default();
    properties.push("property3", EdmValue::String("changed"));
    Mutation::InsertOrMerge { key: key(number), properties }
}

/// Processor time of this process so far, user and system.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|t| t.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() / 256
}

fn report(what: &str, count: usize, wall: Duration, cpu: Duration) {
    let per_second = count as f64 / wall.as_secs_f64();
    let micros = cpu.as_secs_f64() * 1e6 / count as f64;
    println!("{what:<44} {per_second:>12.0} /s {micros:>9.2} µs CPU each   {:>6.2} s", wall.as_secs_f64());
}

async fn tasks(engine: &Arc<Embedded>, what: &str, concurrency: usize, count: usize, work: fn(usize) -> Vec<Mutation>) {
    let next = Arc::new(AtomicUsize::new(0));
    let (began, cpu_began) = (Instant::now(), cpu());
    let mut running = Vec::new();
    for _ in 0..concurrency {
        let (engine, next) = (Arc::clone(engine), Arc::clone(&next));
        running.push(tokio::spawn(async move {
            let table = table();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                engine.commit(&table, Transaction::new(work(number)).unwrap()).await.unwrap();
            }
        }));
    }
    for task in running {
        task.await.unwrap();
    }
    let per_transaction = work(0).len();
    report(what, count * per_transaction, began.elapsed(), cpu().saturating_sub(cpu_began));
}

async fn scan_all(engine: &Embedded, what: &str) {
    let (began, cpu_began, mut seen, mut from) = (Instant::now(), cpu(), 0, None);
    loop {
        let scan = Scan {
            ranges: vec![KeyRange::all()],
            from,
            filter: None,
            limit: 1000,
            byte_budget: 4 * 1024 * 1024,
            deadline: Instant::now() + Duration::from_secs(30),
            cancellation: Cancellation::default(),
        };
        let (sink, end) = engine.scan(&table(), scan, Counter(0)).await.unwrap();
        seen += sink.0;
        from = end.next;
        if from.is_none() {
            break;
        }
    }
    report(what, seen, began.elapsed(), cpu().saturating_sub(cpu_began));
}

async fn gets(engine: &Embedded, what: &str, keys: impl Iterator<Item = usize>) {
    let keys: Vec<EntityKey> = keys.map(key).collect();
    let (began, cpu_began) = (Instant::now(), cpu());
    for key in &keys {
        black_box(engine.get(&table(), key).await.unwrap());
    }
    report(what, keys.len(), began.elapsed(), cpu().saturating_sub(cpu_began));
}

fn scattered(count: usize, entities: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |i| i.wrapping_mul(2_654_435_761) % entities)
}

fn open(path: &Path) -> Arc<Embedded> {
    let began = Instant::now();
    let engine = Arc::new(Embedded::open(path, &EmbeddedOptions::default(), SystemClock).unwrap());
    println!("open: {:.1} ms, resident {} MiB", began.elapsed().as_secs_f64() * 1e3, resident_mib());
    engine
}

async fn measure_new(path: &Path, entities: usize) {
    let engine = open(path);
    engine.create_table(&table()).await.unwrap();
    let batch = |number: usize| (0..BATCH).map(|i| upsert(number * BATCH + i)).collect();
    tasks(&engine, "batches of 100, 4 tasks (entities)", 4, entities / BATCH, batch).await;
    tasks(&engine, "single upserts, 1 task", 1, 10_000, |n| vec![upsert(n * 7)]).await;
    tasks(&engine, "single upserts, 64 tasks", 64, 100_000, |n| vec![upsert(n * 3)]).await;
    tasks(&engine, "single merges, 64 tasks", 64, 50_000, |n| vec![merge(n * 5)]).await;
    println!("resident {} MiB", resident_mib());
    scan_all(&engine, "scan, first").await;
    scan_all(&engine, "scan, again").await;
    gets(&engine, "get, scattered over all", scattered(50_000, entities)).await;
    gets(&engine, "get, 1,000 hot entities", scattered(200_000, entities).map(|n| n % 1000)).await;
    gets(&engine, "get, missing", (0..50_000).map(|n| entities * 2 + n)).await;
    let began = Instant::now();
    engine.close().await.unwrap();
    println!("close: {:.1} ms, resident {} MiB", began.elapsed().as_secs_f64() * 1e3, resident_mib());
}

async fn measure_restart(path: &Path, entities: usize) {
    let engine = open(path);
    scan_all(&engine, "scan, first").await;
    scan_all(&engine, "scan, again").await;
    gets(&engine, "get, scattered over all", scattered(50_000, entities)).await;
    tasks(&engine, "single merges, 64 tasks", 64, 50_000, |n| vec![merge(n * 5)]).await;
    println!("resident {} MiB", resident_mib());
    let began = Instant::now();
    engine.delete_table(&table()).await.unwrap();
    println!("delete the table: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "figures-data".to_owned());
    let entities = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let path = Path::new(&path);
    if path.exists() {
        runtime.block_on(measure_restart(path, entities));
    } else {
        runtime.block_on(measure_new(path, entities));
    }
}
