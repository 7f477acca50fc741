//! `raw`: drives the embedded engine without HTTP, as the reference for the server.

use crate::dataset::{Dataset, ONE_PERCENT_FILTER, Usage, entity_key};
use crate::engine::filling::table_key;
use crate::generator::load::Tally;
use crate::generator::workload::BATCH_ENTITIES;
use crate::process::Process;
use crate::report::{Gauge, Report};
use crate::size_args::{SizeArgs, connections};
use anyhow::{Context, anyhow, bail, ensure};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use engine::{CatalogError, Engine, EngineExt, EntitySink, Scan, SinkDecision, TableKey};
use engine_embedded::{Embedded, EmbeddedOptions};
use fastrand::Rng;
use model::clock::SystemClock;
use model::limits::{PAGE_BODY_BYTES_MAX, PAGE_RESULTS_MAX};
use model::{EntityView, Mutation, Position, Transaction};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use wire::filter::Grammar;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RawWorkload {
    /// Insert new entities in transactions of 100
    Batch100,
    /// Replace existing entities, one per transaction, with 64 concurrent tasks
    Group64,
    /// Replace existing entities, one per transaction, with one task
    Single,
    /// Read existing entities by their keys
    Get,
    /// Read the table in pages of 1,000, inspecting every value
    Scan,
    /// Read the table with a filter that matches 1% of the entities
    ScanFilter,
    /// Iterate over the table without reading its entities
    Iterate,
}

impl RawWorkload {
    fn usage(self) -> Usage {
        match self {
            Self::Batch100 => Usage::Growing,
            Self::Group64 | Self::Single => Usage::Overwritten,
            Self::Get | Self::Scan | Self::ScanFilter | Self::Iterate => Usage::Read,
        }
    }

    fn tasks(self) -> usize {
        match self {
            Self::Group64 => 64,
            Self::Batch100 => 4,
            _ => 1,
        }
    }
}

/// The engine, a workload and its size.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// Data folder, which is created and filled if needed, and kept afterwards
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,

    /// The workload to measure
    #[arg(long, value_enum)]
    pub(crate) workload: RawWorkload,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Number of concurrent tasks [default: 64 for group64, 4 for batch100, otherwise 1]
    #[arg(long, value_parser = connections())]
    pub(crate) tasks: Option<usize>,

    /// Size of the cache, in MiB
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,
}

struct EngineRun {
    engine: Embedded,
    table: TableKey,
    dataset: Dataset,
    run: u64,
    sequence: AtomicU64,
}

pub(crate) async fn measure(args: &RawArgs) -> anyhow::Result<Report> {
    let RawArgs { workload, size: SizeArgs { entities, entity_bytes, per_partition, seconds: time, .. }, .. } = *args;
    let tasks = args.tasks.unwrap_or_else(|| workload.tasks());
    let options = EmbeddedOptions { cache_bytes: args.cache_mib << 20, ..EmbeddedOptions::default() };
    let engine = Embedded::open(&args.data, &options, SystemClock)?;
    let dataset = Dataset::new(entities, per_partition).of_size(entity_bytes);
    let table = table_key(&dataset, workload.usage())?;
    let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let bench = Arc::new(EngineRun { engine, table, dataset, run, sequence: AtomicU64::new(0) });
    bench.fill().await?;
    bench.phase(workload, tasks, time / 4).await?;
    let gauge = Gauge::start(&[Process::current()], None)?;
    let began = Instant::now();
    let tally = bench.phase(workload, tasks, time).await?;
    let name = workload.to_possible_value().map_or_else(String::new, |value| format!("raw {}", value.get_name()));
    let report = gauge.report(name, entities, tasks, tally, began.elapsed())?;
    bench.engine.close().await.context("closing the data folder")?;
    Ok(report)
}

impl EngineRun {
    async fn fill(&self) -> anyhow::Result<()> {
        match self.engine.create_table(&self.table).await {
            Ok(()) | Err(CatalogError::AlreadyExists) => {}
            Err(error) => bail!("creating the table: {error:?}"),
        }
        if self.get(self.dataset.entities - 1).await? == 1 {
            return Ok(());
        }
        let mut first = 0;
        while first < self.dataset.entities {
            let end = (first + BATCH_ENTITIES).min(self.dataset.entities);
            self.commit((first..end).map(|number| self.upsert(number, 0)).collect()).await?;
            first = end;
        }
        Ok(())
    }

    /// Each task executes at least one operation.
    async fn phase(self: &Arc<Self>, workload: RawWorkload, tasks: usize, time: Duration) -> anyhow::Result<Tally> {
        let until = Instant::now() + time;
        let mut running = JoinSet::new();
        for seed in 1..=tasks as u64 {
            let bench = Arc::clone(self);
            running.spawn(async move {
                let (mut tally, mut random, mut from) = (Tally::default(), Rng::with_seed(seed), None);
                loop {
                    let began = Instant::now();
                    let entities = bench.operation(workload, &mut random, &mut from).await?;
                    tally.count_success(entities, began.elapsed());
                    if Instant::now() >= until {
                        return anyhow::Ok(tally);
                    }
                }
            });
        }
        let mut total = Tally::default();
        while let Some(tally) = running.join_next().await {
            total.merge(tally??);
        }
        Ok(total)
    }

    /// Returns the number of entities read, written or examined.
    async fn operation(
        &self,
        workload: RawWorkload,
        random: &mut Rng,
        from: &mut Option<Position>,
    ) -> anyhow::Result<u64> {
        let number = random.u64(..self.dataset.entities);
        match workload {
            RawWorkload::Batch100 => self.insert_batch(number).await,
            RawWorkload::Group64 | RawWorkload::Single => {
                self.commit(vec![self.upsert(number, random.u64(..))]).await?;
                Ok(1)
            }
            RawWorkload::Get => {
                let found = self.get(number).await?;
                ensure!(found == 1, "entity {number} is missing");
                Ok(found)
            }
            RawWorkload::Scan => {
                let scan = Scan { from: from.take(), ..page() };
                let (read, next, _) = self.scan(scan, ReadValues { entities: 0 }).await?;
                *from = next;
                Ok(read.entities)
            }
            RawWorkload::ScanFilter => self.filtered_scan().await,
            RawWorkload::Iterate => Ok(self.scan(whole_table(), Ignore).await?.2),
        }
    }

    async fn get(&self, number: u64) -> anyhow::Result<u64> {
        let record = self.engine.get(&self.table, &self.dataset.key(number)).await;
        let record = record.map_err(|error| anyhow!("reading an entity: {error:?}"))?;
        Ok(u64::from(black_box(record).is_some()))
    }

    async fn insert_batch(&self, number: u64) -> anyhow::Result<u64> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{}-{:x}-{sequence:x}", Dataset::row(number), self.run);
        let partition = self.dataset.partition(number);
        let mutations = (0..BATCH_ENTITIES).map(|index| Mutation::Insert {
            key: entity_key(&partition, &format!("{prefix}-{index:02}")),
            properties: self.dataset.record(sequence * BATCH_ENTITIES + index, 0),
        });
        self.commit(mutations.collect()).await?;
        Ok(BATCH_ENTITIES)
    }

    fn upsert(&self, number: u64, salt: u64) -> Mutation {
        Mutation::InsertOrReplace { key: self.dataset.key(number), properties: self.dataset.record(number, salt) }
    }

    async fn commit(&self, mutations: Vec<Mutation>) -> anyhow::Result<()> {
        let transaction = Transaction::new(mutations).map_err(|error| anyhow!("a transaction: {error:?}"))?;
        let written = self.engine.commit(&self.table, transaction).await;
        written.map(drop).map_err(|error| anyhow!("writing: {error:?}"))
    }

    async fn filtered_scan(&self) -> anyhow::Result<u64> {
        let filter = wire::filter::parse(ONE_PERCENT_FILTER, Grammar::Service)
            .map_err(|error| anyhow!("the filter: {error:?}"))?;
        let (mut from, mut selected, mut examined) = (None, 0, 0);
        loop {
            let scan = Scan { filter: Some(filter.clone()), from, ..page() };
            let (read, next, of) = self.scan(scan, ReadValues { entities: 0 }).await?;
            (from, selected, examined) = (next, selected + read.entities, examined + of);
            if from.is_none() {
                break;
            }
        }
        ensure!(selected == self.dataset.one_percent(), "the filter matched {selected} entities");
        Ok(examined)
    }

    /// Returns the sink, the start of the next page, and the number of examined entities.
    async fn scan<S: EntitySink>(&self, scan: Scan, sink: S) -> anyhow::Result<(S, Option<Position>, u64)> {
        let page = self.engine.scan(&self.table, scan, sink).await;
        let (sink, end) = page.map_err(|error| anyhow!("scanning: {error:?}"))?;
        Ok((sink, end.next, end.examined))
    }
}

/// The scan that a server performs for a page.
fn page() -> Scan {
    Scan { limit: PAGE_RESULTS_MAX, bytes_expected: PAGE_BODY_BYTES_MAX, ..whole_table() }
}

fn whole_table() -> Scan {
    Scan::all(Instant::now() + Duration::from_mins(10))
}

struct Ignore;

impl EntitySink for Ignore {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        black_box(entity);
        SinkDecision::Accepted
    }
}

/// A sink that reads all values, as any encoder must.
struct ReadValues {
    entities: u64,
}

impl EntitySink for ReadValues {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        self.entities += 1;
        for property in entity.record.properties().flatten() {
            black_box(property.value().is_ok());
        }
        SinkDecision::Accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::EntitySize;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_workload_has_its_number_of_entities() {
        let folder = tempfile::tempdir().unwrap();
        for workload in RawWorkload::value_variants() {
            let args = RawArgs {
                data: folder.path().to_owned(),
                workload: *workload,
                size: SizeArgs {
                    entities: 200,
                    entity_bytes: EntitySize::Large,
                    per_partition: 100,
                    seconds: Duration::ZERO,
                    json: false,
                },
                tasks: Some(1),
                cache_mib: 16,
            };
            let report = measure(&args).await.unwrap();
            let expected = match workload {
                RawWorkload::Batch100 => 100,
                RawWorkload::Group64 | RawWorkload::Single | RawWorkload::Get => 1,
                RawWorkload::Scan | RawWorkload::ScanFilter | RawWorkload::Iterate => 200,
            };
            assert_eq!((report.operations, report.entities), (1, expected), "{workload:?}");
        }
    }
}
