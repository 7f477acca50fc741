//! `rowhouse backup` and `rowhouse restore`: snapshots of all data in a data folder, kept in a repository to which each
//! backup adds only the data that has changed.
//!
//! `docs/backup-format.md` describes the files of the repository. This module must not know how an engine stores its
//! data.

mod args;
mod base;
mod coverage;
mod create;
mod endpoint;
mod follow;
mod listing;
mod read;
mod replay;
mod repository;
mod restore;
mod snapshot;
mod verify;

pub use args::{BACKUP_EXAMPLES, BackupArgs, RESTORE_EXAMPLES, RepositoryAddress, RestoreArgs};
pub use snapshot::ControlSocket;
pub(crate) use snapshot::{SnapshotCheck, check_snapshot};
pub(crate) use verify::verify;

use crate::copy::{self, TableCopy};
use crate::endpoints::{EndpointOption, Location, open_endpoint, read_location};
use crate::file::ScratchFolder;
use crate::option_values::parse_duration;
use crate::runtime::{block_on, run_blocking};
use crate::terminal::{HumanCount, counted, notice, print, print_line};
use anyhow::{Context, anyhow, bail, ensure};
use coverage::{CoveringBackup, ListedParts, Target};
use create::BackupSummary;
use endpoint::BackupSource;
use follow::{FollowStep, Follower};
use model::DateTime;
use read::BackupChoice;
use replay::RestorableState;
use repository::{PartRange, RemovalSummary, Repository};
use restore::{RestoreSelection, RestoreSource, RestoreSummary, RestoredTable};
use serde_json::json;
use snapshot::{IncomingSnapshot, open_snapshot, require_data_folder};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// The newest backup, or the end of the log.
const LATEST: &str = "latest";

/// Runs `rowhouse backup`. Returns a failure exit code if `--verify` finds damage.
pub fn run_backup(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    if let Some(address) = &args.list {
        let backups = listing::list(&Repository::open(address)?)?;
        if args.json {
            print(&listing::json(&backups))?;
        } else {
            listing::text(&backups).lines().try_for_each(print_line)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(address) = &args.verify {
        let is_intact = verify(address, args.quiet, args.json)?;
        return Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    back_up(args).map(|()| ExitCode::SUCCESS)
}

/// Adds the log of a running server until a signal stops it.
fn follow(args: &BackupArgs, data: &Path, to: &RepositoryAddress) -> anyhow::Result<()> {
    let (is_quiet, is_json) = (args.quiet, args.json);
    let report = move |step| match step {
        FollowStep::BackedUp(summary, removed) if is_json => print(&format_args!("{}\n", step_json(&summary, removed))),
        FollowStep::BackedUp(summary, removed) if !is_quiet => print_summary(&summary, removed),
        FollowStep::Added { part, transactions } if is_json => {
            let PartRange { next, until, .. } = part.range;
            let (part, until) = (part.to_string(), repository::seven_digits(until));
            let step = json!({ "part": part, "transactions": transactions, "next": next, "restorable_to": until });
            print(&format_args!("{step}\n"))
        }
        FollowStep::BackedUp(..) | FollowStep::Added { .. } => Ok(()),
    };
    let every = parse_duration(&args.every).filter(|every| !every.is_zero());
    let every = every.with_context(|| {
        format!("'{}' is not a valid value of --every: write a number and s, m, h or d, such as 5s", args.every)
    })?;
    let keep = args.keep.map(usize::try_from).transpose()?;
    let follower = Follower { data: data.to_owned(), to: to.clone(), every, keep, report };
    if !is_quiet && !is_json {
        notice(format_args!("following {}; Ctrl-C stops", data.display()));
    }
    run_blocking("following", true, move |progress, stop| follower.run(progress, stop))
}

fn back_up(args: &BackupArgs) -> anyhow::Result<()> {
    ensure!(
        args.data.is_some() || args.store.is_none(),
        "back up data in a database with the tools of the database: pg_dump takes a snapshot while servers run, and with an \
         archive of the write-ahead log, you can restore the database to any point in time (docs/backup.md). To back up a data folder, pass it with --data"
    );
    let data = args.data.as_deref().unwrap_or(Path::new("rowhouse-data"));
    let to = args.to.as_ref().context("pass the place for the backups with --to")?;
    let is_inside = matches!(to, RepositoryAddress::Folder(path) if is_inside(path, data));
    ensure!(!is_inside, "the folder for the backups must not be inside the data folder: {to}");
    if args.follow {
        return follow(args, data, to);
    }
    let began = Instant::now();
    require_data_folder(data)?;
    let repository = Arc::new(Repository::create_or_open(to)?);
    // The server does not wait long for a client that does not read the snapshot.
    repository.begin_backup()?;
    let snapshot = open_snapshot(data)?;
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
        let mut value = step_json(&summary, removed);
        if let Some(members) = value.as_object_mut() {
            members.insert("seconds".to_owned(), began.elapsed().as_secs_f64().into());
        }
        print(&format_args!("{value}\n"))?;
    } else if !args.quiet {
        print_summary(&summary, removed)?;
    }
    removal.map(drop)
}

fn step_json(summary: &BackupSummary, removed: RemovalSummary) -> serde_json::Value {
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
        "removed_parts": removed.parts,
        "removed_bytes": removed.bytes,
    })
}

fn print_summary(summary: &BackupSummary, removed: RemovalSummary) -> anyhow::Result<()> {
    print_line(format_args!(
        "backup {}: {} of {} {} new, {} bytes",
        summary.id,
        HumanCount(summary.new_chunks),
        counted(summary.chunks, "chunk", "chunks"),
        if summary.new_chunks == 1 { "is" } else { "are" },
        HumanCount(summary.new_bytes)
    ))?;
    if removed.backups + removed.chunks + removed.parts == 0 {
        return Ok(());
    }
    print_line(format_args!(
        "removed {}, {} and {} of the log, {} bytes",
        counted(removed.backups, "old backup", "old backups"),
        counted(removed.chunks, "chunk", "chunks"),
        counted(removed.parts, "part", "parts"),
        HumanCount(removed.bytes)
    ))
}

/// Runs `rowhouse restore`.
pub fn run_restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let selection = RestoreSelection::parse(&args.tables)?;
    let target = args.to.as_deref().filter(|to| *to != LATEST).map(Target::parse).transpose()?;
    let choice = match (&args.backup, &args.at) {
        (Some(id), _) if id == LATEST => Some(BackupChoice::Latest),
        (Some(id), _) => Some(BackupChoice::Named(id.clone())),
        (None, at) => at.as_deref().map(parse_instant).transpose()?.map(BackupChoice::At),
    };
    let repository = Repository::open(&args.from)?;
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let CoveringBackup { id, manifest, log } = match (choice, target) {
        (Some(choice), _) => choice.find(&repository)?,
        (None, Some(target)) => coverage::find(&repository, target)?,
        (None, None) => coverage::find_latest(&repository)?,
    };
    let source = RestoreSource { repository, manifest, log, scratch, without_retention: args.without_retention };
    match args.data.as_deref() {
        Some(folder) => restore_folder(args, &id, source, selection, folder)?,
        None => restore_tables(args, &id, source, selection)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn restore_folder(
    args: &RestoreArgs,
    id: &str,
    source: RestoreSource,
    selection: RestoreSelection,
    folder: &Path,
) -> anyhow::Result<()> {
    let (time, to) = (source.manifest.time.clone(), source.log.as_ref().map(|(_, target)| *target));
    let and_log = to.map(|to| format!(" and the log up to {to}")).unwrap_or_default();
    let later = match &source.log {
        Some(_) => None,
        None => ListedParts::list(&source.repository)?.continuation(&source.manifest).and_then(|log| log.until),
    };
    if !args.quiet {
        let entities = counted(source.manifest.entities(), "entity", "entities");
        notice(format_args!("restoring backup {id} of {entities}{and_log}"));
    }
    let (began, path) = (Instant::now(), folder.to_owned());
    let restored = run_blocking("restoring", args.quiet, move |progress, stop| {
        restore::restore(&source, &selection, &path, progress, stop)
    });
    let restored = restored.with_context(|| format!("restoring into {}", folder.display()))?;
    report_expired(&restored);
    if args.json {
        let (tables, entities) = (restored.tables, restored.entities);
        let expired: u64 = restored.expired.iter().map(|(_, count)| count).sum();
        let seconds = began.elapsed().as_secs_f64();
        let mut summary = json!({
            "backup": id,
            "time": time,
            "tables": tables,
            "entities": entities,
            "expired": expired,
            "seconds": seconds,
        });
        let details = [("to", to.map(|to| to.to_string())), ("restorable_to", later.map(repository::seven_digits))];
        if let Some(members) = summary.as_object_mut() {
            members.extend(details.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
        }
        print(&format_args!("{summary}\n"))?;
    } else if !args.quiet {
        print_line(format_args!("restored backup {id}{and_log} into {}", folder.display()))?;
        if let Some(until) = later {
            let until = repository::seven_digits(until);
            print_line(format_args!("the log continues this backup until {until}; --to {until} restores that state"))?;
        }
    }
    Ok(())
}

/// Expired entities are restored, but clients do not see them, and a server deletes them.
fn report_expired(restored: &RestoreSummary) {
    for (table, count) in &restored.expired {
        notice(format_args!(
            "{} of {}/{} expired by the retention of the table, so no client sees them; to restore them, run the command \
             again with --without-retention and a new target",
            counted(*count, "entity", "entities"),
            table.account,
            table.name
        ));
    }
}

fn restore_tables(
    args: &RestoreArgs,
    id: &str,
    source: RestoreSource,
    selection: RestoreSelection,
) -> anyhow::Result<()> {
    let into = args.into.as_deref().context("pass the target of the restore with --data or --into")?;
    let into = read_location(EndpointOption::Into, into, args.into_key_file.as_deref())?;
    let mut names = args.tables.join(" ");
    if args.without_retention {
        names.push_str(" without retention");
    }
    let is_equal = if let Some((_, target)) = source.log {
        if args.to.as_deref().is_none_or(|to| to == LATEST) {
            notice(format_args!("restoring the state at {target}; after an interruption, continue with --to {target}"));
        }
        restore_tables_through_folder(source, selection, format!("log up to {target}: {names}"), into)?
    } else {
        let from_name = format!("backup {id}: {names}");
        let wanted = selection.choose(&RestorableState::new(&source.manifest)?.tables)?;
        if wanted.iter().any(|table| table.source.table.settings.retention.is_some()) {
            restore_tables_through_folder(source, selection, from_name, into)?
        } else {
            let tables = wanted.iter().map(table_copy).collect();
            let entities = wanted.iter().map(|table| table.source.entities()).sum();
            let from = Arc::new(BackupSource::new(source.repository, source.manifest.clone())?);
            block_on(copy::restore((from, from_name), into, tables, Some(entities)))?
        }
    };
    if !is_equal {
        // The URL may contain a secret.
        bail!("after the restore, the target of --into differs from the backup; another client may be writing to it");
    }
    Ok(())
}

/// Restores the tables into a temporary data folder, whose engine hides expired entities, and copies them from there.
/// Returns true if both sides are equal.
fn restore_tables_through_folder(
    source: RestoreSource,
    selection: RestoreSelection,
    from_name: String,
    into: Location,
) -> anyhow::Result<bool> {
    let scratch = ScratchFolder::create(&source.scratch, "restore")?;
    let folder = scratch.path().join("data");
    let path = folder.clone();
    let tables = run_blocking("restoring", false, move |progress, stop| {
        let (wanted, restored) = restore::restore_unnamed(&source, &selection, &path, progress, stop)?;
        report_expired(&restored);
        Ok(wanted.iter().map(table_copy).collect())
    })?;
    block_on(async {
        let from = open_endpoint(EndpointOption::From, Location::Folder(folder), true, 1).await?;
        let is_equal = copy::restore((Arc::clone(&from) as _, from_name), into, tables, None).await;
        from.close().await.context("closing the temporary data folder")?;
        is_equal
    })
}

fn table_copy(table: &RestoredTable<'_>) -> TableCopy {
    TableCopy { from: table.source.table.table.clone(), to: table.target.table.clone() }
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
mod tests;
