//! `rowhouse import`: files into tables.
//!
//! `source.rs` finds the files, `read.rs` reads lines into windows, `write.rs` writes these, `bad.rs` judges lines that
//! are no entities, and `state.rs` remembers how far all that is.

mod args;
mod bad;
mod read;
mod source;
mod state;
mod write;

pub use args::{EXAMPLES, ImportArgs};

use crate::endpoints::{
    End, Place, Progress, TABLES_AT_ONCE, account, each, grouped, location, note, one_account, open,
};
use crate::formats::FileFormat;
use crate::stop::stop_signal;
use anyhow::{Context, anyhow, ensure};
use bad::BadLines;
use client::DEVELOPMENT_ACCOUNT;
use model::name::check_property_name;
use model::{AccountName, EdmType};
use source::{Input, Item, Source};
use state::{Order, State};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use write::Writer;

/// Imports and says what was done.
pub fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let result = runtime.block_on(import(args));
    // A read of standard input cannot be called off, and nobody waits for it any more.
    runtime.shutdown_timeout(Duration::ZERO);
    result
}

async fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let source = Source::find(&args.from, &args.tables, args.format)?;
    let types = args.types.iter().map(|text| typed(text)).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(
        types.is_empty() || source.items.iter().any(|item| item.format == FileFormat::Csv),
        "--types is for CSV, and {} is not: JSON lines tell the types themselves",
        args.from.display()
    );
    ensure!(
        args.bad_lines.is_none() || source.items.len() == 1,
        "--bad-lines keeps the lines of one table, and there are {}: choose one with --table",
        source.items.len()
    );
    let kept = args.bad_lines.as_deref().map(|path| bad::place(path, &source.name, &source.items)).transpose()?;
    let to = location(End::To, &args.to, args.to_key_file.as_deref())?;
    let to_name = to.to_string();
    let is_pipe = source.items.iter().any(|item| item.input == Input::StandardInput);
    let path = args.state.clone().unwrap_or_else(|| state::default_path(&source.name, &to_name));
    let order = Order {
        from: source.name.clone(),
        to: to_name,
        mode: args.mode,
        account: args.account.clone(),
        file_format: args.format,
        types: args.types.clone(),
    };
    let state = State::open((!is_pipe).then_some(path), order)?;
    if let (Some(path), Some(item)) = (&kept, source.items.first()) {
        bad::check_ours(path, state.kept_in(&item.table, path))?;
    }
    let stop = stop_signal()?;
    let place = open(End::To, to, false, args.parallel).await?;
    let result = match account_of(args, &source, &*place).await {
        Ok(account) => Work { source, types, state, kept }.run(args, Arc::clone(&place), account, stop).await,
        Err(error) => Err(error),
    };
    let closed = place.close().await;
    result?;
    closed.context("closing --to")
}

/// What is imported, and how far an earlier run came.
struct Work {
    source: Source,
    types: Vec<(String, EdmType)>,
    state: State,
    /// The file that keeps bad lines, if one was asked for.
    kept: Option<PathBuf>,
}

impl Work {
    async fn run(
        self,
        args: &ImportArgs,
        place: Arc<dyn Place>,
        account: AccountName,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self { source, types, state, kept } = self;
        let is_resumed = state.is_resumed();
        if let Some(path) = state.path().filter(|_| is_resumed) {
            note(&format!("going on with an earlier import, as {} says", path.display()));
        }
        let kept = match (kept, source.items.first()) {
            (Some(path), Some(item)) => {
                state.begin(&item.table, item.fingerprint()?.as_deref())?;
                let known = state.kept_in(&item.table, &path);
                if known.is_none() {
                    state.keep_in(&item.table, &path)?;
                }
                Some(bad::open(&path, known.unwrap_or(0))?)
            }
            _ => None,
        };
        let progress = Arc::new(Progress::new("importing", source.items.len()));
        progress.expect_work(source.items.iter().map(Item::bytes).sum());
        let writer = Arc::new(Writer {
            place,
            account,
            mode: args.mode.into(),
            types: Arc::new(types),
            is_only_table: source.items.len() == 1,
            with_policies: !args.skip_policies,
            bad: BadLines::new(args.skip_bad, state.bad(), kept),
            state,
            progress: Arc::clone(&progress),
            transactions: Arc::new(Semaphore::new(usize::from(args.parallel))),
        });
        let items = each(&source.items, TABLES_AT_ONCE, |item| {
            let name = item.table.clone();
            let writer = Arc::clone(&writer);
            async move { writer.import(item).await.with_context(|| format!("table '{name}'")) }
        });
        let result = tokio::select! {
            biased;
            result = progress.show_during(items) => result,
            () = stop => Err(anyhow!("stopped")),
        };
        let state = &writer.state;
        if let Err(error) = result {
            state.flush()?;
            let Some(path) = state.path() else { return Err(error) };
            let path = path.display();
            return Err(error
                .context(format!("the import is not complete; the same command goes on where it stopped ({path})")));
        }
        let (bad, all) = (state.bad(), state.entities());
        state.remove()?;
        let earlier = if is_resumed { format!("; {} with those of earlier runs", grouped(all)) } else { String::new() };
        let bad = if bad == 0 { String::new() } else { format!("; {} bad lines were passed over", grouped(bad)) };
        crate::terminal::print(&format_args!("imported {}{earlier}{bad}\n", progress.summary()))
    }
}

/// The account that is written to.
async fn account_of(args: &ImportArgs, source: &Source, place: &dyn Place) -> anyhow::Result<AccountName> {
    let wanted = args.account.as_deref().map(account).transpose()?;
    if place.only_account().is_some() {
        return one_account(End::To, place, wanted.as_ref()).await;
    }
    if let Some(wanted) = wanted {
        return Ok(wanted);
    }
    if let Some(exported) = &source.account {
        return account(exported);
    }
    if place.accounts().await?.is_empty() {
        account(DEVELOPMENT_ACCOUNT)
    } else {
        one_account(End::To, place, None).await
    }
}

/// Reads `NAME=Edm.Int32`.
fn typed(text: &str) -> anyhow::Result<(String, EdmType)> {
    let read = text.split_once('=').and_then(|(name, edm_type)| {
        let known = EdmType::from_name(edm_type).or_else(|| EdmType::from_name(&format!("Edm.{edm_type}")))?;
        check_property_name(name).is_ok().then(|| (name.to_owned(), known))
    });
    read.with_context(|| format!("'{text}' in --types is not a name and a type such as Age=Edm.Int32"))
}
