//! `compare`: a server and its references, measured alternately, and the ratios between them.
//!
//! Invariants:
//!
//! 1. Each round measures the reference and the server of a line one after the other, so that a change in machine load
//!    affects both. The results are medians over the rounds.
//! 2. The servers run in separate processes, so their processor times are separate.

use crate::child::{self, Server, ServerArgs, serve, serve_floors};
use crate::generator::workload::{BATCH_ENTITIES, Workload};
use crate::process::Process;
use crate::report::{Budget, Report, Row, mebibytes, median, print_heading};
use crate::run::{self, Measurement, Target};
use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;

/// The maximum startup time on an empty folder.
const START_MILLISECONDS_MAX: f64 = 100.0;
/// The maximum memory of an idle server: 40 MB.
const IDLE_MEBIBYTES_MAX: f64 = 38.1;

struct Comparison {
    binary: PathBuf,
    floor: Server,
    durable_floor: Server,
    server: Server,
    other: Option<Target>,
    entities: u64,
    time: Duration,
    rounds: u64,
    // Dropped last, so that the folder is not removed while a server uses it.
    folder: TempDir,
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let mut comparison = Comparison::start(args)?;
    print_heading()?;
    let mut is_complete = true;
    let mut print = |rows: &[Row]| {
        is_complete &= rows.iter().all(|row| row.note.is_none());
        rows.iter().try_for_each(Row::print)
    };
    print(&comparison.start_and_memory()?)?;
    for line in lines() {
        if args.only.as_ref().is_none_or(|text| line.name().contains(text.as_str())) {
            print(&comparison.line(&line))?;
        }
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Comparison {
    fn start(args: &CompareArgs) -> anyhow::Result<Self> {
        let (binary, folder) = args.server.open()?;
        let (floor, durable_floor) = serve_floors(folder.path())?;
        let other_process = args.other_pid.map(Process::new);
        Ok(Self {
            floor,
            durable_floor,
            server: serve(&binary, &folder.path().join("server"), &[])?,
            other: args.other.as_ref().map(|url| child::target(url, other_process)).transpose()?,
            binary,
            folder,
            entities: if args.quick { 10_000 } else { args.entities },
            time: Duration::from_secs(if args.quick { 1 } else { args.seconds }),
            rounds: if args.quick { 1 } else { args.rounds },
        })
    }

    fn start_and_memory(&self) -> anyhow::Result<[Row; 2]> {
        let (mut times, mut sizes) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let server = serve(&self.binary, &self.folder.path().join(format!("empty{round}")), &[])?;
            times.push(server.start_time.as_secs_f64() * 1e3);
            let process = server.target.process.context("a child must have a process")?;
            sizes.push(mebibytes(process.resident()?.now));
        }
        let row = |figure, bound: f64, values: Vec<f64>| Row {
            line: "empty server".to_owned(),
            figure,
            reference: "design".to_owned(),
            reference_value: Some(bound),
            value: median(values.into_iter()),
            budget: Budget::AtMost(1.0),
            other_value: None,
            note: None,
        };
        Ok([row("start ms", START_MILLISECONDS_MAX, times), row("resident MiB", IDLE_MEBIBYTES_MAX, sizes)])
    }

    /// Returns one row for each compared figure.
    fn line(&mut self, line: &Line) -> Vec<Row> {
        let (mut references, mut servers, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut failure = None;
        for _ in 0..self.rounds {
            let round = || -> anyhow::Result<_> {
                let measurement = self.measurement(line);
                let reference = self.reference(line).context("the reference")?;
                let server = run::measure(&self.server.target, &measurement)?;
                let other = self.other.as_ref().map(|other| run::measure(other, &measurement)).transpose();
                Ok((reference, server, other.context("the other server")?))
            };
            match round() {
                Ok((reference, server, other)) => {
                    failure = failure.or_else(|| errors(&server)).or_else(|| errors(&reference));
                    references.push(reference);
                    servers.push(server);
                    others.extend(other);
                }
                Err(error) => failure = Some(self.explain(&error)),
            }
        }
        let rows = line.checks.iter().map(|(figure, budget)| {
            let of = |reports: &[Report]| median(reports.iter().filter_map(|report| figure.value_in(report)));
            Row {
                line: line.name(),
                figure: figure.name(),
                reference: line.reference.to_string(),
                reference_value: of(&references),
                value: of(&servers),
                budget: *budget,
                other_value: of(&others),
                note: failure.clone(),
            }
        });
        rows.collect()
    }

    /// The description names the server that exited, if any.
    fn explain(&mut self, error: &anyhow::Error) -> String {
        let servers = [
            ("the floor", &mut self.floor),
            ("the durable floor", &mut self.durable_floor),
            ("Rowhouse", &mut self.server),
        ];
        let ended = servers.into_iter().find_map(|(name, server)| Some(format!("{name} ended, {}: ", server.end()?)));
        format!("{}{error:#}", ended.unwrap_or_default())
    }

    fn measurement(&self, line: &Line) -> Measurement {
        Measurement::new(line.workload, self.entities, line.connections, self.time)
    }

    fn reference(&self, line: &Line) -> anyhow::Result<Report> {
        match line.reference {
            Reference::Floor => run::measure(&self.floor.target, &self.measurement(line)),
            Reference::DurableFloor => run::measure(&self.durable_floor.target, &self.measurement(line)),
            Reference::SingleInserts => {
                let single = Line { workload: Workload::Insert, connections: 1, ..line.clone() };
                run::measure(&self.server.target, &self.measurement(&single))
            }
        }
    }
}

fn errors(report: &Report) -> Option<String> {
    report.first_error.as_ref().map(|first| format!("errors {:?}, first {first}", report.errors))
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Number of entities in the table
    #[arg(long, default_value_t = 100_000, value_parser = RangedU64ValueParser::<u64>::new().range(BATCH_ENTITIES..=1_000_000_000))]
    pub(crate) entities: u64,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=24 * 3600))]
    pub(crate) seconds: u64,

    /// Number of rounds of each measurement
    #[arg(long, default_value_t = 3, value_parser = RangedU64ValueParser::<u64>::new().range(1..=99))]
    pub(crate) rounds: u64,

    /// Run one round of one second on 10,000 entities, to check that everything works rather than to measure it
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only the lines whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Also measure the server at this URL. It must have the development account
    #[arg(long, value_name = "URL")]
    pub(crate) other: Option<String>,

    /// Process ID of the other server
    #[arg(long, requires = "other")]
    pub(crate) other_pid: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The floor server, which verifies signatures.
    Floor,
    /// The floor server, which also syncs the request bodies that it receives.
    DurableFloor,
    /// Rowhouse itself, with single inserts on one connection.
    SingleInserts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    CpuPerOperation,
    CpuPerEntity,
    OperationsPerSecond,
    EntitiesPerSecond,
    MedianLatency,
}

/// A workload measured on the server and on a reference, and the figures to compare.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
    pub(crate) reference: Reference,
    pub(crate) checks: Vec<(Figure, Budget)>,
}

impl Line {
    /// `--only` selects lines by this name.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}", self.workload.name(), self.connections)
    }
}

pub(crate) fn lines() -> Vec<Line> {
    use Budget::{AtLeast, AtMost};
    use Figure::{CpuPerEntity, CpuPerOperation, EntitiesPerSecond, MedianLatency, OperationsPerSecond};
    let mut lines = Vec::new();
    let mut add = |workload, connections, reference, checks: &[(Figure, Budget)]| {
        lines.push(Line { workload, connections, reference, checks: checks.to_vec() });
    };
    add(Workload::QueryPage, 1, Reference::Floor, &[(CpuPerEntity, Budget::None), (EntitiesPerSecond, Budget::None)]);
    for (connections, throughput) in [(1, Budget::None), (16, AtLeast(0.6)), (64, AtLeast(0.6))] {
        let checks = [(CpuPerOperation, AtMost(1.6)), (OperationsPerSecond, throughput)];
        add(Workload::Get, connections, Reference::Floor, &checks);
    }
    for workload in [Workload::Insert, Workload::Upsert, Workload::Merge] {
        // The design allows the duration of one sync plus a small overhead, but does not specify the overhead. This
        // budget allows 50%.
        let alone =
            [(MedianLatency, AtMost(1.5)), (CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(workload, 1, Reference::DurableFloor, &alone);
        let together = [(CpuPerOperation, AtMost(1.5)), (OperationsPerSecond, AtLeast(0.8))];
        add(workload, 64, Reference::DurableFloor, &together);
    }
    for (connections, throughput) in [(1, Budget::None), (4, AtLeast(0.65)), (16, Budget::None)] {
        let checks = [(EntitiesPerSecond, throughput), (CpuPerEntity, Budget::None)];
        add(Workload::Batch100, connections, Reference::DurableFloor, &checks);
    }
    // The benefit of transactions is shown for information only, because it depends on how long the disk takes to sync.
    add(Workload::Batch100, 1, Reference::SingleInserts, &[(EntitiesPerSecond, Budget::None)]);
    lines
}

impl Figure {
    /// Returns `None` if the figure was not measured.
    pub(crate) fn value_in(self, report: &Report) -> Option<f64> {
        match self {
            Self::CpuPerOperation => report.cpu.as_ref().map(|cpu| cpu.us_per_operation),
            Self::CpuPerEntity => report.cpu.as_ref().map(|cpu| cpu.us_per_entity),
            Self::OperationsPerSecond => Some(report.operations_per_second),
            Self::EntitiesPerSecond => Some(report.entities_per_second),
            Self::MedianLatency => Some(report.latency_us.p50),
        }
    }

    /// Returns the name of the figure, with its unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CpuPerOperation => "CPU µs per operation",
            Self::CpuPerEntity => "CPU µs per entity",
            Self::OperationsPerSecond => "operations/s",
            Self::EntitiesPerSecond => "entities/s",
            Self::MedianLatency => "median latency µs",
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::DurableFloor => "durable floor",
            Self::SingleInserts => "insert at 1",
        })
    }
}
