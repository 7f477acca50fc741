//! `curve`: the load of a large table through a server, and the cost of operations at increasing sizes of the table.
//!
//! Invariants:
//!
//! 1. All sizes are measured on the same table, which is loaded further between two sizes. It is loaded in order, so
//!    all entities below the current size exist.
//! 2. The data folder is measured when background work has finished after a load. Reads are measured before upserts.
//! 3. The processor time of a load does not include background work that continues after it; its duration is reported.

mod args;
mod disk_space;
mod point;

use crate::child::{self, REQUEST_THREADS, Server};
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT};
use crate::generator::reach::Reach;
use crate::generator::workload::{Plan, Workload};
use crate::process::{Node, Process};
use crate::report::row::print_json;
use crate::report::{Report, as_f64, mebibytes};
use crate::run::{self, Measurement, Target};
use anyhow::{Context, ensure};
pub(crate) use args::CurveArgs;
use disk_space::{disk_space, quiet_disk_space};
use point::{Operation, State};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TABLE: &str = "Curve";
const LOAD_TIME_MAX: Duration = Duration::from_hours(24);

/// The measurements after a load, in the order in which they run.
const OPERATIONS: [(Workload, Reach); 5] = [
    (Workload::Get, Reach::Cached),
    (Workload::Get, Reach::All),
    (Workload::QueryPage, Reach::All),
    (Workload::QueryFilter, Reach::All),
    (Workload::Upsert, Reach::All),
];

#[derive(Serialize)]
struct Output<'a> {
    operations: &'a [Operation],
    states: &'a [State],
}

struct Curve<'a> {
    args: &'a CurveArgs,
    targets: Vec<Target>,
    operations: Vec<Operation>,
    states: Vec<State>,
}

/// A server with a temporary data folder.
struct OwnServer {
    server: Server,
    binary: PathBuf,
    options: [String; 2],
    /// Dropped last, so that the folder is not removed while the server uses it.
    place: tempfile::TempDir,
}

pub(crate) fn run(args: &CurveArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.sizes.is_sorted_by(|one, next| one < next), "the values of --sizes must be in ascending order");
    ensure!(args.pid.len() <= args.endpoint.len(), "pass at most one --pid per --endpoint");
    let mut own = if args.endpoint.is_empty() { Some(OwnServer::start(args)?) } else { None };
    let processes = args.pid.iter().copied().map(Process::new).map(Some).chain(std::iter::repeat(None));
    let targets = args.endpoint.iter().zip(processes).map(|(url, process)| child::target(url, process));
    let mut curve =
        Curve { args, targets: targets.collect::<Result<_, _>>()?, operations: Vec::new(), states: Vec::new() };
    curve.print(point::OPERATIONS_HEADING)?;
    let mut loaded = 0;
    for size in &args.sizes {
        curve.size(own.as_mut(), loaded, *size)?;
        loaded = *size;
    }
    if let Some(own) = own {
        curve.print(&format!("\n{}", point::STATES_HEADING))?;
        for state in &curve.states {
            curve.print(&state.line())?;
        }
        own.server.stop()?;
    }
    if args.json {
        print_json(&Output { operations: &curve.operations, states: &curve.states })?;
    }
    let is_good = curve.operations.iter().all(|operation| operation.errors.is_empty());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Curve<'_> {
    /// Loads the table from one size to the next, and measures it.
    fn size(&mut self, mut own: Option<&mut OwnServer>, loaded: u64, size: u64) -> anyhow::Result<()> {
        if let Some(own) = &own {
            self.targets = vec![own.server.target.clone()];
        }
        let written_before = own.as_deref().map(OwnServer::written).transpose()?;
        let load = self.measure(Workload::Load, Reach::All, loaded, size)?;
        let loaded_all = load.entities == size - loaded;
        ensure!(loaded_all, "{} of {} entities were loaded: {:?}", load.entities, size - loaded, load.first_error);
        let mut state = own.as_deref().map(|own| own.settled(size, &load)).transpose()?;
        if let (Some(state), Some(own), Some(before)) = (&mut state, &own, written_before) {
            let stored =
                Dataset::new(size - loaded, PER_PARTITION_DEFAULT).of_size(self.args.entity_bytes).stored_bytes();
            state.written_of_stored = as_f64(own.written()?.saturating_sub(before)) / as_f64(stored);
        }
        for (workload, reach) in OPERATIONS {
            self.measure(workload, reach, size, size)?;
        }
        if let (Some(own), Some(mut state)) = (own.as_mut(), state) {
            own.restart(&mut state)?;
            own.back_up(&mut state)?;
            note(&state.line())?;
            self.states.push(state);
        }
        Ok(())
    }

    fn measure(&mut self, workload: Workload, reach: Reach, loaded: u64, size: u64) -> anyhow::Result<Report> {
        let is_load = workload == Workload::Load;
        let connections = if workload == Workload::QueryFilter { 1 } else { self.args.connections };
        let time = if is_load { LOAD_TIME_MAX } else { Duration::from_secs(self.args.seconds) };
        let measurement = Measurement {
            entity_size: self.args.entity_bytes,
            working_set: reach.working_set(),
            ..Measurement::new(workload, size, connections, time)
        };
        let plan = run::plan(&measurement, if is_load { loaded } else { 0 });
        let plan = Arc::into_inner(plan).context("the plan is in use")?;
        let plan = Arc::new(Plan { table: TABLE.to_owned(), ..plan });
        if is_load {
            run::create_table(self.targets.first().context("there is no server")?, &plan)?;
        }
        let nodes: &[Node] = &self.args.database_pid;
        // A scan of the whole table does not fit into the cache, so no scan runs in advance.
        let warm_up = (!is_load && workload != Workload::QueryFilter).then(|| time / run::WARM_UP_SHARE);
        let report = run::measure_plan(&self.targets, nodes, &measurement, &plan, warm_up)?;
        if let Some(first) = &report.first_error {
            note(&format!("{}: errors {:?}, first {first}\n", report.workload, report.errors))?;
        }
        let operation = Operation::new(workload, reach, &report);
        self.print(&operation.line())?;
        self.operations.push(operation);
        Ok(report)
    }

    /// Prints immediately, because the measurements take minutes to hours.
    fn print(&self, text: &str) -> anyhow::Result<()> {
        if self.args.json { Ok(()) } else { Ok(std::io::stdout().lock().write_all(text.as_bytes())?) }
    }
}

impl OwnServer {
    fn start(args: &CurveArgs) -> anyhow::Result<Self> {
        let (binary, place) = args.server.open()?;
        let options = ["--cache-mib".to_owned(), args.cache_mib.to_string()];
        Ok(Self { server: serve(&binary, place.path(), &options)?, binary, options, place })
    }

    fn process(&self) -> anyhow::Result<Process> {
        self.server.target.process.context("the server has no process")
    }

    fn written(&self) -> anyhow::Result<u64> {
        self.process()?.written_by_other_threads(REQUEST_THREADS)
    }

    /// Waits until background work has finished after a load.
    fn settled(&self, entities: u64, load: &Report) -> anyhow::Result<State> {
        let began = Instant::now();
        let folder = data_folder(self.place.path());
        let disk_mib_after_load = mebibytes(disk_space(&folder)?);
        let cpu = self.process()?.cpu()?;
        let disk_bytes = crate::runtime()?.block_on(quiet_disk_space(&folder))?;
        Ok(State {
            entities,
            disk_mib_after_load,
            disk_mib: mebibytes(disk_bytes),
            disk_bytes_per_entity: as_f64(disk_bytes) / as_f64(entities),
            merging_seconds: began.elapsed().as_secs_f64(),
            merging_cpu_seconds: self.process()?.cpu()?.saturating_sub(cpu).as_secs_f64(),
            load_peak_resident_mib: load.peak_resident_mib.unwrap_or_default(),
            ..State::default()
        })
    }

    /// Kills the server after its last write.
    fn restart(&mut self, state: &mut State) -> anyhow::Result<()> {
        let resident = self.process()?.resident()?;
        state.resident_mib = mebibytes(resident.now);
        state.peak_resident_mib = mebibytes(resident.peak);
        self.server.kill();
        self.server = serve(&self.binary, self.place.path(), &self.options)?;
        state.start_seconds = self.server.start_time.as_secs_f64();
        state.start_cpu_seconds = self.process()?.cpu()?.as_secs_f64();
        state.started_resident_mib = mebibytes(self.process()?.resident()?.now);
        Ok(())
    }

    /// Backs up into a new repository, which is then removed.
    fn back_up(&self, state: &mut State) -> anyhow::Result<()> {
        let repository = self.place.path().join("backup");
        // Includes this server and the exited command.
        let (began, cpu) = (Instant::now(), Process::current().family_cpu()?);
        let mut command = Command::new(&self.binary);
        command.args(["backup", "--quiet", "--data"]).arg(data_folder(self.place.path())).arg("--to").arg(&repository);
        let status = command.status().context("starting the backup")?;
        ensure!(status.success(), "the backup exited with {status}");
        state.backup_seconds = began.elapsed().as_secs_f64();
        state.backup_cpu_seconds = Process::current().family_cpu()?.saturating_sub(cpu).as_secs_f64();
        state.backup_mib = mebibytes(disk_space(&repository)?);
        std::fs::remove_dir_all(&repository).context("removing the backup")
    }
}

fn data_folder(place: &Path) -> PathBuf {
    place.join("data")
}

fn serve(binary: &Path, place: &Path, options: &[String; 2]) -> anyhow::Result<Server> {
    child::serve(binary, &data_folder(place), &options.each_ref().map(String::as_str))
}

/// Prints to standard error, so that standard output contains only tables.
fn note(text: &str) -> anyhow::Result<()> {
    std::io::stderr().lock().write_all(text.as_bytes()).context("writing to standard error")
}
