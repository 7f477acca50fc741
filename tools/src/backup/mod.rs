//! `rowhouse backup` and `rowhouse restore`: everything of a data folder as it is at one instant, kept in a repository
//! that grows by what has changed.
//!
//! `frames.rs` carries a snapshot from the process that has the folder open, `create.rs` parts it into chunks
//! (`chunk.rs`) and stores them in a repository (`repository.rs`) with a manifest (`manifest.rs`). `read.rs` reads what is
//! there, for `restore.rs` and `verify.rs`. `docs/backup-format.md` describes what is on disk.

mod args;
mod block;
mod chunk;
mod control;
mod create;
mod frames;
mod listing;
mod manifest;
mod online;
mod place;
mod read;
mod repository;
mod restore;
mod source;
mod tables;
mod verify;

pub use args::{BACKUP_EXAMPLES, BackupArgs, RESTORE_EXAMPLES, RestoreArgs};
pub use control::Control;
pub(crate) use frames::{send_failure, send_refusal};
pub(crate) use online::Checked;

use crate::copy::{Outcome, Restoration, Task};
use crate::endpoints::{Progress, grouped};
use crate::stop::stop_signal;
use anyhow::{Context, anyhow, ensure};
use create::Added;
use manifest::{Manifest, seven_digits};
use model::clock::SystemClock;
use model::{Clock, DateTime};
use place::BackupPlace;
use read::Choice;
use repository::{Removed, Repository};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use store::{Snapshot, SnapshotError};
use tables::RestoreSelection;

/// Sends a snapshot to whoever makes a backup of it.
pub(crate) fn send(out: &mut impl Write, snapshot: &dyn Snapshot) -> Result<(), SnapshotError> {
    frames::send(out, snapshot, seven_digits(SystemClock.now()))
}

/// Makes a backup, or says what backups there are.
pub fn back_up(args: &BackupArgs) -> anyhow::Result<bool> {
    if let Some(path) = &args.list {
        let listed = listing::listed(&Repository::open(path)?)?;
        crate::terminal::print(&if args.json { listing::json(&listed) } else { listing::text(&listed) })?;
        return Ok(true);
    }
    if let Some(path) = &args.verify {
        return verify(path, args.quiet, args.json);
    }
    ensure!(
        args.data.is_some() || args.store.is_none(),
        "data in a database are backed up with the tools of the database: pg_dump takes a snapshot while servers run, and an \
         archive of the write-ahead log goes back to any instant (docs/backup.md). For a data folder, name it with --data"
    );
    let data = args.data.as_deref().unwrap_or(Path::new("rowhouse-data"));
    let to = args.to.as_deref().context("--to says where backups are kept")?;
    ensure!(!is_inside(to, data), "the backups would be in the data folder that they are of: {}", to.display());
    let began = Instant::now();
    let (snapshot, repository) = (source::snapshot(data)?, Repository::create_or_open(to)?);
    let repository = Arc::new(repository);
    let shared = Arc::clone(&repository);
    let added = run("backing up", args.quiet, move |progress, stop| {
        let (input, source) = snapshot.into_parts();
        let added = create::create(input, &shared, progress, stop);
        source.end(added)
    })?;
    let kept = match (args.keep, Arc::into_inner(repository)) {
        (Some(count), Some(repository)) => repository.keep(usize::try_from(count)?, &added.id),
        _ => Ok(Removed::default()),
    };
    // The backup is made, whatever became of the old ones.
    let removed = kept.as_ref().copied().unwrap_or_default();
    if args.json {
        crate::terminal::print(&format_args!("{}\n", summary(&added, removed, began)))?;
    } else if !args.quiet {
        crate::terminal::print(&told(&added, removed))?;
    }
    kept.map(|_| true)
}

fn summary(added: &Added, removed: Removed, began: Instant) -> serde_json::Value {
    json!({
        "backup": added.id,
        "time": added.time,
        "tables": added.tables,
        "entities": added.entities,
        "bytes": added.bytes,
        "chunks": added.chunks,
        "new_chunks": added.new_chunks,
        "new_bytes": added.new_bytes,
        "removed_backups": removed.backups,
        "removed_chunks": removed.chunks,
        "removed_bytes": removed.bytes,
        "seconds": began.elapsed().as_secs_f64(),
    })
}

fn told(added: &Added, removed: Removed) -> String {
    let made = format!(
        "backup {}: {} of {} chunks are new, {} bytes\n",
        added.id,
        grouped(added.new_chunks),
        grouped(added.chunks),
        grouped(added.new_bytes)
    );
    if removed.backups + removed.chunks == 0 {
        return made;
    }
    let (chunks, bytes) = (grouped(removed.chunks), grouped(removed.bytes));
    format!("{made}removed {} old backups and {chunks} chunks, {bytes} bytes\n", removed.backups)
}

/// Reads all backups of a repository; answers whether all are well.
pub(crate) fn verify(path: &Path, quiet: bool, json: bool) -> anyhow::Result<bool> {
    let repository = Repository::open(path)?;
    let verified = run("verifying", quiet, move |progress, stop| verify::verify(&repository, progress, stop))?;
    let is_well = verified.damaged.is_empty();
    if json {
        crate::terminal::print(&format_args!("{}\n", serde_json::to_string(&verified).context("writing JSON")?))?;
    } else {
        for (id, wrong) in &verified.damaged {
            for what in wrong {
                crate::terminal::print(&format_args!("backup {id}: {what}\n"))?;
            }
        }
        if !quiet {
            let (backups, chunks) = (grouped(verified.backups), grouped(verified.chunks));
            let damaged = verified.damaged.len();
            let bytes = grouped(verified.bytes);
            crate::terminal::print(&format_args!(
                "{backups} backups, {chunks} chunks of {bytes} bytes; {damaged} backups are damaged\n"
            ))?;
        }
    }
    Ok(is_well)
}

/// Checks the snapshot of a server that works on a data folder.
pub(crate) fn check_snapshot(folder: &Path, quiet: bool) -> anyhow::Result<Checked> {
    let input = control::ask_for_snapshot(folder)?;
    let input = input.with_context(|| format!("the process that works on {} gives no snapshots", folder.display()))?;
    run("checking", quiet, move |progress, stop| online::check(input, progress, stop))
}

/// Restores a backup into a new folder.
pub fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let choice = match (&args.backup, &args.at) {
        (Some(id), _) if id != "latest" => Choice::Named(id.clone()),
        (_, Some(at)) => Choice::At(instant(at)?),
        _ => Choice::Latest,
    };
    let selection = RestoreSelection::parse(&args.tables)?;
    let repository = Repository::open(&args.from)?;
    let (id, manifest) = choice.find(&repository)?;
    let Some(folder) = args.data.clone() else {
        return restore_into(args, repository, &id, manifest, &selection);
    };
    let (time, entities, shown) = (manifest.time.clone(), manifest.entities(), folder.display().to_string());
    if !args.quiet {
        crate::endpoints::note(&format!("the backup {id} has {} entities", grouped(entities)));
    }
    let began = Instant::now();
    let restored = run("restoring", args.quiet, move |progress, stop| {
        restore::restore(&repository, &manifest, &selection, &folder, progress, stop)
    });
    let restored = restored.with_context(|| format!("restoring into {shown}"))?;
    if args.json {
        let seconds = began.elapsed().as_secs_f64();
        let told = json!({
            "backup": id, "time": time, "tables": restored.tables, "entities": restored.entities, "seconds": seconds
        });
        crate::terminal::print(&format_args!("{told}\n"))?;
    } else if !args.quiet {
        crate::terminal::print(&format_args!("restored the backup {id} into {shown}\n"))?;
    }
    Ok(())
}

/// Restores tables into a place that exists, and compares both sides.
fn restore_into(
    args: &RestoreArgs,
    repository: Repository,
    id: &str,
    manifest: Manifest,
    selection: &RestoreSelection,
) -> anyhow::Result<()> {
    let into = args.into.as_deref().context("--data or --into says where to restore to")?;
    let wanted = selection.choose(&manifest)?;
    let tables = wanted.iter().map(|wanted| {
        let from = wanted.content.table.decode()?.table;
        anyhow::Ok(Task { from, to: wanted.target.table.clone() })
    });
    let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;
    let from_name = format!("backup {id}: {}", args.tables.join(" "));
    let key_file = args.into_key_file.as_deref();
    let restoration = Restoration { into, key_file, from_name: &from_name, tables };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    match runtime.block_on(restoration.run(Arc::new(BackupPlace::new(repository, manifest)?)))? {
        Outcome::Complete => Ok(()),
        Outcome::Different => Err(anyhow!("{into} is not what the backup holds; does somebody write to it?")),
    }
}

/// Does work that blocks, shows how far it is, and asks it to stop on a signal.
pub(crate) fn run<T: Send + 'static>(
    what: &'static str,
    quiet: bool,
    work: impl FnOnce(&Progress, &AtomicBool) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(async {
        let signal = stop_signal()?;
        let (progress, stop) = (Arc::new(Progress::new(what, 0)), Arc::new(AtomicBool::new(false)));
        let (shown, told) = (Arc::clone(&progress), Arc::clone(&stop));
        let mut work = tokio::task::spawn_blocking(move || work(&shown, &told));
        let ended = async {
            tokio::select! {
                result = &mut work => return result,
                () = signal => stop.store(true, Ordering::Relaxed),
            }
            work.await
        };
        let result = if quiet { ended.await } else { progress.show_during(ended).await };
        let result = result.context("a task failed inside")??;
        if !quiet {
            crate::endpoints::note(&format!("{what}: {}", progress.summary()));
        }
        Ok(result)
    })
}

fn instant(text: &str) -> anyhow::Result<DateTime> {
    DateTime::parse(text).map_err(|_| anyhow!("'{text}' is not an instant such as 2031-03-01T09:30:00Z"))
}

/// Whether a path lies in a folder, as far as both are there.
fn is_inside(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    // The ancestors of a relative path end below the current folder.
    let Ok(path) = std::path::absolute(path) else { return false };
    let there = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    there.is_some_and(|path| path.starts_with(&folder))
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
