//! `compare`: a server and its references in alternation, and the ratios between them.
//!
//! Invariants:
//!
//! 1. Reference and server of a line are measured in turn, round by round, so that a change of the load of the machine
//!    affects both. The results are medians over the rounds.
//! 2. The servers and the engine run in separate processes, so that their processor times are separate.

pub(crate) mod args;
pub(crate) mod budget;
pub(crate) mod child;

use crate::process::Process;
use crate::report::{Report, mebibytes};
use crate::run::{self, Measurement, Target};
use crate::workload::Workload;
use anyhow::{Context, ensure};
use args::CompareArgs;
use budget::{Budget, Line, Reference, lines, median};
use child::{Server, serve, server_binary, temporary_folder};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tempfile::TempDir;

/// Longest acceptable start on an empty folder, in milliseconds.
const START_MILLISECONDS_MAX: f64 = 100.0;
/// Most memory of an idle server, in MiB: 40 MB.
const IDLE_MEBIBYTES_MAX: f64 = 38.1;

/// One row of the table: a figure and its ratio to the reference.
#[derive(Debug, Serialize)]
struct Row {
    line: String,
    figure: String,
    reference: String,
    reference_value: Option<f64>,
    value: Option<f64>,
    ratio: Option<f64>,
    budget: Budget,
    is_kept: Option<bool>,
    /// The same figure of the other server, if there is one.
    other_value: Option<f64>,
    /// Why a value is missing or wrong.
    note: Option<String>,
}

/// The processes and the parameters of a comparison.
struct Comparison {
    program: PathBuf,
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

/// Runs the comparison and prints its table.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let mut comparison = Comparison::start(args)?;
    let mut rows = vec![];
    show_heading(args)?;
    for row in comparison.start_and_memory()? {
        show(args, row, &mut rows)?;
    }
    for line in lines() {
        if args.only.as_ref().is_none_or(|text| line.name().contains(text.as_str())) {
            for row in comparison.line(&line) {
                show(args, row, &mut rows)?;
            }
        }
    }
    if args.json {
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&rows)?)?;
    }
    let is_complete = rows.iter().all(|row| row.note.is_none());
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Comparison {
    fn start(args: &CompareArgs) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let binary = server_binary(args.server_binary.as_deref())?;
        let folder = temporary_folder(args.folder.as_deref())?;
        let log = folder.path().join("durable-floor.log");
        let other_process = args.other_pid.map(Process::new);
        Ok(Self {
            floor: Server::start(Command::new(&program).arg("floor"))?,
            durable_floor: Server::start(Command::new(&program).args(["floor", "--durable"]).arg(log))?,
            server: serve(&binary, &folder.path().join("server"), &[])?,
            other: args.other.as_ref().map(|url| child::target(url, other_process)).transpose()?,
            program,
            binary,
            folder,
            entities: if args.quick { 10_000 } else { args.entities },
            time: Duration::from_secs(if args.quick { 1 } else { args.seconds }),
            rounds: if args.quick { 1 } else { args.rounds },
        })
    }

    /// The start time of an empty server, and its memory.
    fn start_and_memory(&self) -> anyhow::Result<[Row; 2]> {
        let (mut times, mut sizes) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let server = serve(&self.binary, &self.folder.path().join(format!("empty{round}")), &[])?;
            times.push(server.start_time.as_secs_f64() * 1e3);
            let process = server.target.process.context("a child has a process")?;
            sizes.push(mebibytes(process.resident()?.now));
        }
        let row = |figure: &str, bound: f64, values: Vec<f64>| {
            let value = median(values.into_iter());
            let ratio = value.map(|value| value / bound);
            Row {
                line: "empty server".to_owned(),
                figure: figure.to_owned(),
                reference: "design".to_owned(),
                reference_value: Some(bound),
                value,
                ratio,
                budget: Budget::AtMost(1.0),
                is_kept: ratio.map(|ratio| ratio <= 1.0),
                other_value: None,
                note: None,
            }
        };
        Ok([row("start ms", START_MILLISECONDS_MAX, times), row("resident MiB", IDLE_MEBIBYTES_MAX, sizes)])
    }

    /// Measures a line in rounds. Returns one row for each figure that is compared.
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
            let of = |reports: &[Report]| median(reports.iter().filter_map(|report| figure.of(report)));
            let (reference_value, value) = (of(&references), of(&servers));
            let ratio = value.zip(reference_value).map(|(value, reference)| value / reference);
            Row {
                line: line.name(),
                figure: figure.name().to_owned(),
                reference: line.reference.to_string(),
                reference_value,
                value,
                ratio,
                budget: *budget,
                is_kept: ratio.and_then(|ratio| budget.is_kept(ratio)),
                other_value: of(&others),
                note: failure.clone(),
            }
        });
        rows.collect()
    }

    /// A failure as text, after the name of the server that ended, if one did.
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
            Reference::FloorAndRawGet => self.floor_and_raw(line, &["get"]),
            Reference::FloorAndRawWrite => self.floor_and_raw(line, &["group64"]),
            Reference::FloorAndRawMerge => self.floor_and_raw(line, &["get", "group64"]),
            Reference::RawBatch => self.raw("batch100", line.connections),
            Reference::SingleInserts => {
                let single = Line { workload: Workload::Insert, connections: 1, ..line.clone() };
                run::measure(&self.server.target, &self.measurement(&single))
            }
            Reference::RawIterate => self.raw("iterate", 1),
            Reference::RawScan => self.raw("scan", 1),
        }
    }

    /// The floor server plus workloads of the engine.
    fn floor_and_raw(&self, line: &Line, workloads: &[&str]) -> anyhow::Result<Report> {
        let floor = run::measure(&self.floor.target, &self.measurement(line))?;
        workloads.iter().try_fold(floor, |sum, workload| Ok(sum.followed_by(&self.raw(workload, line.connections)?)))
    }

    /// The engine in a separate process, on its own folder.
    fn raw(&self, workload: &str, tasks: usize) -> anyhow::Result<Report> {
        let output = Command::new(&self.program)
            .args(["raw", "--json", "--workload", workload, "--tasks", &tasks.to_string()])
            .args(["--entities", &self.entities.to_string(), "--seconds", &self.time.as_secs().to_string()])
            .arg("--data")
            .arg(self.folder.path().join(format!("raw-{workload}")))
            .output()
            .context("starting this program")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        serde_json::from_slice(&output.stdout).context("reading the report")
    }
}

fn errors(report: &Report) -> Option<String> {
    report.first_error.as_ref().map(|first| format!("errors {:?}, first {first}", report.errors))
}

fn show_heading(args: &CompareArgs) -> anyhow::Result<()> {
    if !args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "| line | figure | reference | value | Rowhouse | ratio | budget | kept | other |")?;
        writeln!(out, "|---|---|---|---:|---:|---:|---|---|---:|")?;
    }
    Ok(())
}

/// Adds a row, and prints it at once, because the whole table takes minutes.
fn show(args: &CompareArgs, row: Row, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    if !args.json {
        let number = |value: Option<f64>| match value {
            None => "–".to_owned(),
            Some(value) if value >= 1000.0 => format!("{value:.0}"),
            Some(value) => format!("{value:.2}"),
        };
        let kept = match (&row.note, row.is_kept) {
            (Some(note), _) => note.replace(['\n', '|'], " "),
            (None, Some(true)) => "yes".to_owned(),
            (None, Some(false)) => "NO".to_owned(),
            (None, None) => String::new(),
        };
        let Row { line, figure, reference, budget, .. } = &row;
        let values = [row.reference_value, row.value, row.ratio].map(number).join(" | ");
        let other = row.other_value.map_or_else(String::new, |value| number(Some(value)));
        writeln!(
            std::io::stdout().lock(),
            "| {line} | {figure} | {reference} | {values} | {budget} | {kept} | {other} |"
        )?;
    }
    rows.push(row);
    Ok(())
}
