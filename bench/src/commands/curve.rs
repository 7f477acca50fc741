//! `curve`: the load of a large table through a server, and the cost of operations at increasing sizes of the table.
//!
//! Invariants:
//!
//! 1. All sizes are measured on the same table, which is loaded further between two sizes. It is loaded in order, so
//!    all entities below the current size exist.
//! 2. The data folder is measured when background work has finished after a load. Reads are measured before upserts.
//! 3. The processor time of a load does not include background work that continues after it; its duration is reported.

use crate::child::{self, REQUEST_THREADS, Server, ServerArgs};
use crate::dataset::{Dataset, EntitySize, PER_PARTITION_DEFAULT};
use crate::generator::workload::{Plan, Workload};
use crate::process::{Node, Process};
use crate::report::{Report, as_f64, mebibytes};
use crate::run::{self, Measurement, Target};
use crate::size_args::{connections, thousands};
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
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

struct Curve<'a> {
    args: &'a CurveArgs,
    targets: Vec<Target>,
    has_errors: bool,
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
    let mut own = if args.endpoint.is_empty() { Some(OwnServer::start(args)?) } else { None };
    let targets = run::targets(&args.endpoint, &args.pid, child::target)?;
    let mut curve = Curve { args, targets, has_errors: false, states: Vec::new() };
    print(OPERATIONS_HEADING)?;
    let mut loaded = 0;
    for size in &args.sizes {
        curve.size(own.as_mut(), loaded, *size)?;
        loaded = *size;
    }
    if let Some(own) = own {
        print(&format!("\n{}", curve.states.first().map(State::heading).unwrap_or_default()))?;
        for state in &curve.states {
            print(&state.line())?;
        }
        own.server.stop()?;
    }
    Ok(if curve.has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
        let mut state = None;
        if let (Some(own), Some(before)) = (&own, written_before) {
            let stored = Dataset::new(size - loaded, PER_PARTITION_DEFAULT).of_size(self.args.entity_bytes);
            state = Some(own.settled(size, &load, before, stored.stored_bytes())?);
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
        self.has_errors |= !report.errors.is_empty();
        print(&operation_line(workload, reach, &report))?;
        Ok(report)
    }
}

/// Prints immediately, because the measurements take minutes to hours.
fn print(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
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

    /// Waits until background work has finished after a load. The bytes written before the load, and the size of the
    /// loaded keys and records, tell how often the data was written.
    fn settled(&self, entities: u64, load: &Report, written: u64, stored: u64) -> anyhow::Result<State> {
        let began = Instant::now();
        let folder = data_folder(self.place.path());
        let mut state = State::default();
        state.add("entities", as_f64(entities), 0);
        state.add("disk MiB after the load", mebibytes(disk_space(&folder)?), 0);
        let cpu = self.process()?.cpu()?;
        let disk_bytes = crate::runtime()?.block_on(quiet_disk_space(&folder))?;
        state.add("disk MiB", mebibytes(disk_bytes), 0);
        state.add("bytes per entity", as_f64(disk_bytes) / as_f64(entities), 1);
        state.add("written of stored", as_f64(self.written()?.saturating_sub(written)) / as_f64(stored), 1);
        // Includes three seconds without a change.
        state.add("merging s", began.elapsed().as_secs_f64(), 0);
        state.add("merging CPU s", self.process()?.cpu()?.saturating_sub(cpu).as_secs_f64(), 1);
        state.add("resident MiB: peak of the load", load.peak_resident_mib.unwrap_or_default(), 0);
        Ok(state)
    }

    /// Kills the server after its last write.
    fn restart(&mut self, state: &mut State) -> anyhow::Result<()> {
        let resident = self.process()?.resident()?;
        state.add("after the operations", mebibytes(resident.now), 0);
        state.add("peak", mebibytes(resident.peak), 0);
        self.server.kill();
        self.server = serve(&self.binary, self.place.path(), &self.options)?;
        state.add("start after kill s", self.server.start_time.as_secs_f64(), 2);
        state.add("CPU s", self.process()?.cpu()?.as_secs_f64(), 2);
        state.add("resident MiB", mebibytes(self.process()?.resident()?.now), 0);
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
        state.add("backup s", began.elapsed().as_secs_f64(), 1);
        // Includes the server.
        state.add("CPU s", Process::current().family_cpu()?.saturating_sub(cpu).as_secs_f64(), 1);
        state.add("backup MiB", mebibytes(disk_space(&repository)?), 0);
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

/// The sizes and durations of the measurements.
#[derive(Debug, Args)]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Measure running servers instead, which share a database: their URLs. In this case, startup, backup and disk are
    /// not measured
    #[arg(long, value_name = "URL", conflicts_with_all = ["server_binary", "folder", "cache_mib"])]
    pub(crate) endpoint: Vec<String>,

    /// Process IDs of these servers
    #[arg(long, requires = "endpoint")]
    pub(crate) pid: Vec<u32>,

    /// Process IDs of the nodes of their database
    #[arg(long, value_name = "[NAME=]PID", value_parser = Node::parse, requires = "endpoint")]
    pub(crate) database_pid: Vec<Node>,

    /// Numbers of entities in the table, in ascending order and separated by commas; multiples of 1,000
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = thousands,
          default_values_t = [1_000_000, 10_000_000, 100_000_000])]
    pub(crate) sizes: Vec<u64>,

    /// Size of each entity's JSON, in bytes
    #[arg(long, value_enum, default_value = "100")]
    pub(crate) entity_bytes: EntitySize,

    /// Duration of each measurement except loads and scans, in seconds
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    pub(crate) seconds: u64,

    /// Number of concurrent connections
    #[arg(long, default_value_t = 16, value_parser = connections())]
    pub(crate) connections: usize,

    /// Size of the server's cache, in MiB
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    pub(crate) cache_mib: u64,
}

/// The time without a change of the disk space after which background work is considered finished.
const QUIET_TIME: Duration = Duration::from_secs(3);

pub(super) async fn quiet_disk_space(folder: &Path) -> anyhow::Result<u64> {
    let (mut last, mut since) = (disk_space(folder)?, Instant::now());
    while since.elapsed() < QUIET_TIME {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = disk_space(folder)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

/// Returns the size in bytes, including subfolders. Ignores files that are removed during the traversal.
pub(super) fn disk_space(folder: &Path) -> anyhow::Result<u64> {
    /// The unit of the block count, which Linux specifies but POSIX does not.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_space(&entry.path())?,
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(_) => 0,
        };
    }
    Ok(bytes)
}

pub(crate) const OPERATIONS_HEADING: &str = "\
| operation | read | entities | entities/s | CPU µs | database CPU µs | busiest node µs | generator CPU µs | p50 ms | p99.9 ms | longest ms | resident MiB |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Returns the figures of an operation. Rates and processor times are per entity.
pub(crate) fn operation_line(workload: Workload, reach: Reach, report: &Report) -> String {
    let share =
        if report.entities_per_second > 0.0 { report.operations_per_second / report.entities_per_second } else { 0.0 };
    let micros = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.2}"));
    let per_entity = |us: Option<f64>| micros(us.map(|us| us * share));
    let millis = |us: f64| format!("{:.1}", us / 1000.0);
    format!(
        "| {} | {} | {} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        workload.name(),
        reach.cell(workload),
        report.table_entities,
        report.entities_per_second,
        micros(report.cpu.as_ref().map(|cpu| cpu.us_per_entity)),
        per_entity(report.database_cpu_us_per_operation),
        per_entity(report.busiest_node.as_ref().map(|node| node.us_per_operation)),
        per_entity(Some(report.generator_cpu_us_per_operation)),
        millis(report.latency_us.p50),
        millis(report.latency_us.p999),
        millis(report.latency_us.max),
        report.resident_mib.map_or_else(String::new, |mib| format!("{mib:.0}")),
    )
}

/// The figures of the server and its folder at one size, each with its heading.
#[derive(Debug, Default)]
pub(crate) struct State(Vec<(&'static str, String)>);

impl State {
    pub(crate) fn add(&mut self, heading: &'static str, figure: f64, digits: usize) {
        self.0.push((heading, format!("{figure:.digits$}")));
    }

    pub(crate) fn heading(&self) -> String {
        let headings: Vec<_> = self.0.iter().map(|(heading, _)| *heading).collect();
        format!("| {} |\n|{}\n", headings.join(" | "), "---:|".repeat(headings.len()))
    }

    pub(crate) fn line(&self) -> String {
        let figures: Vec<_> = self.0.iter().map(|(_, figure)| figure.as_str()).collect();
        format!("| {} |\n", figures.join(" | "))
    }
}

/// Each entity may need a separate 16 KiB block, for a total of 64 MiB.
const CACHED_ENTITIES: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A working set that fits into the cache at every size.
    Cached,
    /// All entities, cached or not.
    All,
}

impl Reach {
    pub(crate) fn working_set(self) -> Option<u64> {
        (self == Self::Cached).then_some(CACHED_ENTITIES)
    }

    /// Returns the cell of a table, which is empty if the workload does not read.
    pub(crate) fn cell(self, workload: Workload) -> &'static str {
        match (workload, self) {
            (Workload::Insert | Workload::Upsert | Workload::Load, _) => "",
            (_, Self::Cached) => "cached",
            (_, Self::All) => "all",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::load::Tally;
    use crate::report::Gauge;

    #[test]
    fn lines_fit_their_headings() {
        let mut tally = Tally::default();
        tally.count_success(1000, Duration::from_micros(2500));
        tally.count_success(1000, Duration::from_micros(2500));
        let gauge = Gauge::start(&[]).unwrap();
        let report = gauge.report("query-page".to_owned(), 5000, 4, tally, Duration::from_millis(500)).unwrap();
        let report = Report { database_cpu_us_per_operation: Some(3000.0), ..report };
        let line = operation_line(Workload::QueryPage, Reach::All, &report);
        assert!(line.starts_with("| query-page | all | 5000 | 4000 |  | 3.00 |"), "{line}");
        let cells = |line: &str| line.lines().next().unwrap().split('|').count();
        assert_eq!(cells(&line), cells(OPERATIONS_HEADING));
    }
}
