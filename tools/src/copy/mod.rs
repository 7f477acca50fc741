//! `rowhouse copy`: copies all data from one endpoint to another, between engines and services.
//!
//! This module must not know what kinds of endpoints it works on.

mod args;
mod plan;
mod state;
mod transfer;
mod verify;

pub use args::{COPY_EXAMPLES, CopyArgs};
pub(crate) use plan::TableCopy;

use crate::endpoints::{Endpoint, EndpointOption, Location, Source, TableSelection, open_endpoint, read_location};
use crate::option_values::parse_account;
use crate::runtime::{block_on, stop_signal, until_stopped};
use crate::terminal::{Progress, print_line};
use anyhow::{Context, ensure};
use parking_lot::Mutex;
use plan::{CopySelection, Plan};
use state::{CopyEndpoints, CopyState};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::Semaphore;
use transfer::{Transfer, prepare};
use verify::{Comparison, Differences};

/// Runs `rowhouse copy`. Returns a failure exit code if the sides differ after the copy.
pub fn run(args: &CopyArgs) -> anyhow::Result<ExitCode> {
    let is_equal = block_on(copy(args))?;
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn copy(args: &CopyArgs) -> anyhow::Result<bool> {
    let selection = CopySelection {
        account: args.account.as_deref().map(parse_account).transpose()?,
        to_account: args.to_account.as_deref().map(parse_account).transpose()?,
        tables: TableSelection::parse(&args.tables)?,
    };
    let from = read_location(EndpointOption::From, &args.from, args.from_key_file.as_deref())?;
    let to = read_location(EndpointOption::To, &args.to, args.to_key_file.as_deref())?;
    let endpoints = CopyEndpoints { from: from.to_string(), to: to.to_string() };
    ensure!(endpoints.from != endpoints.to, "--from and --to are the same: {}", endpoints.from);
    // From here on, a signal stops the copy cleanly.
    let mut stop = pin!(stop_signal()?);
    let state = if args.verify_only { None } else { Some(Arc::new(CopyState::open(args.state.clone(), endpoints)?)) };
    let parallel = from.transactions_default();
    let opening = open_endpoint(EndpointOption::From, from, true, parallel);
    let from = until_stopped(&mut stop, opening).await?;
    let is_equal = copy_from(args, &selection, (Arc::clone(&from), to), state, stop).await;
    // Close the endpoint, even if the copy failed.
    let closed = from.close().await;
    let is_equal = is_equal?;
    closed.context("closing --from")?;
    Ok(is_equal)
}

/// Opens the target once the source has been read, so that no folder is created for a source that does not respond.
async fn copy_from(
    args: &CopyArgs,
    selection: &CopySelection,
    (from, to): (Arc<dyn Endpoint>, Location),
    state: Option<Arc<CopyState>>,
    mut stop: impl Future<Output = ()> + Unpin,
) -> anyhow::Result<bool> {
    let parallel = args.parallel.unwrap_or(to.transactions_default());
    let opening = async {
        let plan = Plan::make(&*from, to.only_account(), selection).await?;
        Ok((plan, open_endpoint(EndpointOption::To, to, args.verify_only, parallel).await?))
    };
    let (plan, to) = match (until_stopped(&mut stop, opening).await, &state) {
        (Ok(opened), _) => opened,
        (Err(error), Some(state)) => return state.finish(Err(error)),
        (Err(error), None) => return Err(error),
    };
    let run = CopyRun {
        from: from as Arc<dyn Source>,
        to: Arc::clone(&to),
        state,
        entities: None,
        parallel,
        overwrite: args.overwrite,
        follow: args.follow,
        with_policies: !args.skip_policies,
        with_properties: !args.skip_properties,
        with_verification: !args.no_verify,
    };
    let is_equal = run.run(plan, stop).await;
    let closed = to.close().await;
    let is_equal = is_equal?;
    closed.context("closing --to")?;
    Ok(is_equal)
}

/// Copies the tables of a backup. If the target has only one account, all tables are copied into that account. The name
/// of the source is for the state file. `entities` is the total number, if it is known. Returns true if both sides are
/// equal after the copy.
pub(crate) async fn restore(
    (from, from_name): (Arc<dyn Source>, String),
    to: Location,
    tables: Vec<TableCopy>,
    entities: Option<u64>,
) -> anyhow::Result<bool> {
    let mut stop = pin!(stop_signal()?);
    let state = CopyState::open(None, CopyEndpoints { from: from_name, to: to.to_string() })?;
    let plan = Plan::from_tables(tables, to.only_account())?;
    let parallel = to.transactions_default();
    let to = until_stopped(&mut stop, open_endpoint(EndpointOption::Into, to, false, parallel)).await?;
    let run = CopyRun {
        from,
        to: Arc::clone(&to),
        state: Some(Arc::new(state)),
        entities,
        parallel,
        overwrite: false,
        follow: false,
        with_policies: true,
        with_properties: false,
        with_verification: true,
    };
    let is_equal = run.run(plan, stop).await;
    let closed = to.close().await;
    let is_equal = is_equal?;
    closed.context("closing --into")?;
    Ok(is_equal)
}

struct CopyRun {
    from: Arc<dyn Source>,
    to: Arc<dyn Endpoint>,
    /// `None` if nothing is copied.
    state: Option<Arc<CopyState>>,
    /// The number of entities of the source, if it is known.
    entities: Option<u64>,
    parallel: u16,
    overwrite: bool,
    follow: bool,
    with_policies: bool,
    with_properties: bool,
    with_verification: bool,
}

impl CopyRun {
    /// Returns true if both sides are equal. A signal stops the copy.
    async fn run(&self, plan: Plan, stop: impl Future<Output = ()>) -> anyhow::Result<bool> {
        let result = until_stopped(stop, self.copy_and_verify(&plan)).await;
        match &self.state {
            // The next run continues with the changes.
            Some(state) if self.follow && result.is_ok() => state.flush().and(result),
            Some(state) => state.finish(result),
            None => result,
        }
    }

    async fn copy_and_verify(&self, plan: &Plan) -> anyhow::Result<bool> {
        if let Some(state) = &self.state {
            state.print_resumed();
            prepare(&*self.to, state, plan, self.overwrite).await?;
            let copied = self.copy(plan, state).await?;
            print_line(format_args!("copied {copied}"))?;
        }
        if !self.with_verification {
            return Ok(true);
        }
        let (compared, differences) = self.compare(plan).await?;
        if differences.is_empty() {
            print_line(format_args!("both sides are equal: {compared}"))?;
            return Ok(true);
        }
        print_line(format_args!("the sides differ: {compared}"))?;
        differences.lines().try_for_each(|line| print_line(format_args!("  {line}")))?;
        Ok(false)
    }

    async fn copy(&self, plan: &Plan, state: &Arc<CopyState>) -> anyhow::Result<String> {
        let progress = Arc::new(Progress::new("copying", plan.tables.len()));
        if let Some(entities) = self.entities {
            progress.expect_entities(entities);
            progress.skip_work(state.entities(plan));
        }
        let transfer = Arc::new(Transfer {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to),
            state: Arc::clone(state),
            progress: Arc::clone(&progress),
            transactions: Arc::new(Semaphore::new(usize::from(self.parallel))),
            with_policies: self.with_policies,
            follow: self.follow,
        });
        progress.show_during(transfer.run(plan)).await?;
        if self.with_properties {
            for (source, target) in &plan.accounts {
                let properties = self.from.properties(source).await?;
                if properties != self.to.properties(target).await? {
                    self.to.set_properties(target, properties).await?;
                }
            }
        }
        Ok(progress.summary())
    }

    async fn compare(&self, plan: &Plan) -> anyhow::Result<(String, Differences)> {
        let progress = Arc::new(Progress::new("comparing", plan.tables.len()));
        if let Some(state) = &self.state {
            progress.expect_entities(state.entities(plan));
        }
        let comparison = Arc::new(Comparison {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to) as Arc<dyn Source>,
            progress: Arc::clone(&progress),
            with_policies: self.with_policies,
            with_properties: self.with_properties,
            differences: Mutex::default(),
        });
        progress.show_during(comparison.run(plan)).await.context("comparing both sides")?;
        Ok((progress.summary(), comparison.take_differences()))
    }
}
