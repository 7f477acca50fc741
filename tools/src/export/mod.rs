//! `rowhouse export`: tables as files.
//!
//! `ranges.rs` parts a table, `read.rs` reads the parts into files beside the target, `state.rs` remembers how far that
//! is, and `assemble.rs` makes one file of the parts, so that entities stand in the order of their keys however many
//! ranges were read at a time.

mod args;
mod assemble;
mod layout;
mod ranges;
mod read;
mod state;
mod stream;

pub use args::{EXAMPLES, ExportArgs};

use crate::endpoints::{
    End, Place, Progress, TABLES_AT_ONCE, TableSelection, account, each, grouped, location, note, one_account, open,
    read_filter,
};
use crate::formats::{FileFormat, MANIFEST_FORMAT, MANIFEST_NAME, Manifest};
use crate::stop::stop_signal;
use anyhow::{Context, anyhow, bail, ensure};
use client::Query;
use layout::Target;
use model::clock::{Clock, SystemClock};
use model::limits::EXPORT_RANGES_MAX;
use model::{AccountName, TableName};
use read::{Reader, TABLE_WORK};
use state::{Order, State};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use store::TableKey;
use tokio::sync::Semaphore;

/// Exports and says what was done.
pub fn run(args: &ExportArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(export(args))
}

async fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let (target, format) = Target::parse(&args.to, args.format)?;
    let wanted: Vec<String> = args.tables.iter().filter(|name| *name != "all").cloned().collect();
    let tables = TableSelection::parse(&wanted)?;
    let only = args.account.as_deref().map(account).transpose()?;
    if let Some(filter) = &args.filter {
        read_filter(filter)?;
    }
    let from = location(End::From, &args.from, args.from_key_file.as_deref())?;
    let from_name = from.to_string();
    target.prepare(args.overwrite)?;
    let stop = stop_signal()?;
    let place = open(End::From, from, true, args.parallel).await?;
    let run = Run { args, place: Arc::clone(&place), target, format, from_name };
    let result = tokio::select! {
        biased;
        result = run.export(&tables, only.as_ref()) => result,
        () = stop => Err(anyhow!("stopped")),
    };
    let closed = place.close().await;
    run.tell(result)?;
    closed.context("closing --from")
}

/// What one run of the command works with.
struct Run<'a> {
    args: &'a ExportArgs,
    place: Arc<dyn Place>,
    target: Target,
    format: FileFormat,
    from_name: String,
}

impl Run<'_> {
    /// Says how to go on, if there is anything to go on with.
    fn tell(&self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let state = self.target.state();
        let is_resumable = self.target != Target::StandardOutput && state.exists();
        result.map_err(|error| {
            if !is_resumable {
                return error;
            }
            let path = state.display();
            error.context(format!("the export is not complete; the same command goes on where it stopped ({path})"))
        })
    }

    async fn export(&self, selection: &TableSelection, only: Option<&AccountName>) -> anyhow::Result<()> {
        let account = one_account(End::From, &*self.place, only).await?;
        let tables = selection.of(&*self.place, &account).await?;
        if let Some(missing) = selection.names().iter().find(|name| !tables.contains(name)) {
            bail!("--from has no table '{missing}'");
        }
        let is_folder = matches!(self.target, Target::Folder(_));
        ensure!(
            is_folder || tables.len() == 1,
            "--to {} takes one table, and there are {}: name one with --table, or a folder with --to",
            self.args.to.display(),
            tables.len()
        );
        let keys: Vec<TableKey> = tables.into_iter().map(|name| TableKey { account: account.clone(), name }).collect();
        let query = Query { filter: self.args.filter.clone(), select: self.args.select.clone() };
        match (&self.target, &keys[..]) {
            (Target::StandardOutput, [table]) => {
                stream::export(&*self.place, table, &query, self.format, self.args.with_timestamps).await
            }
            (target, _) => {
                let told = self.export_files(target, &account, &keys, query).await?;
                crate::terminal::print(&format_args!("exported to {}: {told}\n", self.args.to.display()))
            }
        }
    }

    async fn export_files(
        &self,
        target: &Target,
        account: &AccountName,
        tables: &[TableKey],
        query: Query,
    ) -> anyhow::Result<String> {
        let order = Order {
            from: self.from_name.clone(),
            account: account.to_string(),
            file_format: self.format,
            filter: query.filter.clone(),
            select: query.select.clone(),
            with_timestamps: self.args.with_timestamps,
            skip_policies: self.args.skip_policies,
        };
        let state = State::open(target.state(), order.clone())?;
        let is_resumed = state.is_resumed();
        let mut fresh = tables.iter().filter(|table| state.table(&table.name).is_none());
        let foreign = fresh.find_map(|table| Some(target.file(&table.name, self.format)).filter(|file| file.exists()));
        if let Some(file) = foreign.filter(|_| !self.args.overwrite) {
            bail!("{} is there already: name another place, or replace it with --overwrite", file.display());
        }
        if let Some(path) = state.path().filter(|_| is_resumed) {
            note(&format!("going on with an earlier export, as {} says", path.display()));
        }
        if let Target::Folder(folder) = target {
            state.replace(&folder.join(MANIFEST_NAME))?;
        }
        let progress = Arc::new(Progress::new("exporting", tables.len()));
        progress.expect_work(tables.len() as u64 * TABLE_WORK);
        let ranges_max = usize::from(self.args.parallel);
        let reader = Arc::new(Reader {
            place: Arc::clone(&self.place),
            target: target.clone(),
            format: self.format,
            query,
            with_timestamps: self.args.with_timestamps,
            with_policies: !self.args.skip_policies && matches!(target, Target::Folder(_)),
            state,
            progress: Arc::clone(&progress),
            ranges: Arc::new(Semaphore::new(ranges_max)),
            ranges_max: ranges_max.min(EXPORT_RANGES_MAX),
        });
        let work = each(tables, TABLES_AT_ONCE, |table: TableKey| {
            let reader = Arc::clone(&reader);
            let name = table.name.clone();
            async move { reader.export(table).await.with_context(|| format!("table '{name}'")) }
        });
        progress.show_during(work).await?;
        let names: Vec<&TableName> = tables.iter().map(|table| &table.name).collect();
        if let Target::Folder(folder) = target {
            let manifest = manifest(&reader.state, order, &names);
            write_manifest(folder, &manifest)?;
        }
        let all: u64 = names.iter().filter_map(|name| Some(reader.state.table(name)?.done?.entities)).sum();
        reader.state.remove()?;
        let earlier = if is_resumed { format!("; {} with those of earlier runs", grouped(all)) } else { String::new() };
        Ok(format!("{}{earlier}", progress.summary()))
    }
}

/// The manifest appears when everything else is there, and may be read by whoever may read the files beside it.
fn write_manifest(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let (path, new) = (folder.join(MANIFEST_NAME), folder.join("export.json.new"));
    let mut text = serde_json::to_vec_pretty(manifest).context("writing the manifest")?;
    text.push(b'\n');
    let mut file = File::create(&new).with_context(|| format!("writing {}", new.display()))?;
    let written = file.write_all(&text).and_then(|()| file.sync_data()).and_then(|()| std::fs::rename(&new, &path));
    written.with_context(|| format!("writing {}", path.display()))
}

fn manifest(state: &State, order: Order, tables: &[&TableName]) -> Manifest {
    let mut finished = Vec::new();
    SystemClock.now().write_to(&mut finished);
    let Order { from, account, file_format, filter, select, with_timestamps, skip_policies: _ } = order;
    Manifest {
        format: MANIFEST_FORMAT,
        made_by: concat!("rowhouse ", env!("CARGO_PKG_VERSION")).to_owned(),
        finished: String::from_utf8(finished).unwrap_or_default(),
        from,
        account,
        file_format,
        filter,
        select,
        with_timestamps,
        tables: tables.iter().filter_map(|name| state.table(name)?.done).collect(),
    }
}
