//! `churn`: the cost of reads and the memory and disk usage of a server after histories that leave old versions and
//! tombstones.
//!
//! Invariants:
//!
//! 1. Everything is written through HTTP to a server with its own data folder, so its background work happens as in
//!    normal operation.
//! 2. The processor time of a read counts only the server's threads that serve requests. Background work, which may run
//!    at the same time, is reported separately.
//! 3. The reference for a reading is the same reading on the same server before the history.

mod args;
mod deleted_table;
mod history;
mod queue;
mod stage;

use crate::child::{REQUEST_THREADS, Server, serve};
use crate::dataset::Usage;
use crate::generator::load::Load;
use crate::generator::workload::{Client, Failure, Plan, Task, Workload};
use crate::report::as_f64;
use crate::report::row::{Row, Table, print_json};
use crate::run::{self, Measurement, Target};
use anyhow::{Context, bail, ensure};
pub(crate) use args::ChurnArgs;
use serde::Serialize;
use stage::{Group, Reading, Stage, Writes};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The defaults of the server's cache size, in MiB, and of the quiet time before a stage, in seconds.
pub(crate) const CACHE_MIB: u64 = 256;
pub(crate) const QUIET_SECONDS: u64 = 10;
const CONNECTIONS: usize = 16;
const WRITING_TIME_MAX: Duration = Duration::from_hours(4);
/// The warm-up executes at least one operation.
const WARM_UP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Churn {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) entities: u64,
    pub(crate) time: Duration,
    pub(crate) quiet: Duration,
    pub(crate) cache_mib: u64,
}

/// Receives a measured stage, together with the earlier stages of its group.
type OnStage<'a> = &'a mut dyn FnMut(&[Stage]) -> anyhow::Result<()>;

#[derive(Serialize)]
struct Output<'a> {
    stages: &'a [Stage],
    rows: &'a [Row],
}

/// Prints a table for each group, and then a table of all figures with a budget.
pub(crate) fn run(args: &ChurnArgs) -> anyhow::Result<ExitCode> {
    let (binary, folder) = args.server.open()?;
    let churn = Churn {
        binary,
        folder: folder.path().to_owned(),
        entities: args.entities,
        time: Duration::from_secs(args.seconds),
        quiet: Duration::from_secs(args.quiet_seconds),
        cache_mib: args.cache_mib,
    };
    let (mut all, mut judged) = (Vec::new(), Vec::new());
    churn.measure(args.only.as_deref(), &mut |stages: &[Stage]| {
        let Some(stage) = stages.last() else { return Ok(()) };
        if !args.json {
            let heading = if stages.len() == 1 { stage.heading() } else { String::new() };
            write!(std::io::stdout().lock(), "{heading}{}", stage.table_line(stages))?;
        }
        judged.extend(stage.rows(stages, churn.cache_mib));
        all.push(stage.clone());
        Ok(())
    })?;
    if args.json {
        print_json(&Output { stages: &all, rows: &judged })?;
    } else {
        writeln!(std::io::stdout().lock())?;
        Table::new(false)?.add(judged)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Churn {
    /// Measures all groups, or only those that have a stage whose name contains the given text.
    pub(crate) fn measure(&self, only: Option<&str>, on_stage: OnStage<'_>) -> anyhow::Result<()> {
        for group in Group::ALL.into_iter().filter(|group| group.is_selected(only)) {
            let server = self.serve(group)?;
            let measured = match group {
                Group::History => history::measure(self, server, on_stage),
                Group::Queue => queue::measure(self, &server, on_stage),
                Group::DeletedTable => deleted_table::measure(self, &server, on_stage),
            };
            measured.with_context(|| group.name())?;
            std::fs::remove_dir_all(self.data(group)).context("removing a data folder")?;
        }
        Ok(())
    }

    fn data(&self, group: Group) -> PathBuf {
        self.folder.join(group.name().replace(' ', "-"))
    }

    fn serve(&self, group: Group) -> anyhow::Result<Server> {
        serve(&self.binary, &self.data(group), &["--cache-mib", &self.cache_mib.to_string()])
    }

    fn measurement(&self, usage: Usage) -> Measurement {
        Measurement { usage, ..Measurement::new(Workload::QueryFilter, self.entities, CONNECTIONS, self.time) }
    }

    fn wait(&self) {
        std::thread::sleep(self.quiet);
    }

    /// Scans with a filter that matches 1% of the table, and reads the pages of the table.
    fn read_table(&self, target: &Target, plan: &Arc<Plan>) -> anyhow::Result<[Reading; 2]> {
        let read = |workload| self.read(target, plan, Task::Workload(workload));
        Ok([read(Workload::QueryFilter)?, read(Workload::QueryPage)?])
    }

    fn read(&self, target: &Target, plan: &Arc<Plan>, task: Task) -> anyhow::Result<Reading> {
        let process = target.process.context("a child must have a process")?;
        let mut load = Load::new(run::clients(target, plan, 1))?;
        load.phase(task, WARM_UP, None);
        let cpu = || anyhow::Ok((process.cpu()?, process.cpu_of_other_threads(REQUEST_THREADS)?));
        let (all_before, others_before) = cpu()?;
        let (tally, _) = load.phase(task, self.time, None);
        let (all, others) = cpu()?;
        if let Some(first) = tally.first_error {
            bail!("{task:?}: {:?}, first {first}", tally.errors);
        }
        ensure!(tally.operations > 0 && tally.entities > 0, "{task:?}: nothing was read in the measured time");
        let background = others.saturating_sub(others_before);
        let requests = all.saturating_sub(all_before).saturating_sub(background);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        Ok(Reading {
            cpu_us_per_operation: micros(requests) / as_f64(tally.operations),
            cpu_us_per_entity: micros(requests) / as_f64(tally.entities),
            p50_us: micros(tally.latencies.quantile(0.5)),
            background_seconds: background.as_secs_f64(),
        })
    }
}

fn write(load: &mut Load, task: Task) -> anyhow::Result<Writes> {
    let (tally, _) = load.phase(task, WRITING_TIME_MAX, None);
    if let Some(first) = tally.first_error {
        bail!("{task:?}: {:?}, first {first}", tally.errors);
    }
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let (p50, p999) = (tally.latencies.quantile(0.5), tally.latencies.quantile(0.999));
    Ok(Writes {
        count: tally.operations,
        p50_ms: millis(p50),
        p999_ms: millis(p999),
        max_ms: millis(tally.latencies.max()),
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work).map_err(|failure| anyhow::anyhow!("{failure}"))
}

fn client(target: &Target, plan: &Arc<Plan>) -> anyhow::Result<Client> {
    run::clients(target, plan, 1).pop().context("creating a client")
}
