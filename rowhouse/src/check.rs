//! `rowhouse check`: verifies a data folder or a repository of backups from end to end, and changes nothing.

use crate::backup;
use crate::cli::LogFormat;
use crate::log;
use crate::places::{grouped, note};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use store::{CheckReport, OpenError, check_folder};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse check --data /var/lib/rowhouse
      every file, every key and every record of a data folder
  rowhouse check --data /var/lib/rowhouse --json
      for scripts: one line with all figures and problems
  rowhouse check --backup /mnt/backup/rowhouse
      every hash of all backups, as rowhouse backup --verify

Nothing in the folder is changed, and it may be read-only. The check makes a temporary folder in TMPDIR, or where --scratch
says, with copies of the journals (64 MiB and more) and links to the rest.

While a server runs on the folder, the check reads a snapshot through the server: every key and every record, with the
checksums of what is read. Files are checked only when no server runs.

The exit code is 0 if all is well, 1 if something is damaged, 2 if the folder could not be checked.";

/// The exit code of a check that could not be done.
pub(crate) const NOT_CHECKED: u8 = 2;

/// The options of check as they were given; nothing is checked or filled in.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which shows no backticks")]
pub(crate) struct CheckArgs {
    /// Data folder to check
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR", required_unless_present = "backup")]
    data: Option<PathBuf>,

    /// Repository of backups to check
    #[arg(long, value_name = "REPOSITORY", conflicts_with = "scratch")]
    backup: Option<PathBuf>,

    /// Folder in which the check may make a temporary one [default: that of the system]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Say nothing unless something is wrong
    #[arg(long, short)]
    quiet: bool,

    /// Say what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Checks; answers whether all is well. An error means that nothing could be checked.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<bool> {
    let _unchanged = log::start(LogFormat::Text, "error")?;
    if let Some(repository) = &args.backup {
        return backup::verify(repository, args.quiet, args.json);
    }
    let data = args.data.clone().context("--data names the folder to check")?;
    let base = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&base)?;
    let (folder, place) = (data.clone(), scratch.0.clone());
    let checked = backup::run("checking", args.quiet, move |progress, stop| {
        let read = |entities| {
            progress.add_entities(entities);
            !stop.load(Ordering::Relaxed)
        };
        let checked = check_folder(&folder, &place, &read);
        anyhow::ensure!(!stop.load(Ordering::Relaxed), "stopped");
        let tables = checked.as_ref().map_or(0, |report| report.tables.len());
        progress.set_tables(tables);
        (0..tables).for_each(|_| progress.add_table());
        Ok(checked)
    })?;
    match checked {
        Ok(report) => tell(&data, &report, args),
        Err(OpenError::Locked { .. }) => {
            if !args.quiet {
                note("a server works on the folder: its snapshot is checked, its files are not");
            }
            online(&data, args)
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks a snapshot that the server gives.
fn online(data: &Path, args: &CheckArgs) -> anyhow::Result<bool> {
    let checked = backup::check_snapshot(data, args.quiet)?;
    if args.json {
        let problems: Vec<&String> = checked.problems.iter().collect();
        let told = json!({
            "data": data, "online": true, "tables": checked.tables, "entities": checked.entities, "problems": problems,
            "more_problems": checked.untold,
        });
        crate::say(&format_args!("{told}\n"))?;
    } else {
        for problem in &checked.problems {
            crate::say(&format_args!("{problem}\n"))?;
        }
        if checked.untold > 0 {
            crate::say(&format_args!("and {} more\n", grouped(checked.untold)))?;
        }
        if !args.quiet {
            let (tables, entities) = (grouped(checked.tables), grouped(checked.entities));
            let problems = grouped(checked.problems.len() as u64 + checked.untold);
            crate::say(&format_args!("{tables} tables, {entities} entities in a snapshot; {problems} problems\n"))?;
        }
    }
    Ok(checked.problems.is_empty())
}

fn tell(data: &Path, report: &CheckReport, args: &CheckArgs) -> anyhow::Result<bool> {
    let is_well = report.problems.is_empty();
    if args.json {
        crate::say(&format_args!("{}\n", json_of(data, report)))?;
        return Ok(is_well);
    }
    for problem in &report.problems {
        crate::say(&format_args!("{problem}\n"))?;
    }
    if report.unlisted > 0 {
        crate::say(&format_args!("and {} more\n", grouped(report.unlisted)))?;
    }
    if args.quiet {
        return Ok(is_well);
    }
    for text in &report.notes {
        crate::say(&format_args!("note: {text}\n"))?;
    }
    for table in &report.tables {
        let (entities, bytes) = (grouped(table.entities), grouped(table.bytes));
        crate::say(&format_args!(
            "{}/{}: {entities} entities, {bytes} bytes\n",
            table.table.account, table.table.name
        ))?;
    }
    if report.purged_entities > 0 {
        crate::say(&format_args!(
            "{} entities of deleted tables are still to be removed\n",
            grouped(report.purged_entities)
        ))?;
    }
    let entities = report.tables.iter().map(|table| table.entities).sum();
    let problems = report.problems.len() as u64 + report.unlisted;
    crate::say(&format_args!(
        "{} tables, {} entities; {} sorted files of {} bytes; {} problems\n",
        grouped(report.tables.len() as u64),
        grouped(entities),
        grouped(report.files),
        grouped(report.file_bytes),
        grouped(problems)
    ))?;
    Ok(is_well)
}

fn json_of(data: &Path, report: &CheckReport) -> Value {
    let tables: Vec<Value> = report
        .tables
        .iter()
        .map(|table| {
            json!({
                "account": table.table.account.as_str(),
                "table": table.table.name.as_str(),
                "entities": table.entities,
                "bytes": table.bytes,
            })
        })
        .collect();
    let problems: Vec<Value> =
        report.problems.iter().map(|problem| json!({ "place": problem.place, "what": problem.what })).collect();
    json!({
        "data": data,
        "online": false,
        "tables": tables,
        "purged_entities": report.purged_entities,
        "files": report.files,
        "file_bytes": report.file_bytes,
        "notes": report.notes,
        "problems": problems,
        "more_problems": report.unlisted,
    })
}

/// A temporary folder of this check, which only its owner may read; it goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(base: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let path = base.join(format!("rowhouse-check-{}", uuid::Uuid::new_v4().simple()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("making the temporary folder {}; --scratch names another place", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            note(&format!("the temporary folder {} could not be removed: {error}", self.0.display()));
        }
    }
}
