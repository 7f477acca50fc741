//! `recovery`: how long a server takes until it serves, and the disk space of entities that are written again and again.
//!
//! Invariant: a server that is killed has just been written to, so that its journals are as full as they get.

use crate::cli::RecoveryArgs;
use crate::compare::budget::median;
use crate::compare::child::Server;
use crate::dataset::{Dataset, PER_PARTITION_DEFAULT, Usage};
use crate::report::mebibytes;
use crate::request::DEVELOPMENT_ACCOUNT;
use crate::run::{self, Measurement};
use crate::workload::{BATCH_ENTITIES, Workload};
use anyhow::{Context, anyhow, ensure};
use model::clock::SystemClock;
use model::{AccountName, Mutation, TableName, Transaction};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Embedded, EmbeddedOptions, Engine, TableKey};
use tokio::task::JoinSet;

/// Longest acceptable times until a server serves, in seconds.
const CLEAN_START_SECONDS_MAX: f64 = 1.0;
const KILLED_START_SECONDS_MAX: f64 = 5.0;
/// How long a server is written to before it is killed.
const WRITING_TIME: Duration = Duration::from_secs(8);
const WRITING_CONNECTIONS: usize = 4;
/// Tasks that fill a folder.
const FILL_TASKS: u64 = 4;
/// Background work has ended when the disk space has not changed for this long.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// Measures and prints, line by line.
pub(crate) fn run(args: &RecoveryArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("finding this program")?;
    let binary = args.server_binary.clone().unwrap_or_else(|| program.with_file_name("rowhouse"));
    ensure!(binary.is_file(), "{} is not there; build it or name it with --server-binary", binary.display());
    let place = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let place = place.context("making a temporary folder")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;

    let folder = place.path().join("started");
    runtime.block_on(write_rounds(&folder, args.entities, 0..=0, |_, _| Ok(())))?;
    say(format_args!("{} entities, {:.0} MiB on disk", args.entities, mebibytes(disk_space(&folder)?)))?;
    let clean = starts(args.starts, || {
        let server = serve(&binary, &folder)?;
        let time = server.start_time;
        server.stop()?;
        Ok((time, String::new()))
    })?;
    say(format_args!("after a stop in order: {clean:.3} s until it serves (budget {CLEAN_START_SECONDS_MAX} s)"))?;
    let killed = starts(args.starts, || {
        let server = serve(&binary, &folder)?;
        let writing = Measurement {
            workload: Workload::Batch100,
            entities: args.entities.min(1000),
            per_partition: PER_PARTITION_DEFAULT,
            connections: WRITING_CONNECTIONS,
            time: WRITING_TIME,
        };
        run::measure(&server.target, &writing)?;
        drop(server);
        let journals = mebibytes(journal_space(&folder)?);
        let server = serve(&binary, &folder)?;
        let time = server.start_time;
        Ok((time, format!("{journals:.0} MiB of journals")))
    })?;
    say(format_args!("after kill -9: {killed:.3} s until it serves (budget {KILLED_START_SECONDS_MAX} s)"))?;

    let folder = place.path().join("overwritten");
    let show = |round: u64, bytes: u64| {
        say(format_args!("{} entities written {} times: {:.0} MiB", args.overwritten, round + 1, mebibytes(bytes)))
    };
    runtime.block_on(write_rounds(&folder, args.overwritten, 0..=args.rounds, show))?;
    let is_kept = clean <= CLEAN_START_SECONDS_MAX && killed <= KILLED_START_SECONDS_MAX;
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The median of some starts, each of which is shown.
fn starts(count: u64, start: impl Fn() -> anyhow::Result<(Duration, String)>) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..count {
        let (time, note) = start()?;
        say(format_args!("  {:.3} s {note}", time.as_secs_f64()))?;
        times.push(time.as_secs_f64());
    }
    median(times.into_iter()).context("nothing was measured")
}

/// Writes every entity once a round, and tells of the disk space after each, when background work has ended.
async fn write_rounds(
    folder: &Path,
    entities: u64,
    rounds: std::ops::RangeInclusive<u64>,
    mut show: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let engine = Arc::new(Embedded::open(folder, &EmbeddedOptions::default(), SystemClock)?);
    let dataset = Arc::new(Dataset::new(entities, PER_PARTITION_DEFAULT));
    let name = dataset.table(Usage::Overwritten);
    let table = TableKey {
        account: AccountName::new(DEVELOPMENT_ACCOUNT).context("the account's name follows the rules")?,
        name: TableName::new(&name).map_err(|error| anyhow!("{name}: {error:?}"))?,
    };
    engine.create_table(&table).await.map_err(|error| anyhow!("creating the table: {error:?}"))?;
    for round in rounds {
        write_once(&engine, &table, &dataset, round).await?;
        show(round, quiet_disk_space(folder).await?)?;
    }
    engine.close().await.context("closing the data folder")?;
    Ok(())
}

/// Writes every entity once.
async fn write_once(engine: &Arc<Embedded>, table: &TableKey, dataset: &Arc<Dataset>, salt: u64) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for _ in 0..FILL_TASKS {
        let (engine, dataset, table) = (Arc::clone(engine), Arc::clone(dataset), table.clone());
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH_ENTITIES, Ordering::Relaxed);
                if first >= dataset.entities {
                    return Ok(());
                }
                let numbers = first..(first + BATCH_ENTITIES).min(dataset.entities);
                let mutations = numbers.map(|number| Mutation::InsertOrReplace {
                    key: dataset.key(number),
                    properties: dataset.record(number, salt),
                });
                let transaction = Transaction::new(mutations.collect()).map_err(|error| anyhow!("{error:?}"))?;
                engine.commit(&table, transaction).await.map_err(|error| anyhow!("writing: {error:?}"))?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The disk space of a folder once it does not change any more.
async fn quiet_disk_space(folder: &Path) -> anyhow::Result<u64> {
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

fn serve(binary: &Path, folder: &Path) -> anyhow::Result<Server> {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"]).arg(folder);
    Server::start(&mut command)
}

/// The blocks that the files below a folder take, in bytes. Files that vanish meanwhile take none.
fn disk_space(folder: &Path) -> anyhow::Result<u64> {
    /// What the file system counts in.
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

/// The length of the journals of a data folder, in bytes.
fn journal_space(folder: &Path) -> anyhow::Result<u64> {
    let database: PathBuf = folder.join("database");
    let mut bytes = 0;
    for entry in fs::read_dir(&database).with_context(|| format!("reading {}", database.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            bytes += fs::metadata(&path)?.len();
        }
    }
    Ok(bytes)
}

fn say(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("writing to standard output")
}
