//! `rowhouse export`: writes tables to files.
//!
//! Several key ranges of a table are read in parallel. The first of them is appended to the file of the table, and the
//! other ones to their own files until their turn comes, so the entities are in key order. This module must not know
//! how a line is written.

mod args;
mod lines;
mod read;
mod state;
mod target;

pub use args::{EXPORT_EXAMPLES, ExportArgs};

use crate::endpoints::{
    EndpointOption, Query, Source, TableSelection, choose_account, open_endpoint, parse_filter, read_location,
};
use crate::file::replace_file;
use crate::formats::{ExportManifest, FileFormat, MANIFEST_FORMAT, MANIFEST_NAME};
use crate::option_values::parse_account;
use crate::runtime::{block_on, stop_signal, until_stopped};
use crate::terminal::{HumanCount, Progress, print_line};
use anyhow::{Context, bail, ensure};
use engine::TableKey;
use model::clock::SystemClock;
use model::{AccountName, Clock, TableName};
use read::{FileExport, TABLE_WORK};
use state::{ExportOptions, ExportState};
use std::fmt::Write as _;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use target::ExportTarget;
use tokio::sync::Semaphore;

/// Runs `rowhouse export`.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    block_on(export(args)).map(|()| ExitCode::SUCCESS)
}

async fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let (target, format) = ExportTarget::parse(&args.to, args.format)?;
    let names: Vec<String> = args.tables.iter().filter(|name| *name != "all").cloned().collect();
    let tables = TableSelection::parse(&names)?;
    let account = args.account.as_deref().map(parse_account).transpose()?;
    if let Some(filter) = &args.filter {
        parse_filter(filter)?;
    }
    let from = read_location(EndpointOption::From, &args.from, args.from_key_file.as_deref())?;
    let from_name = from.to_string();
    let mut stop = pin!(stop_signal()?);
    let opening = open_endpoint(EndpointOption::From, from, true, args.parallel);
    let source = until_stopped(&mut stop, opening).await?;
    let run = ExportRun { args, source: Arc::clone(&source) as Arc<dyn Source>, target, format, from_name };
    let result = until_stopped(stop, run.export(&tables, account.as_ref())).await;
    let closed = source.close().await;
    result.map_err(|error| match &run.target {
        ExportTarget::StandardOutput => error,
        target => state::COMMAND.incomplete(&target.state(), error),
    })?;
    closed.context("closing --from")
}

struct ExportRun<'a> {
    args: &'a ExportArgs,
    source: Arc<dyn Source>,
    target: ExportTarget,
    format: FileFormat,
    from_name: String,
}

impl ExportRun<'_> {
    async fn export(&self, selection: &TableSelection, account: Option<&AccountName>) -> anyhow::Result<()> {
        let account = choose_account(EndpointOption::From, &*self.source, account).await?;
        let tables = selection.find(&*self.source, &account).await?;
        if let Some(missing) = selection.names().iter().find(|name| !tables.contains(name)) {
            bail!("--from has no table '{missing}'");
        }
        let is_folder = matches!(self.target, ExportTarget::Folder(_));
        ensure!(
            is_folder || tables.len() == 1,
            "--to {} can hold only one table, but there are {}: choose one with --table, or pass a folder with --to",
            self.args.to.display(),
            tables.len()
        );
        // The source has responded, so a folder that is created now will not stay empty.
        self.target.prepare(self.args.overwrite)?;
        let keys: Vec<TableKey> = tables.into_iter().map(|name| TableKey { account: account.clone(), name }).collect();
        let query = Query { filter: self.args.filter.clone(), select: self.args.select.clone() };
        match (&self.target, &keys[..]) {
            (ExportTarget::StandardOutput, [table]) => {
                read::stream(&self.source, table, query, self.format, self.args.with_timestamps).await
            }
            (target, _) => {
                let summary = self.export_files(target, &account, &keys, query).await?;
                print_line(format_args!("exported to {}: {summary}", self.args.to.display()))
            }
        }
    }

    async fn export_files(
        &self,
        target: &ExportTarget,
        account: &AccountName,
        tables: &[TableKey],
        query: Query,
    ) -> anyhow::Result<String> {
        let options = ExportOptions {
            from: self.from_name.clone(),
            account: account.to_string(),
            file_format: self.format,
            filter: query.filter.clone(),
            select: query.select.clone(),
            with_timestamps: self.args.with_timestamps,
            skip_policies: self.args.skip_policies,
        };
        let state = ExportState::open(target.state(), options.clone())?;
        let mut new = tables.iter().filter(|table| state.table(table.name.as_str()).is_none());
        let foreign = new.find_map(|table| Some(target.file(&table.name, self.format)).filter(|file| file.exists()));
        if let Some(file) = foreign.filter(|_| !self.args.overwrite) {
            bail!("{} already exists: choose another --to, or replace it with --overwrite", file.display());
        }
        state.print_resumed();
        if let ExportTarget::Folder(folder) = target {
            state.remove_manifest(&folder.join(MANIFEST_NAME))?;
        }
        let progress = Arc::new(Progress::new("exporting", tables.len()));
        progress.expect_work(tables.len() as u64 * TABLE_WORK);
        let parallel = usize::from(self.args.parallel);
        let export = Arc::new(FileExport {
            source: Arc::clone(&self.source),
            target: target.clone(),
            format: self.format,
            query,
            with_timestamps: self.args.with_timestamps,
            with_policies: !self.args.skip_policies && matches!(target, ExportTarget::Folder(_)),
            state,
            progress: Arc::clone(&progress),
            readers: Arc::new(Semaphore::new(parallel)),
            parallel,
        });
        if let Err(error) = progress.show_during(Arc::clone(&export).run(tables)).await {
            // Another run does not read again what was read since the last save. The disk may be full.
            drop(export.state.flush());
            return Err(error);
        }
        let names: Vec<&TableName> = tables.iter().map(|table| &table.name).collect();
        let state = &export.state;
        if let ExportTarget::Folder(folder) = target {
            let manifest = manifest(state, options, &names);
            let text = serde_json::to_string_pretty(&manifest).context("writing the manifest")? + "\n";
            // The manifest gets the mode of the other files, so that the same users can read it.
            replace_file(&folder.join(MANIFEST_NAME), text.as_bytes())?;
        }
        let all: u64 = names.iter().filter_map(|name| Some(state.table(name.as_str())?.done?.entities)).sum();
        let mut summary = progress.summary();
        if state.is_resumed() {
            write!(summary, "; {} including earlier runs", HumanCount(all))?;
        }
        state.finish(Ok(summary))
    }
}

fn manifest(state: &ExportState, options: ExportOptions, tables: &[&TableName]) -> ExportManifest {
    let ExportOptions { from, account, file_format, filter, select, with_timestamps, skip_policies: _ } = options;
    ExportManifest {
        format: MANIFEST_FORMAT,
        made_by: concat!("rowhouse ", env!("CARGO_PKG_VERSION")).to_owned(),
        finished: SystemClock.now().to_string(),
        from,
        account,
        file_format,
        filter,
        select,
        with_timestamps,
        tables: tables.iter().filter_map(|name| state.table(name.as_str())?.done).collect(),
    }
}
