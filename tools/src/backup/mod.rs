//! `rowhouse backup` and `rowhouse restore`: snapshots of all data in a data folder, kept in a repository to which each
//! backup adds only the data that has changed.
//!
//! `docs/backup-format.md` describes the files of the repository. This module must not know how an engine stores its
//! data.

mod args;
mod create;
mod endpoint;
mod listing;
mod read;
mod repository;
mod restore;
mod selection;
mod snapshot;
mod verify;

pub use args::{BACKUP_EXAMPLES, BackupArgs, RESTORE_EXAMPLES, RestoreArgs};
pub use snapshot::ControlSocket;
pub(crate) use snapshot::{SnapshotCheck, check_snapshot};
pub(crate) use verify::verify;

use crate::copy::{self, TableCopy};
use crate::endpoints::{EndpointOption, read_location};
use crate::runtime::{block_on, run_blocking};
use crate::terminal::{HumanCount, notice, print, print_line};
use anyhow::{Context, anyhow, bail, ensure};
use create::BackupSummary;
use endpoint::BackupSource;
use model::DateTime;
use read::BackupChoice;
use repository::{BackupManifest, RemovalSummary, Repository};
use selection::RestoreSelection;
use serde_json::json;
use snapshot::{IncomingSnapshot, open_snapshot};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Runs `rowhouse backup`. Returns a failure exit code if `--verify` finds damage.
pub fn run_backup(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.list {
        let backups = listing::list(&Repository::open(path)?)?;
        if args.json {
            print(&listing::json(&backups))?;
        } else {
            listing::text(&backups).lines().try_for_each(print_line)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.verify {
        let is_intact = verify(path, args.quiet, args.json)?;
        return Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    back_up(args).map(|()| ExitCode::SUCCESS)
}

fn back_up(args: &BackupArgs) -> anyhow::Result<()> {
    ensure!(
        args.data.is_some() || args.store.is_none(),
        "back up data in a database with the tools of the database: pg_dump takes a snapshot while servers run, and with an \
         archive of the write-ahead log, you can restore the database to any point in time (docs/backup.md). To back up a data folder, pass it with --data"
    );
    let data = args.data.as_deref().unwrap_or(Path::new("rowhouse-data"));
    let to = args.to.as_deref().context("pass the folder for the backups with --to")?;
    ensure!(!is_inside(to, data), "the folder for the backups must not be inside the data folder: {}", to.display());
    let began = Instant::now();
    let (snapshot, repository) = (open_snapshot(data)?, Repository::create_or_open(to)?);
    let repository = Arc::new(repository);
    let shared = Arc::clone(&repository);
    let summary = run_blocking("backing up", args.quiet, move |progress, stop| {
        let IncomingSnapshot { input, sender } = snapshot;
        sender.finish(create::create(input, &shared, progress, stop))
    })?;
    let removal = match (args.keep, Arc::into_inner(repository)) {
        (Some(count), Some(repository)) => repository.remove_old(usize::try_from(count)?, &summary.id),
        _ => Ok(RemovalSummary::default()),
    };
    // The backup is complete even if removing old backups fails.
    let removed = removal.as_ref().copied().unwrap_or_default();
    if args.json {
        print(&format_args!("{}\n", summary_json(&summary, removed, began)))?;
    } else if !args.quiet {
        print_summary(&summary, removed)?;
    }
    removal.map(drop)
}

fn summary_json(summary: &BackupSummary, removed: RemovalSummary, began: Instant) -> serde_json::Value {
    json!({
        "backup": summary.id,
        "time": summary.time,
        "tables": summary.tables,
        "entities": summary.entities,
        "bytes": summary.bytes,
        "chunks": summary.chunks,
        "new_chunks": summary.new_chunks,
        "new_bytes": summary.new_bytes,
        "removed_backups": removed.backups,
        "removed_chunks": removed.chunks,
        "removed_bytes": removed.bytes,
        "seconds": began.elapsed().as_secs_f64(),
    })
}

fn print_summary(summary: &BackupSummary, removed: RemovalSummary) -> anyhow::Result<()> {
    print_line(format_args!(
        "backup {}: {} of {} chunks are new, {} bytes",
        summary.id,
        HumanCount(summary.new_chunks),
        HumanCount(summary.chunks),
        HumanCount(summary.new_bytes)
    ))?;
    if removed.backups + removed.chunks == 0 {
        return Ok(());
    }
    let (chunks, bytes) = (HumanCount(removed.chunks), HumanCount(removed.bytes));
    print_line(format_args!("removed {} old backups and {chunks} chunks, {bytes} bytes", removed.backups))
}

/// Runs `rowhouse restore`.
pub fn run_restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let choice = match (&args.backup, &args.at) {
        (Some(id), _) if id != "latest" => BackupChoice::Named(id.clone()),
        (_, Some(at)) => BackupChoice::At(parse_instant(at)?),
        _ => BackupChoice::Latest,
    };
    let selection = RestoreSelection::parse(&args.tables)?;
    let repository = Repository::open(&args.from)?;
    let (id, manifest) = choice.find(&repository)?;
    match args.data.as_deref() {
        Some(folder) => restore_folder(args, repository, &id, manifest, selection, folder)?,
        None => restore_tables(args, repository, &id, manifest, &selection)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn restore_folder(
    args: &RestoreArgs,
    repository: Repository,
    id: &str,
    manifest: BackupManifest,
    selection: RestoreSelection,
    folder: &Path,
) -> anyhow::Result<()> {
    let (time, target) = (manifest.time.clone(), folder.to_owned());
    if !args.quiet {
        notice(format_args!("backup {id} has {} entities", HumanCount(manifest.entities())));
    }
    let began = Instant::now();
    let restored = run_blocking("restoring", args.quiet, move |progress, stop| {
        restore::restore(&repository, &manifest, &selection, &target, progress, stop)
    });
    let restored = restored.with_context(|| format!("restoring into {}", folder.display()))?;
    if args.json {
        let (tables, entities) = (restored.tables, restored.entities);
        let seconds = began.elapsed().as_secs_f64();
        let summary = json!({ "backup": id, "time": time, "tables": tables, "entities": entities, "seconds": seconds });
        print(&format_args!("{summary}\n"))?;
    } else if !args.quiet {
        print_line(format_args!("restored backup {id} into {}", folder.display()))?;
    }
    Ok(())
}

fn restore_tables(
    args: &RestoreArgs,
    repository: Repository,
    id: &str,
    manifest: BackupManifest,
    selection: &RestoreSelection,
) -> anyhow::Result<()> {
    let into = args.into.as_deref().context("pass the target of the restore with --data or --into")?;
    let wanted = selection.choose(&manifest)?;
    let tables = wanted.iter().map(|wanted| {
        let from = wanted.content.table.decode()?.table;
        anyhow::Ok(TableCopy { from, to: wanted.target.table.clone() })
    });
    let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;
    let from_name = format!("backup {id}: {}", args.tables.join(" "));
    let from = Arc::new(BackupSource::new(repository, manifest)?);
    let into = read_location(EndpointOption::Into, into, args.into_key_file.as_deref())?;
    if !block_on(copy::restore((from, from_name), into, tables))? {
        // The URL may contain a secret.
        bail!("after the restore, the target of --into differs from the backup; another client may be writing to it");
    }
    Ok(())
}

fn parse_instant(text: &str) -> anyhow::Result<DateTime> {
    DateTime::parse(text).map_err(|_| anyhow!("'{text}' is not a valid time: write it like 2031-03-01T09:30:00Z"))
}

/// Neither the path nor the folder has to exist.
fn is_inside(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    // A relative path does not contain the ancestors of the current folder.
    let Ok(path) = std::path::absolute(path) else { return false };
    let existing = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    existing.is_some_and(|path| path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_in_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(is_inside(Path::new("no-such-folder"), &here));
        assert!(is_inside(Path::new("no-such-folder"), Path::new(".")));
        assert!(!is_inside(Path::new("../no-such-folder"), &here));
        assert!(!is_inside(Path::new("no-such-folder"), Path::new("no-such-data")));
    }
}
