//! `rowhouse copy`: everything of one place into another, between engines and services.
//!
//! `plan.rs` finds what there is, `transfer.rs` copies it, `state.rs` remembers how far that is, and `verify.rs`
//! compares both sides at the end. `place.rs` is what all of them see of an engine or a service.

mod args;
mod compare;
mod location;
mod place;
mod plan;
mod progress;
mod state;
mod transfer;
mod verify;

pub(crate) use args::{CopyArgs, EXAMPLES};

use crate::cli::LogFormat;
use crate::reload::Files;
use crate::serve::{start_log, stop_signal};
use anyhow::{Context, anyhow, bail, ensure};
use client::TableService;
use location::{End, Location};
use model::AccountName;
use model::clock::SystemClock;
use place::{EnginePlace, Place};
use plan::{Plan, Selection, TableSelection};
use progress::{Progress, note};
use state::State;
use std::path::Path;
use std::sync::{Arc, Mutex};
use store::{Embedded, EmbeddedOptions, OpenError, Postgres, PostgresOptions};
use tokio::sync::Semaphore;
use transfer::{Transfer, each_table, prepare};
use verify::{Differences, Verification};

/// Memory for blocks of each data folder, in bytes: a scan reads each once.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Connections to a database beside those of transactions.
const READING_CONNECTIONS: usize = 8;

/// How a copy ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything is copied, and equal as far as that was looked at.
    Complete,
    /// The sides differ; the differences were listed.
    Different,
}

/// Copies, verifies and says what was done.
pub(crate) fn run(args: &CopyArgs) -> anyhow::Result<Outcome> {
    start_log(LogFormat::Text, "warn")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    runtime.block_on(copy(args))
}

async fn copy(args: &CopyArgs) -> anyhow::Result<Outcome> {
    let selection = Selection {
        account: args.account.as_deref().map(account).transpose()?,
        to_account: args.to_account.as_deref().map(account).transpose()?,
        tables: TableSelection::parse(&args.tables)?,
    };
    let from = location(End::From, &args.from, args.from_key_file.as_deref())?;
    let to = location(End::To, &args.to, args.to_key_file.as_deref())?;
    let (from_name, to_name) = (from.to_string(), to.to_string());
    ensure!(from_name != to_name, "--from and --to are the same place: {from_name}");
    // From here on a signal stops the copy in order.
    let stop = stop_signal()?;
    let state = if args.verify_only {
        None
    } else {
        let path = args.state.clone().unwrap_or_else(|| state::default_path(&from_name, &to_name));
        Some(Arc::new(State::open(path, &from_name, &to_name)?))
    };
    let from = open(End::From, from, true, args.parallel).await?;
    let to = open(End::To, to, args.verify_only, args.parallel).await?;
    let run = Run { args, from: Arc::clone(&from), to: Arc::clone(&to), state: state.clone() };
    let result = tokio::select! {
        biased;
        result = run.copy_and_verify(&selection) => result,
        () = stop => Err(anyhow!("stopped")),
    };
    let result = match &state {
        Some(state) => finish(state, result),
        None => result,
    };
    // Both are closed, whatever became of the copy.
    let (from_closed, to_closed) = (from.close().await, to.close().await);
    let outcome = result?;
    from_closed.context("closing --from")?;
    to_closed.context("closing --to")?;
    Ok(outcome)
}

/// Keeps the state file for the next run if there is anything left to do.
fn finish(state: &State, result: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    match result {
        Ok(outcome) => {
            state.remove()?;
            Ok(outcome)
        }
        Err(error) => {
            state.flush()?;
            if !state.is_resumed() {
                return Err(error);
            }
            let path = state.path().display();
            Err(error.context(format!("the copy is not complete; the same command goes on where it stopped ({path})")))
        }
    }
}

/// What one run of the command works with.
struct Run<'a> {
    args: &'a CopyArgs,
    from: Arc<dyn Place>,
    to: Arc<dyn Place>,
    /// `None` if nothing is copied.
    state: Option<Arc<State>>,
}

impl Run<'_> {
    async fn copy_and_verify(&self, selection: &Selection) -> anyhow::Result<Outcome> {
        let plan = Plan::make(&*self.from, &*self.to, selection).await?;
        if let Some(state) = &self.state {
            if state.is_resumed() {
                note(&format!("going on with an earlier copy, as {} says", state.path().display()));
            }
            prepare(&*self.to, state, &plan, self.args.overwrite).await?;
            let copied = self.copy(&plan, state).await?;
            crate::say(&format_args!("copied {copied}\n"))?;
        }
        if self.args.no_verify {
            return Ok(Outcome::Complete);
        }
        let (compared, differences) = self.verify(&plan).await?;
        if differences.is_empty() {
            crate::say(&format_args!("both sides are equal: {compared}\n"))?;
            return Ok(Outcome::Complete);
        }
        crate::say(&format_args!("the sides differ: {compared}\n{differences}"))?;
        Ok(Outcome::Different)
    }

    async fn copy(&self, plan: &Plan, state: &Arc<State>) -> anyhow::Result<String> {
        let progress = Arc::new(Progress::new("copying", plan.tables.len()));
        let transfer = Arc::new(Transfer {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to),
            state: Arc::clone(state),
            progress: Arc::clone(&progress),
            transactions: Arc::new(Semaphore::new(usize::from(self.args.parallel))),
            with_policies: !self.args.skip_policies,
        });
        let work = each_table(&plan.tables, |task| Arc::clone(&transfer).copy(task));
        progress.show_during(work).await?;
        if !self.args.skip_properties {
            for (source, target) in &plan.accounts {
                let properties = self.from.properties(source).await?;
                if properties != self.to.properties(target).await? {
                    self.to.set_properties(target, properties).await?;
                }
            }
        }
        Ok(progress.summary())
    }

    async fn verify(&self, plan: &Plan) -> anyhow::Result<(String, Differences)> {
        let progress = Arc::new(Progress::new("comparing", plan.tables.len()));
        let verification = Arc::new(Verification {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to),
            progress: Arc::clone(&progress),
            with_policies: !self.args.skip_policies,
            with_properties: !self.args.skip_properties,
            differences: Mutex::default(),
        });
        progress.show_during(verification.run(plan)).await.context("comparing both sides")?;
        Ok((progress.summary(), verification.take()))
    }
}

fn account(name: &str) -> anyhow::Result<AccountName> {
    AccountName::new(name)
        .with_context(|| format!("'{name}' is not an account name: that has 3 to 24 lower-case letters and digits"))
}

/// Reads a location, with the secret that its variable or its file holds.
fn location(end: End, text: &str, key_file: Option<&Path>) -> anyhow::Result<Location> {
    let variable = std::env::var(end.key_variable()).ok();
    let secret = match (variable, key_file) {
        (Some(_), Some(_)) => {
            bail!("the key of {end} is given twice, by {} and by {end}-key-file", end.key_variable())
        }
        (None, Some(path)) => {
            let files = Files::read([path.to_owned()]).with_context(|| format!("reading {end}-key-file"))?;
            let [content] = files.contents;
            Some(String::from_utf8(content).map_err(|_| anyhow!("{end}-key-file is not text"))?)
        }
        (variable, None) => variable,
    };
    Location::parse(end, text, secret.as_deref())
}

/// Opens a place. This is where another engine joins: an arm that wraps it in an [`EnginePlace`].
async fn open(end: End, location: Location, must_exist: bool, parallel: u16) -> anyhow::Result<Arc<dyn Place>> {
    Ok(match location {
        Location::Database { url, password } => {
            // One connection for each transaction on its way, and some for those who read.
            let connections_max = usize::from(parallel) + READING_CONNECTIONS;
            let options = PostgresOptions { url, password, connections_max, distribute: false };
            Arc::new(EnginePlace(
                Postgres::open(&options, SystemClock).await.with_context(|| format!("opening {end}"))?,
            ))
        }
        Location::Folder(path) => Arc::new(EnginePlace(open_folder(end, &path, must_exist)?)),
        Location::Service { endpoint, credential } => {
            Arc::new(TableService::new(endpoint, credential).context("preparing TLS")?)
        }
    })
}

fn open_folder(end: End, path: &Path, must_exist: bool) -> anyhow::Result<Embedded> {
    // An engine would make a new folder, which helps nobody who misspelled the name of an old one.
    let is_there = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    ensure!(!must_exist || is_there, "{end}: there is no data folder at {}", path.display());
    let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..EmbeddedOptions::default() };
    Embedded::open(path, &options, SystemClock).map_err(|error| match error {
        OpenError::Locked { folder } => anyhow!(
            "{end}: a server works on the data folder {}; give the address of that server instead, such as \
             {end} http://127.0.0.1:10002/ACCOUNT",
            folder.display()
        ),
        other => anyhow::Error::from(other).context(format!("opening {end}")),
    })
}
