//! `rowhouse import`: reads files into tables.
//!
//! This module must not know how a line is parsed.

mod args;
mod bad_lines;
mod files;
mod read;
mod seed;
mod state;
mod write;

pub use args::{IMPORT_EXAMPLES, ImportArgs};
pub use seed::{SeedSummary, seed};

use crate::endpoints::{Endpoint, EndpointOption, choose_account, open_endpoint, read_location};
use crate::formats::FileFormat;
use crate::option_values::{parse_account, parse_type};
use crate::runtime::{block_on, stop_signal, until_stopped};
use crate::terminal::{HumanCount, Progress, counted, notice, print_line};
use anyhow::{Context, ensure};
use bad_lines::BadLines;
use client::DEVELOPMENT_ACCOUNT;
use files::{ImportFiles, Input, TableInput};
use model::name::check_property_name;
use model::{AccountName, EdmType};
use state::{ImportOptions, ImportState};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;
use write::FileImport;

/// Runs `rowhouse import`.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    block_on(import(args)).map(|()| ExitCode::SUCCESS)
}

async fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let files = ImportFiles::find("--from", &args.from, &args.tables, args.format)?;
    let types = args.types.iter().map(|text| parse_typed_name(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let option = if args.guess_types { "--guess-types" } else { "--types" };
    ensure!(
        (types.is_empty() && !args.guess_types) || files.tables.iter().any(|table| table.format == FileFormat::Csv),
        "{option} applies only to CSV, but {} is in JSON Lines format, which includes the types",
        args.from.display()
    );
    ensure!(
        args.bad_lines.is_none() || files.tables.len() == 1,
        "--bad-lines saves the lines of only one table, but there are {}: choose one with --table",
        files.tables.len()
    );
    let bad_lines = args.bad_lines.as_deref().map(|path| bad_lines::resolve_path(path, &files)).transpose()?;
    let to = read_location(EndpointOption::To, &args.to, args.to_key_file.as_deref())?;
    let to_name = to.to_string();
    let is_standard_input = files.tables.iter().any(|table| table.input == Input::StandardInput);
    let path = args.state.clone().unwrap_or_else(|| state::COMMAND.default_path(&files.name, &to_name));
    let options = ImportOptions {
        from: files.name.clone(),
        to: to_name,
        mode: args.mode,
        account: args.account.clone(),
        file_format: args.format,
        types: args.types.clone(),
        guess_types: args.guess_types,
    };
    ensure!(
        !args.guess_types || !is_standard_input,
        "--guess-types reads the beginning of a file twice, which a pipe does not allow; save it to a file, or use --types"
    );
    let state = ImportState::open((!is_standard_input).then_some(path), options)?;
    if let (Some(path), Some(table)) = (&bad_lines, files.tables.first()) {
        bad_lines::refuse_foreign_file(path, state.bad_lines_bytes(&table.table, path))?;
    }
    let mut stop = pin!(stop_signal()?);
    let endpoint = until_stopped(&mut stop, open_endpoint(EndpointOption::To, to, false, args.parallel)).await?;
    let result = match until_stopped(&mut stop, target_account(args, &files, &*endpoint)).await {
        Ok(account) => {
            let run = ImportRun { args, endpoint: Arc::clone(&endpoint), account, files, types, state, bad_lines };
            run.run(stop).await
        }
        Err(error) => Err(error),
    };
    let closed = endpoint.close().await;
    result?;
    closed.context("closing --to")
}

struct ImportRun<'a> {
    args: &'a ImportArgs,
    endpoint: Arc<dyn Endpoint>,
    account: AccountName,
    files: ImportFiles,
    types: Vec<(String, EdmType)>,
    state: ImportState,
    bad_lines: Option<PathBuf>,
}

impl ImportRun<'_> {
    async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { args, endpoint, account, files, types, state, bad_lines } = self;
        let tables = files.tables;
        state.print_resumed();
        let bad_lines = match (bad_lines, tables.first()) {
            (Some(path), Some(table)) => {
                state.begin(&table.table, table.fingerprint()?.as_deref())?;
                let known = state.bad_lines_bytes(&table.table, &path);
                if known.is_none() {
                    state.begin_bad_lines(&table.table, &path)?;
                }
                Some(bad_lines::open(&path, known.unwrap_or(0))?)
            }
            _ => None,
        };
        let progress = Arc::new(Progress::new("importing", tables.len()));
        progress.expect_work(tables.iter().map(TableInput::bytes).sum());
        let import = Arc::new(FileImport {
            endpoint,
            account,
            mode: args.mode.into(),
            types: Arc::new(types),
            guesses_types: args.guess_types,
            is_only_table: tables.len() == 1,
            with_policies: !args.skip_policies,
            bad_lines: BadLines::new(args.skip_bad, state.bad_lines(), bad_lines),
            state,
            progress: Arc::clone(&progress),
            transactions: Arc::new(Semaphore::new(usize::from(args.parallel))),
            expired: AtomicU64::new(0),
        });
        let work = progress.show_during(Arc::clone(&import).run(&tables));
        let result = until_stopped(stop, work).await;
        let state = &import.state;
        if result.is_err() && !state.has_progress() {
            state.discard()?;
        }
        state.finish(result)?;
        let mut summary = progress.summary();
        if state.is_resumed() {
            write!(summary, "; {} including earlier runs", HumanCount(state.entities()))?;
        }
        let bad_lines = state.bad_lines();
        if bad_lines > 0 {
            let were = if bad_lines == 1 { "was" } else { "were" };
            write!(summary, "; {} {were} skipped", counted(bad_lines, "bad line", "bad lines"))?;
        }
        print_line(format_args!("imported {summary}"))?;
        let expired = import.expired.load(Ordering::Relaxed);
        if expired > 0 {
            notice(format_args!(
                "{} had expired by the retention of their tables, so no client sees them; to import them, run the command \
                 again with --skip-policies and empty tables",
                counted(expired, "entity", "entities")
            ));
        }
        Ok(())
    }
}

async fn target_account(
    args: &ImportArgs,
    files: &ImportFiles,
    endpoint: &dyn Endpoint,
) -> anyhow::Result<AccountName> {
    let wanted = args.account.as_deref().map(parse_account).transpose()?;
    if endpoint.only_account().is_some() {
        return choose_account(EndpointOption::To, endpoint, wanted.as_ref()).await;
    }
    if let Some(wanted) = wanted {
        return Ok(wanted);
    }
    if let Some(exported) = &files.account {
        return parse_account(exported);
    }
    if endpoint.accounts().await?.is_empty() {
        parse_account(DEVELOPMENT_ACCOUNT)
    } else {
        choose_account(EndpointOption::To, endpoint, None).await
    }
}

fn parse_typed_name(text: &str) -> anyhow::Result<(String, EdmType)> {
    let read = text.split_once('=').and_then(|(name, edm_type)| {
        let edm_type = parse_type(edm_type)?;
        check_property_name(name).is_ok().then(|| (name.to_owned(), edm_type))
    });
    read.with_context(|| format!("'{text}' in --types is not a property name and a type: write it like Age=Edm.Int32"))
}
