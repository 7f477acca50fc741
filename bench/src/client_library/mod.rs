//! `client`: the processor time of the client library compared with a bare HTTP client, and the memory of a bulk load.
//!
//! Invariants:
//!
//! 1. The server is a child process, so only the client uses the processor time and memory of this process.
//! 2. The library and the bare client are measured alternately in each round. They send the same requests to the same
//!    server through the same kind of connection pool, and both read every response completely.
//! 3. The bulk load runs first, so the memory peak is the peak of the bulk load.

mod bare;
mod sample;

use crate::child::{Server, ServerArgs, serve};
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT};
use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::generator::workload::BATCH_ENTITIES;
use crate::process::{Process, ResidentMemory};
use crate::report::budget::{Budget, median};
use crate::report::row::{self, Row};
use crate::report::{as_f64, mebibytes};
use anyhow::{Context, ensure};
use bare::BareClient;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use client::{Credential, Endpoint, Table, TableService};
use sample::{PARTITION, ROW, Sample};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TASKS: [usize; 2] = [1, 16];
/// The number of partitions among which the bulk load alternates. It is therefore the number of groups that wait for
/// their transactions.
const PARTITIONS_IN_TURN: u64 = 64;
/// After this percentage of the bulk load, the memory is measured for comparison with the memory at the end.
const EARLY_PERCENT: u64 = 10;

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Number of entities in the bulk load
    #[arg(long, default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(BATCH_ENTITIES..=1_000_000_000))]
    entities: u64,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    seconds: u64,

    /// Number of rounds of each measurement
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    rounds: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Reads the same entity each time.
    Get,
    /// Inserts an entity with a new key, without returning content.
    Insert,
}

pub(crate) fn run(args: &ClientArgs) -> anyhow::Result<ExitCode> {
    let (binary, folder) = args.server.open()?;
    let server = serve(&binary, &folder.path().join("server"), &[])?;
    let mut rows = row::Table::new(args.json)?;
    crate::runtime()?.block_on(async {
        rows.add(bulk_load(&service(&server)?.table("Bulk"), args.entities).await?)?;
        let time = Duration::from_secs(args.seconds);
        let comparison = Comparison::prepare(&server, time, args.rounds).await?;
        for operation in [Operation::Get, Operation::Insert] {
            for tasks in TASKS {
                rows.add([comparison.measure(operation, tasks).await?])?;
            }
        }
        anyhow::Ok(())
    })?;
    rows.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn service(server: &Server) -> anyhow::Result<TableService> {
    let url = format!("http://{}/{DEVELOPMENT_ACCOUNT}", server.target.endpoint.address);
    let credential = Credential::shared_key(DEVELOPMENT_KEY).context("decoding the development key")?;
    Ok(TableService::new(Endpoint::parse(&url, Some(DEVELOPMENT_ACCOUNT))?, credential)?)
}

async fn bulk_load(table: &Table, entities: u64) -> anyhow::Result<Vec<Row>> {
    let dataset = Dataset::new(entities, PER_PARTITION_DEFAULT);
    let process = Process::current();
    table.create().await?;
    let mut early = None;
    let (began, cpu) = (Instant::now(), process.cpu()?);
    let mut bulk = table.bulk();
    for number in 0..entities {
        if number == entities * EARLY_PERCENT / 100 {
            early = Some(process.resident()?);
        }
        let round = number / (PARTITIONS_IN_TURN * PER_PARTITION_DEFAULT);
        let partition = round * PARTITIONS_IN_TURN + number % PARTITIONS_IN_TURN;
        let sample = Sample::new(&dataset, &format!("p{partition:06}"), number)?;
        bulk.insert(&sample).await?;
    }
    let report = bulk.finish().await;
    let (cpu, time, late) = (process.cpu()?.saturating_sub(cpu), began.elapsed(), process.resident()?);
    ensure!(report.written == entities, "{} entities were not written: {:?}", report.failed, report.failures.first());
    let early: ResidentMemory = early.context("the load was too short to measure its early memory")?;
    let line = format!("bulk load of {entities}");
    let row = |figure, reference, values, budget| Row::new((&line, figure, reference), values, budget);
    Ok(vec![
        row("entities/s", "", (None, Some(as_f64(entities) / time.as_secs_f64())), Budget::None),
        row("CPU µs per entity", "", (None, Some(cpu.as_secs_f64() * 1e6 / as_f64(entities))), Budget::None),
        row(
            "resident MiB at the end",
            "at 10 %",
            (Some(mebibytes(early.now)), Some(mebibytes(late.now))),
            Budget::AtMost(1.25),
        ),
        row(
            "peak resident MiB",
            "until 10 %",
            (Some(mebibytes(early.peak)), Some(mebibytes(late.peak))),
            Budget::AtMost(1.25),
        ),
    ])
}

struct Comparison {
    table: Table,
    bare: BareClient,
    sample: Sample,
    numbers: Arc<AtomicU64>,
    time: Duration,
    rounds: u64,
}

impl Comparison {
    async fn prepare(server: &Server, time: Duration, rounds: u64) -> anyhow::Result<Self> {
        let dataset = Dataset::new(1, 1);
        let table = service(server)?.table(bare::TABLE);
        table.create().await?;
        let sample = Sample::new(&dataset, PARTITION, 0)?;
        let mut read = sample.clone();
        ROW.clone_into(&mut read.row);
        table.insert(&read).await?;
        let bare = BareClient::new(server.target.endpoint.clone(), &dataset)?;
        Ok(Self { table, bare, sample, numbers: Arc::default(), time, rounds })
    }

    /// Fails if any operation fails.
    async fn measure(&self, operation: Operation, tasks: usize) -> anyhow::Result<Row> {
        let (mut bare, mut library) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            // The first phase opens connections and fills caches, and is not counted.
            for (time, counts) in [(self.time / 4, false), (self.time, true)] {
                let until = Instant::now() + time;
                let repeat = || self.bare.clone().repeat(operation, self.numbers.clone(), until);
                bare.extend(Some(cost(tasks, repeat).await?).filter(|_| counts));
                let until = Instant::now() + time;
                library.extend(Some(cost(tasks, || self.repeat(operation, until)).await?).filter(|_| counts));
            }
        }
        let name = match operation {
            Operation::Get => "get",
            Operation::Insert => "insert",
        };
        let values = (median(bare.into_iter()), median(library.into_iter()));
        Ok(Row::new((&format!("{name} at {tasks}"), "CPU µs per operation", "bare hyper"), values, Budget::AtMost(2.0)))
    }

    /// Returns the number of repetitions.
    fn repeat(&self, operation: Operation, until: Instant) -> impl Future<Output = anyhow::Result<u64>> + use<> {
        let (table, numbers, mut sample) = (self.table.clone(), self.numbers.clone(), self.sample.clone());
        async move {
            let mut count = 0;
            while Instant::now() < until {
                match operation {
                    Operation::Get => {
                        std::hint::black_box(table.get::<Sample>(PARTITION, ROW).await?);
                    }
                    Operation::Insert => {
                        sample.row = Dataset::row(numbers.fetch_add(1, Ordering::Relaxed));
                        table.insert(&sample).await?;
                    }
                }
                count += 1;
            }
            Ok(count)
        }
    }
}

/// Returns the processor time of this process per operation, in microseconds.
async fn cost<F>(tasks: usize, repeat: impl Fn() -> F) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<u64>> + Send + 'static,
{
    let before = Process::current().cpu()?;
    let mut running: JoinSet<_> = (0..tasks).map(|_| repeat()).collect();
    let mut count = 0;
    while let Some(counted) = running.join_next().await {
        count += counted??;
    }
    let cpu = Process::current().cpu()?.saturating_sub(before);
    Ok(cpu.as_secs_f64() * 1e6 / as_f64(count))
}
