//! `growth`: the cost of reads and writes on a server at increasing table sizes.
//!
//! Invariants:
//!
//! 1. The reference, a server that stores nothing, is measured immediately before each measurement, so a change in
//!    machine load affects both.
//! 2. Only one data folder exists at a time. It is removed before the next one is filled.
//! 3. Reads are measured before writes, so they find sorted and compacted files. Inserts are measured last, because
//!    they enlarge the table.

mod table;

use crate::child::{Server, serve, serve_floors};
use crate::cli::GrowthArgs;
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT, Usage};
use crate::engine::filling::{Filling, disk_space, quiet_disk_space};
use crate::generator::reach::Reach;
use crate::generator::workload::Workload;
use crate::report::row::print_json;
use crate::report::{Report, mebibytes};
use crate::run::{self, Measurement};
use anyhow::Context;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use table::{Growth, Layout, Point};

/// The measurements in the order in which they run.
const LINES: [(Workload, Reach); 7] = [
    (Workload::Get, Reach::Cached),
    (Workload::Get, Reach::All),
    (Workload::QueryPage, Reach::Cached),
    (Workload::QueryPage, Reach::All),
    (Workload::QueryFilter, Reach::All),
    (Workload::Upsert, Reach::Cached),
    (Workload::Insert, Reach::Cached),
];

#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    point: &'a Point,
    #[serde(flatten)]
    growth: Growth,
}

struct GrowthRun<'a> {
    args: &'a GrowthArgs,
    binary: PathBuf,
    floor: Server,
    durable_floor: Server,
    /// Dropped last, so that the folder is not removed while a server uses it.
    folder: tempfile::TempDir,
}

pub(crate) fn run(args: &GrowthArgs) -> anyhow::Result<ExitCode> {
    let run = GrowthRun::start(args)?;
    let mut points = Vec::new();
    print_line(args, table::HEADING)?;
    for layout in [Layout::Many, Layout::One] {
        for entities in &args.sizes {
            if layout == Layout::Many || *entities <= args.one_partition_max {
                run.size(layout, *entities, &mut points)?;
            }
        }
    }
    if args.json {
        let compared: Vec<_> = points.iter().map(|point| Compared { point, growth: point.growth(&points) }).collect();
        print_json(&compared)?;
    }
    let is_good = |point: &Point| point.errors == 0 && point.growth(&points).is_met != Some(false);
    Ok(if points.iter().all(is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl<'a> GrowthRun<'a> {
    fn start(args: &'a GrowthArgs) -> anyhow::Result<Self> {
        let (binary, folder) = args.server.open()?;
        let (floor, durable_floor) = serve_floors(folder.path())?;
        Ok(Self { args, binary, floor, durable_floor, folder })
    }

    fn size(&self, layout: Layout, entities: u64, points: &mut Vec<Point>) -> anyhow::Result<()> {
        let folder = self.folder.path().join("data");
        let per_partition = if layout == Layout::Many { PER_PARTITION_DEFAULT } else { entities };
        fill(&folder, entities, per_partition)?;
        let server = self.serve(&folder)?;
        for (workload, reach) in LINES {
            // The reference does not support filters.
            let reference_workload = if workload == Workload::QueryFilter { Workload::QueryPage } else { workload };
            let measurement = self.measurement(workload, reach, entities, per_partition);
            let mut rounds = Vec::new();
            for _ in 0..self.args.rounds {
                let reference_measurement = self.measurement(reference_workload, reach, entities, per_partition);
                let reference =
                    run::measure(&self.reference(workload).target, &reference_measurement).context("the reference")?;
                let own = run::measure(&server.target, &measurement)?;
                rounds.push((own, reference));
            }
            report_failures(&rounds)?;
            let point =
                Point::from_rounds((layout, workload, reach), entities, &rounds).context("a figure is missing")?;
            points.push(point.clone());
            print_line(self.args, &table::line(&point, points))?;
        }
        server.stop()?;
        print_note(format_args!("{entities} entities, {layout}: {:.0} MiB on disk", mebibytes(disk_space(&folder)?)))?;
        std::fs::remove_dir_all(&folder).context("removing the data folder")
    }

    fn measurement(&self, workload: Workload, reach: Reach, entities: u64, per_partition: u64) -> Measurement {
        // A scan of the largest table takes seconds, so a single connection is enough.
        let connections = if workload == Workload::QueryFilter { 1 } else { self.args.connections };
        Measurement {
            per_partition,
            usage: Usage::Growing,
            working_set: reach.working_set(),
            ..Measurement::new(workload, entities, connections, Duration::from_secs(self.args.seconds))
        }
    }

    fn reference(&self, workload: Workload) -> &Server {
        match workload {
            Workload::Insert | Workload::Upsert => &self.durable_floor,
            _ => &self.floor,
        }
    }

    fn serve(&self, folder: &Path) -> anyhow::Result<Server> {
        serve(&self.binary, folder, &["--cache-mib", &self.args.cache_mib.to_string()])
    }
}

/// Waits until background work has finished.
fn fill(folder: &Path, entities: u64, per_partition: u64) -> anyhow::Result<()> {
    crate::runtime()?.block_on(async {
        let filling = Filling::open(folder, Dataset::new(entities, per_partition), Usage::Growing).await?;
        filling.write_once(0).await?;
        quiet_disk_space(folder).await?;
        filling.close().await
    })
}

fn report_failures(rounds: &[(Report, Report)]) -> anyhow::Result<()> {
    for report in rounds.iter().flat_map(|(own, reference)| [own, reference]) {
        if let Some(first) = &report.first_error {
            print_note(format_args!("{}: errors {:?}, first {first}", report.workload, report.errors))?;
        }
    }
    Ok(())
}

/// Prints immediately, because the whole table takes minutes.
fn print_line(args: &GrowthArgs, text: &str) -> anyhow::Result<()> {
    if args.json { Ok(()) } else { Ok(std::io::stdout().lock().write_all(text.as_bytes())?) }
}

/// Prints to standard error, so that standard output contains only the table.
fn print_note(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    writeln!(std::io::stderr().lock(), "{line}").context("writing to standard error")
}
