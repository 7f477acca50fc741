//! `recovery`: the startup time of a server, and the disk space of repeatedly overwritten entities.
//!
//! Invariant: a server is killed right after writes, so its log is as long as possible.

use crate::child::serve;
use crate::cli::RecoveryArgs;
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT, Usage};
use crate::engine::filling::{Filling, disk_space, quiet_disk_space};
use crate::generator::workload::Workload;
use crate::report::budget::median;
use crate::report::mebibytes;
use crate::run::{self, Measurement};
use anyhow::Context;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const CLEAN_START_SECONDS_MAX: f64 = 1.0;
const KILLED_START_SECONDS_MAX: f64 = 5.0;
const WRITING_TIME: Duration = Duration::from_secs(8);
const WRITING_CONNECTIONS: usize = 4;

pub(crate) fn run(args: &RecoveryArgs) -> anyhow::Result<ExitCode> {
    let (binary, place) = args.server.open()?;
    let runtime = crate::runtime()?;

    let folder = place.path().join("started");
    runtime.block_on(write_rounds(&folder, args.entities, 0..=0, |_, _| Ok(())))?;
    print_line(format_args!("{} entities, {:.0} MiB on disk", args.entities, mebibytes(disk_space(&folder)?)))?;
    let clean = starts(args.starts, || {
        let server = serve(&binary, &folder, &[])?;
        let time = server.start_time;
        server.stop()?;
        Ok((time, String::new()))
    })?;
    print_line(format_args!(
        "after a clean shutdown: {clean:.3} s until it serves (budget {CLEAN_START_SECONDS_MAX} s)"
    ))?;
    let killed = starts(args.starts, || {
        let server = serve(&binary, &folder, &[])?;
        let entities = args.entities.min(1000);
        let writing = Measurement::new(Workload::Batch100, entities, WRITING_CONNECTIONS, WRITING_TIME);
        run::measure(&server.target, &writing)?;
        drop(server);
        let log = mebibytes(log_space(&folder)?);
        let server = serve(&binary, &folder, &[])?;
        let time = server.start_time;
        Ok((time, format!("{log:.0} MiB of log")))
    })?;
    print_line(format_args!("after kill -9: {killed:.3} s until it serves (budget {KILLED_START_SECONDS_MAX} s)"))?;

    let folder = place.path().join("overwritten");
    let show = |round: u64, bytes: u64| {
        print_line(format_args!(
            "{} entities written {} times: {:.0} MiB",
            args.overwritten,
            round + 1,
            mebibytes(bytes)
        ))
    };
    runtime.block_on(write_rounds(&folder, args.overwritten, 0..=args.rounds, show))?;
    let is_met = clean <= CLEAN_START_SECONDS_MAX && killed <= KILLED_START_SECONDS_MAX;
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the median of the startup times.
fn starts(count: u64, start: impl Fn() -> anyhow::Result<(Duration, String)>) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..count {
        let (time, note) = start()?;
        print_line(format_args!("  {:.3} s {note}", time.as_secs_f64()))?;
        times.push(time.as_secs_f64());
    }
    median(times.into_iter()).context("nothing was measured")
}

/// Reports the disk space after each round, once background work has finished.
async fn write_rounds(
    folder: &Path,
    entities: u64,
    rounds: std::ops::RangeInclusive<u64>,
    mut show: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let dataset = Dataset::new(entities, PER_PARTITION_DEFAULT);
    let filling = Filling::open(folder, dataset, Usage::Overwritten).await?;
    for round in rounds {
        filling.write_once(round).await?;
        show(round, quiet_disk_space(folder).await?)?;
    }
    filling.close().await
}

/// Returns the size of the log's live segments in bytes. Startup does not read other files of the log.
fn log_space(folder: &Path) -> anyhow::Result<u64> {
    let log = folder.join("log");
    let mut bytes = 0;
    for entry in fs::read_dir(&log).with_context(|| format!("reading {}", log.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            bytes += fs::metadata(&path)?.len();
        }
    }
    Ok(bytes)
}

fn print_line(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("writing to standard output")
}
