//! `rowhouse check`: verifies a whole data folder or backup repository without changing it.

use crate::backup::{self, RepositoryAddress, SnapshotCheck};
use crate::file::ScratchFolder;
use crate::runtime::run_blocking;
use crate::terminal::{HumanCount, counted, notice, print, print_line, report_error};
use anyhow::{Context, ensure};
use clap::Args;
use engine::CheckReport;
use engine_embedded::{OpenError, check_folder};
use serde_json::{Value, json};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// The examples at the end of the help of `check`.
pub const CHECK_EXAMPLES: &str = "\
Examples:
  rowhouse check --data /var/lib/rowhouse
      every file, every key and every record of a data folder
  rowhouse check --data /var/lib/rowhouse --json
      for scripts: one line with all counts and problems
  rowhouse check --backup /mnt/backup/rowhouse
      every hash of all backups, like rowhouse backup --verify

The check does not change the folder, which may be read-only. It creates a temporary folder in TMPDIR or in --scratch, \
with links to the sorted files.

While a server is using the folder, the check reads a snapshot through the server. It checks every key and every record, and the \
checksums of the data read. Files are checked only when no server is running.

The exit code is 0 if nothing is damaged, 1 if there is damage, and 2 if the folder could not be checked.";

const EXIT_NOT_CHECKED: u8 = 2;

/// The options of `check` as given, without validation or defaults.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct CheckArgs {
    /// Data folder to check
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR", required_unless_present = "backup")]
    data: Option<PathBuf>,

    /// Backup repository to check
    #[arg(long, value_name = "REPOSITORY", value_parser = RepositoryAddress::parser(), conflicts_with = "scratch")]
    backup: Option<RepositoryAddress>,

    /// Folder for the temporary files of the check [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Print nothing unless something is wrong
    #[arg(long, short)]
    quiet: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `rowhouse check`. The exit code indicates damage, or that nothing could be checked.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let result = match &args.backup {
        Some(repository) => backup::verify(repository, args.quiet, args.json),
        None => check_data(args),
    };
    Ok(match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report_error(&error);
            ExitCode::from(EXIT_NOT_CHECKED)
        }
    })
}

/// Returns true if the folder is intact.
fn check_data(args: &CheckArgs) -> anyhow::Result<bool> {
    let data = args.data.clone().context("pass the folder to check with --data")?;
    let base = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = ScratchFolder::create(&base, "check")?;
    let (folder, scratch_path) = (data.clone(), scratch.path().to_owned());
    let checked = run_blocking("checking", args.quiet, move |progress, stop| {
        let entities_read = |entities| {
            progress.add_entities(entities);
            !stop.load(Ordering::Relaxed)
        };
        let checked = check_folder(&folder, &scratch_path, &entities_read);
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        let tables = checked.as_ref().map_or(0, |report| report.tables.len());
        progress.set_tables(tables);
        (0..tables).for_each(|_| progress.add_table());
        Ok(checked)
    })?;
    match checked {
        Ok(report) => {
            if args.json {
                print(&format_args!("{}\n", report_json(&data, &report)))?;
            } else {
                print_report(&report, args.quiet)?;
            }
            Ok(report.problems.is_empty())
        }
        Err(OpenError::Locked { .. }) => {
            if !args.quiet {
                notice("a server is using the folder: its snapshot is checked, but not its files");
            }
            let checked = backup::check_snapshot(&data, args.quiet)?;
            if args.json {
                print(&format_args!("{}\n", snapshot_json(&data, &checked)))?;
            } else {
                print_snapshot_check(&checked, args.quiet)?;
            }
            Ok(checked.problems.is_empty())
        }
        Err(error) => Err(error.into()),
    }
}

fn print_snapshot_check(checked: &SnapshotCheck, is_quiet: bool) -> anyhow::Result<()> {
    print_problems(&checked.problems, checked.more_problems)?;
    if is_quiet {
        return Ok(());
    }
    let tables = counted(checked.tables, "table", "tables");
    let entities = counted(checked.entities, "entity", "entities");
    let problems = counted(checked.problems.len() as u64 + checked.more_problems, "problem", "problems");
    print_line(format_args!("{tables}, {entities} in a snapshot; {problems}"))
}

fn print_report(report: &CheckReport, is_quiet: bool) -> anyhow::Result<()> {
    print_problems(&report.problems, report.unlisted)?;
    if is_quiet {
        return Ok(());
    }
    report.notes.iter().try_for_each(|text| print_line(format_args!("note: {text}")))?;
    for table in &report.tables {
        let (account, name) = (&table.table.account, &table.table.name);
        let (entities, bytes) = (counted(table.entities, "entity", "entities"), HumanCount(table.bytes));
        print_line(format_args!("{account}/{name}: {entities}, {bytes} bytes"))?;
    }
    if report.purged_entities > 0 {
        let entities = counted(report.purged_entities, "entity", "entities");
        print_line(format_args!("not removed yet: {entities} of deleted tables"))?;
    }
    let entities = report.tables.iter().map(|table| table.entities).sum();
    let problems = report.problems.len() as u64 + report.unlisted;
    print_line(format_args!(
        "{}, {}; {} of {} bytes; {}",
        counted(report.tables.len() as u64, "table", "tables"),
        counted(entities, "entity", "entities"),
        counted(report.files, "sorted file", "sorted files"),
        HumanCount(report.file_bytes),
        counted(problems, "problem", "problems")
    ))
}

fn print_problems(problems: &[impl Display], more: u64) -> anyhow::Result<()> {
    problems.iter().try_for_each(print_line)?;
    if more > 0 {
        print_line(format_args!("and {} more", HumanCount(more)))?;
    }
    Ok(())
}

fn snapshot_json(data: &Path, checked: &SnapshotCheck) -> Value {
    json!({
        "data": data,
        "online": true,
        "tables": checked.tables,
        "entities": checked.entities,
        "problems": checked.problems,
        "more_problems": checked.more_problems,
    })
}

fn report_json(data: &Path, report: &CheckReport) -> Value {
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
