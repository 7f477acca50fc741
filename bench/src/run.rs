//! `run`: measures a workload against a server.

use crate::bystanders::{self, Bystanders, Crowd, CrowdReport};
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT, Usage};
use crate::endpoint::Endpoint;
use crate::load::Load;
use crate::process::Process;
use crate::report::{Gauge, Report, mebibytes};
use crate::request::Signer;
use crate::workload::{Client, Failure, Plan, Task, Workload};
use anyhow::{bail, ensure};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::signing::AccountKey;

/// Connections that fill a table, by transactions and one by one.
const FILL_BATCH_CONNECTIONS: usize = 4;
const FILL_SINGLE_CONNECTIONS: usize = 64;
/// Filling gives up after this time.
const FILL_TIME_MAX: Duration = Duration::from_secs(4 * 3600);
/// How long the workload runs before it is measured, as a share of the time it is measured.
const WARM_UP_SHARE: u32 = 4;

/// A server to measure, and whose requests it takes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) account: String,
    pub(crate) key: AccountKey,
    /// The process of the server, if its cost is to be measured.
    pub(crate) process: Option<Process>,
    /// The first process of the database below it, if its cost is to be measured as well.
    pub(crate) database: Option<Process>,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    pub(crate) workload: Workload,
    pub(crate) entities: u64,
    pub(crate) per_partition: u64,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    /// Operations a second in all; `None` is as many as there can be.
    pub(crate) rate: Option<u64>,
    /// Connections that are there and are not measured.
    pub(crate) crowd: Crowd,
    /// Whose table is used.
    pub(crate) usage: Usage,
    /// How many of the entities are read, if not all.
    pub(crate) reach: Option<u64>,
}

impl Measurement {
    /// As many operations as there can be, on all entities of the table of the workload.
    pub(crate) fn new(workload: Workload, entities: u64, connections: usize, time: Duration) -> Self {
        Self {
            workload,
            entities,
            per_partition: PER_PARTITION_DEFAULT,
            connections,
            time,
            rate: None,
            crowd: Crowd::default(),
            usage: workload.usage(),
            reach: None,
        }
    }
}

/// Fills the table if needed, warms up, and measures.
pub(crate) fn measure(target: &Target, measurement: &Measurement) -> anyhow::Result<Report> {
    let Measurement { workload, entities, connections, time, rate, crowd, .. } = *measurement;
    bystanders::allow_connections(connections + crowd.idle + crowd.slow_readers)?;
    fill(target, measurement)?;
    let plan = plan(measurement, 0);
    let resident = || target.process.map(|process| anyhow::Ok(mebibytes(process.resident()?.now))).transpose();
    let before = resident()?;
    let bystanders = (crowd != Crowd::default()).then(|| Bystanders::gather(crowd, &plan.table, &signer(target)));
    let (bystanders, with) = (bystanders.transpose()?, resident()?);
    let mut load = Load::new(clients(target, &plan, connections))?;
    let task = Task::Workload(workload);
    let (warm_up, _) = load.phase(task, time / WARM_UP_SHARE, rate);
    if warm_up.operations == 0 {
        bail!(
            "nothing of {} succeeded: {}",
            workload.name(),
            warm_up.first_error.as_deref().unwrap_or("no operation ended in time")
        );
    }
    let gauge = Gauge::start(target.process, Some(Process::current()))?.with_database(target.database)?;
    let (tally, wall) = load.phase(task, time, rate);
    let report = gauge.report(workload.name(), entities, connections, tally, wall)?;
    let crowd = bystanders.map(|bystanders| CrowdReport {
        resident_mib_before: before,
        resident_mib_with: with,
        ..bystanders.report()
    });
    Ok(Report { rate, crowd, ..report })
}

/// Makes sure that the table of a measurement exists and holds its entities.
pub(crate) fn fill(target: &Target, measurement: &Measurement) -> anyhow::Result<()> {
    let first = plan(measurement, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut scout = Client::new(Arc::clone(&first), signer(target), 0);
    let last = measurement.entities - 1;
    let is_filled = runtime.block_on(async {
        scout.create_table().await?;
        // The table is filled in order, so the last entity tells of all.
        Ok(scout.has(0).await? && scout.has(last).await?)
    });
    let is_filled = is_filled.map_err(|failure: Failure| anyhow::anyhow!("preparing the table: {failure}"))?;
    if is_filled {
        return Ok(());
    }
    let in_batches = runtime.block_on(scout.operation(Task::Fill { in_batches: true }));
    let (in_batches, from) = match in_batches {
        Ok(_) => (true, crate::workload::BATCH_ENTITIES),
        // A server without transactions gets the entities one by one.
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

fn plan(measurement: &Measurement, sequence: u64) -> Arc<Plan> {
    let dataset = Dataset::new(measurement.entities, measurement.per_partition);
    let table = dataset.table(measurement.usage);
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() * 1000 + u64::from(time.subsec_millis()));
    Arc::new(Plan { dataset, table, run, sequence: AtomicU64::new(sequence), reach: measurement.reach })
}

fn clients(target: &Target, plan: &Arc<Plan>, connections: usize) -> Vec<Client> {
    let seeds = 1..=connections as u64;
    seeds.map(|seed| Client::new(Arc::clone(plan), signer(target), seed)).collect()
}

fn signer(target: &Target) -> Signer {
    Signer::new(target.endpoint.clone(), &target.account, target.key.clone())
}
