//! `compare`: a server and its references, measured alternately, and the ratios between them.
//!
//! Invariants:
//!
//! 1. Each round measures the reference and the server of a line one after the other, so that a change in machine load
//!    affects both. The results are medians over the rounds.
//! 2. The servers run in separate processes, so their processor times are separate.

pub(crate) mod args;
mod line;

use crate::child::{self, Server, serve, serve_floors};
use crate::generator::workload::Workload;
use crate::process::Process;
use crate::report::budget::{Budget, median};
use crate::report::row::{Row, Table};
use crate::report::{Report, mebibytes};
use crate::run::{self, Measurement, Target};
use anyhow::Context;
use args::CompareArgs;
use line::{Line, Reference, lines};
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
    let mut table = Table::new(args.json)?;
    table.add(comparison.start_and_memory()?)?;
    for line in lines() {
        if args.only.as_ref().is_none_or(|text| line.name().contains(text.as_str())) {
            table.add(comparison.line(&line))?;
        }
    }
    table.finish()?;
    let is_complete = table.rows.iter().all(|row| row.note.is_none());
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
        let row = |figure: &str, bound: f64, values: Vec<f64>| {
            let value = median(values.into_iter());
            Row::new(("empty server", figure, "design"), (Some(bound), value), Budget::AtMost(1.0))
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
            let names = (line.name(), line.reference.to_string());
            let values = (of(&references), of(&servers));
            Row {
                other_value: of(&others),
                note: failure.clone(),
                ..Row::new((&names.0, figure.name(), &names.1), values, *budget)
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
