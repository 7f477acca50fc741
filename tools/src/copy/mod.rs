//! `rowhouse copy`: everything of one place into another, between engines and services.
//!
//! `plan.rs` finds what there is, `transfer.rs` copies it, `state.rs` remembers how far that is, and `verify.rs`
//! compares both sides at the end. `places/` is what all of them see of an engine or a service.

mod args;
mod plan;
mod state;
mod transfer;
mod verify;

pub use args::{CopyArgs, EXAMPLES};
pub(crate) use plan::Task;

use crate::endpoints::{End, Place, Progress, TableSelection, account, location, note, open};
use crate::stop::stop_signal;
use anyhow::{Context, anyhow, ensure};
use plan::{Plan, Selection};
use state::State;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use transfer::{Transfer, each_table, prepare};
use verify::{Differences, Verification};

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is copied, and equal as far as that was looked at.
    Complete,
    /// The sides differ; the differences were listed.
    Different,
}

/// Copies, verifies and says what was done.
pub fn run(args: &CopyArgs) -> anyhow::Result<Outcome> {
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
    let run = Run { args, from: Arc::clone(&from), to: Arc::clone(&to), state };
    let plan = Plan::make(&*from, &*to, &selection);
    let outcome = run.to_the_end(plan, stop).await;
    // Both are closed, whatever became of the copy.
    let (from_closed, to_closed) = (from.close().await, to.close().await);
    let outcome = outcome?;
    from_closed.context("closing --from")?;
    to_closed.context("closing --to")?;
    Ok(outcome)
}

/// Copies tables of a place that can only be read into another one, and compares both sides.
#[derive(Debug)]
pub(crate) struct Restoration<'a> {
    /// The place to copy into, as `--into` has it.
    pub(crate) into: &'a str,
    pub(crate) key_file: Option<&'a Path>,
    /// What is copied, for the state file.
    pub(crate) from_name: &'a str,
    /// The accounts in the targets give way to the only one that the target has, if it has only one.
    pub(crate) tables: Vec<Task>,
}

impl Restoration<'_> {
    pub(crate) async fn run(self, from: Arc<dyn Place>) -> anyhow::Result<Outcome> {
        let to = location(End::Into, self.into, self.key_file)?;
        let to_name = to.to_string();
        let stop = stop_signal()?;
        let state = State::open(state::default_path(self.from_name, &to_name), self.from_name, &to_name)?;
        let args = CopyArgs::for_tables_alone();
        let to = open(End::Into, to, false, args.parallel).await?;
        let plan = Plan::of_tables(self.tables, to.only_account());
        let run = Run { args: &args, from, to: Arc::clone(&to), state: Some(Arc::new(state)) };
        let outcome = run.to_the_end(async { plan }, stop).await;
        let closed = to.close().await;
        let outcome = outcome?;
        closed.context("closing --into")?;
        Ok(outcome)
    }
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
            let Some(path) = state.path().filter(|_| state.is_resumed()) else { return Err(error) };
            let path = path.display();
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
    /// Copies and verifies until that is done or somebody wants it to stop.
    async fn to_the_end(
        &self,
        plan: impl Future<Output = anyhow::Result<Plan>>,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<Outcome> {
        let result = tokio::select! {
            biased;
            result = self.copy_and_verify(plan) => result,
            () = stop => Err(anyhow!("stopped")),
        };
        match &self.state {
            Some(state) => finish(state, result),
            None => result,
        }
    }

    async fn copy_and_verify(&self, plan: impl Future<Output = anyhow::Result<Plan>>) -> anyhow::Result<Outcome> {
        let plan = plan.await?;
        if let Some(state) = &self.state {
            if let Some(path) = state.path().filter(|_| state.is_resumed()) {
                note(&format!("going on with an earlier copy, as {} says", path.display()));
            }
            prepare(&*self.to, state, &plan, self.args.overwrite).await?;
            let copied = self.copy(&plan, state).await?;
            crate::terminal::print(&format_args!("copied {copied}\n"))?;
        }
        if self.args.no_verify {
            return Ok(Outcome::Complete);
        }
        let (compared, differences) = self.verify(&plan).await?;
        if differences.is_empty() {
            crate::terminal::print(&format_args!("both sides are equal: {compared}\n"))?;
            return Ok(Outcome::Complete);
        }
        crate::terminal::print(&format_args!("the sides differ: {compared}\n{differences}"))?;
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
