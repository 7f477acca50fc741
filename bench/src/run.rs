//! `run`: measures a workload against a server.

use crate::dataset::{Dataset, EntitySize, PER_PARTITION_DEFAULT, Usage};
use crate::generator::load::Load;
use crate::generator::request::{Endpoint, Signer};
use crate::generator::workload::{Client, Failure, Plan, Workload};
use crate::process::{Node, Process};
use crate::report::{Gauge, Report};
use anyhow::{Context, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::signing::AccountKey;

/// The number of connections that fill a table.
const FILL_CONNECTIONS: usize = 4;
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

/// Creates the target of each URL, with its process if there is one.
pub(crate) fn targets(
    urls: &[String],
    processes: &[u32],
    target: impl Fn(&str, Option<Process>) -> anyhow::Result<Target>,
) -> anyhow::Result<Vec<Target>> {
    ensure!(
        processes.len() <= urls.len(),
        "--pid is given more often than --endpoint; pass at most one --pid per --endpoint"
    );
    let processes = processes.iter().copied().map(Process::new).map(Some).chain(std::iter::repeat(None));
    urls.iter().zip(processes).map(|(url, process)| target(url, process)).collect()
}

pub(crate) fn measure(target: &Target, measurement: &Measurement) -> anyhow::Result<Report> {
    measure_all(std::slice::from_ref(target), &[], measurement)
}

/// Like [`measure`], but distributes the connections among servers that share a database with the given nodes.
pub(crate) fn measure_all(targets: &[Target], database: &[Node], measurement: &Measurement) -> anyhow::Result<Report> {
    let target = targets.first().context("no server was given")?;
    let Measurement { workload, time, .. } = *measurement;
    let is_load = workload == Workload::Load;
    let is_filled = create_table(target, &plan(measurement, 0))?;
    if !is_load && !is_filled {
        fill(target, measurement)?;
    }
    let plan = plan(measurement, 0);
    // A load runs only once, so it is measured from its beginning.
    let warm_up = (!is_load).then(|| time / WARM_UP_SHARE);
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
    let mut load = Load::new(clients(targets, plan, connections))?;
    if let Some(time) = warm_up_time {
        warm_up(&mut load, workload, time, rate)?;
    }
    let gauge = Gauge::start(&processes)?.with_database(database)?;
    let (tally, wall) = load.phase(workload, time, rate);
    gauge.report(workload.name(), entities, connections, tally, wall)
}

/// Fails if all operations fail.
fn warm_up(load: &mut Load, workload: Workload, time: Duration, rate: Option<u64>) -> anyhow::Result<()> {
    let (tally, _) = load.phase(workload, time, rate);
    match tally.first_error {
        Some(error) if tally.operations == 0 => bail!("all operations of {} failed: {error}", workload.name()),
        _ => Ok(()),
    }
}

/// Creates the table unless it exists. Returns true if it contains all entities of the plan.
pub(crate) fn create_table(target: &Target, plan: &Arc<Plan>) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut client = Client::new(Arc::clone(plan), signer(target), 0);
    let is_filled = runtime.block_on(async {
        client.create_table().await?;
        // The table is filled in order, so the last entity exists only if all others exist.
        Ok(client.has(0).await? && client.has(plan.dataset.entities - 1).await?)
    });
    is_filled.map_err(|failure: Failure| anyhow::anyhow!("preparing the table: {failure}"))
}

fn fill(target: &Target, measurement: &Measurement) -> anyhow::Result<()> {
    let targets = std::slice::from_ref(target);
    let mut load = Load::new(clients(targets, &plan(measurement, 0), FILL_CONNECTIONS))?;
    let (tally, _) = load.phase(Workload::Load, FILL_TIME_MAX, None);
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
fn clients(targets: &[Target], plan: &Arc<Plan>, connections: usize) -> Vec<Client> {
    let seeds = 1..=connections as u64;
    seeds
        .zip(targets.iter().cycle())
        .map(|(seed, target)| Client::new(Arc::clone(plan), signer(target), seed))
        .collect()
}

fn signer(target: &Target) -> Signer {
    Signer::new(target.endpoint.clone(), &target.account, target.key.clone())
}
