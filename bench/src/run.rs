//! `run`: measures a workload against a server.

use crate::dataset::{Dataset, EntitySize, PER_PARTITION_DEFAULT, Usage};
use crate::generator::endpoint::Endpoint;
use crate::generator::load::Load;
use crate::generator::request::Signer;
use crate::generator::workload::{Client, Failure, Plan, Task, Workload};
use crate::process::{Node, Process};
use crate::report::{Gauge, Report};
use anyhow::{Context, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::signing::AccountKey;

/// The numbers of connections that fill a table with transactions and with single entities.
const FILL_BATCH_CONNECTIONS: usize = 4;
const FILL_SINGLE_CONNECTIONS: usize = 64;
const FILL_TIME_MAX: Duration = Duration::from_hours(4);
/// Each workload runs for this share of its time before it is measured.
pub(crate) const WARM_UP_SHARE: u32 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) account: String,
    pub(crate) key: AccountKey,
    /// `None` if its processor time and memory are not measured.
    pub(crate) process: Option<Process>,
}

#[derive(Debug, Clone)]
pub(crate) struct Measurement {
    pub(crate) workload: Workload,
    pub(crate) entities: u64,
    pub(crate) per_partition: u64,
    pub(crate) entity_size: EntitySize,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    /// The rate at which operations become due, per second over all connections. If it is `None`, each connection sends
    /// its next operation as soon as it has the response to the previous one.
    pub(crate) rate: Option<u64>,
    pub(crate) usage: Usage,
    /// The number of entities that are read. `None` means all.
    pub(crate) working_set: Option<u64>,
    /// The numbers of the partitions that get most of the operations.
    pub(crate) hot: Vec<u64>,
}

impl Measurement {
    /// Measures as many operations as possible, on all entities of the table.
    pub(crate) fn new(workload: Workload, entities: u64, connections: usize, time: Duration) -> Self {
        Self {
            workload,
            entities,
            per_partition: PER_PARTITION_DEFAULT,
            entity_size: EntitySize::Large,
            connections,
            time,
            rate: None,
            usage: workload.usage(),
            working_set: None,
            hot: Vec::new(),
        }
    }
}

pub(crate) fn measure(target: &Target, measurement: &Measurement) -> anyhow::Result<Report> {
    measure_all(std::slice::from_ref(target), &[], measurement)
}

/// Like [`measure`], but distributes the connections among servers that share a database with the given nodes.
pub(crate) fn measure_all(targets: &[Target], database: &[Node], measurement: &Measurement) -> anyhow::Result<Report> {
    let target = targets.first().context("no server was given")?;
    let Measurement { workload, time, .. } = *measurement;
    let is_load = workload == Workload::Load;
    if is_load {
        create_table(target, &plan(measurement, 0))?;
    } else {
        fill(target, measurement)?;
    }
    let plan = plan(measurement, 0);
    // These workloads run only once, so they are measured from their beginning.
    let warm_up = (!is_load && workload != Workload::DeleteFilter).then(|| time / WARM_UP_SHARE);
    let report = measure_plan(targets, database, measurement, &plan, warm_up)?;
    Ok(Report { rate: measurement.rate, ..report })
}

/// Like [`measure_all`], but on the table of the plan, which must exist and contain the entities that the workload
/// needs.
pub(crate) fn measure_plan(
    targets: &[Target],
    database: &[Node],
    measurement: &Measurement,
    plan: &Arc<Plan>,
    warm_up_time: Option<Duration>,
) -> anyhow::Result<Report> {
    let Measurement { workload, entities, connections, time, rate, .. } = *measurement;
    let processes = targets.iter().filter_map(|target| target.process).collect::<Vec<_>>();
    let mut load = Load::new(clients_of_all(targets, plan, connections))?;
    if let Some(time) = warm_up_time {
        warm_up(&mut load, workload, time, rate)?;
    }
    let gauge = Gauge::start(&processes, Some(Process::current()))?.with_database(database)?;
    let (tally, wall) = load.phase(Task::Workload(workload), time, rate);
    gauge.report(workload.name(), entities, connections, tally, wall)
}

/// Fails if all operations fail.
fn warm_up(load: &mut Load, workload: Workload, time: Duration, rate: Option<u64>) -> anyhow::Result<()> {
    let (tally, _) = load.phase(Task::Workload(workload), time, rate);
    match tally.first_error {
        Some(error) if tally.operations == 0 => bail!("all operations of {} failed: {error}", workload.name()),
        _ => Ok(()),
    }
}

/// Does nothing if the table already exists.
pub(crate) fn create_table(target: &Target, plan: &Arc<Plan>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut client = Client::new(Arc::clone(plan), signer(target), 0);
    let created = runtime.block_on(client.create_table());
    created.map_err(|failure| anyhow::anyhow!("creating the table: {failure}"))
}

pub(crate) fn fill(target: &Target, measurement: &Measurement) -> anyhow::Result<()> {
    let first = plan(measurement, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut first_client = Client::new(Arc::clone(&first), signer(target), 0);
    let last = measurement.entities - 1;
    let is_filled = runtime.block_on(async {
        first_client.create_table().await?;
        // The table is filled in order, so the last entity exists only if all others exist.
        Ok(first_client.has(0).await? && first_client.has(last).await?)
    });
    let is_filled = is_filled.map_err(|failure: Failure| anyhow::anyhow!("preparing the table: {failure}"))?;
    if is_filled {
        return Ok(());
    }
    let in_batches = runtime.block_on(first_client.operation(Task::Fill { in_batches: true }));
    let (in_batches, from) = match in_batches {
        Ok(_) => (true, crate::generator::workload::BATCH_ENTITIES),
        // A server without transactions receives the entities one by one.
        Err(Failure::Status(..)) => (false, 0),
        Err(failure) => bail!("filling the table: {failure}"),
    };
    let connections = if in_batches { FILL_BATCH_CONNECTIONS } else { FILL_SINGLE_CONNECTIONS };
    let rest = plan(measurement, from);
    let (tally, _) =
        Load::new(clients(target, &rest, connections))?.phase(Task::Fill { in_batches }, FILL_TIME_MAX, None);
    ensure!(
        tally.errors.is_empty(),
        "filling the table: {:?}, first {}",
        tally.errors,
        tally.first_error.unwrap_or_default()
    );
    Ok(())
}

/// `sequence` is the first number for the tasks of the plan.
pub(crate) fn plan(measurement: &Measurement, sequence: u64) -> Arc<Plan> {
    let dataset = Dataset::new(measurement.entities, measurement.per_partition).of_size(measurement.entity_size);
    let table = dataset.table(measurement.usage);
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() * 1000 + u64::from(time.subsec_millis()));
    let (working_set, hot) = (measurement.working_set, measurement.hot.clone());
    Arc::new(Plan { dataset, table, run, sequence: AtomicU64::new(sequence), working_set, hot })
}

/// The clients connect when they are used.
pub(crate) fn clients(target: &Target, plan: &Arc<Plan>, connections: usize) -> Vec<Client> {
    clients_of_all(std::slice::from_ref(target), plan, connections)
}

fn clients_of_all(targets: &[Target], plan: &Arc<Plan>, connections: usize) -> Vec<Client> {
    let seeds = 1..=connections as u64;
    seeds
        .zip(targets.iter().cycle())
        .map(|(seed, target)| Client::new(Arc::clone(plan), signer(target), seed))
        .collect()
}

fn signer(target: &Target) -> Signer {
    Signer::new(target.endpoint.clone(), &target.account, target.key.clone())
}
