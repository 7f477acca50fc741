//! Runs a command on its own runtime, several tables at a time, until it is done or a signal stops it.

use crate::terminal::{Progress, notice};
use anyhow::{Context, anyhow, bail};
use model::TableName;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tracing::info;

const CONCURRENT_TABLES_MAX: usize = 4;
/// The time in which blocking work should stop. Work that waits for object storage may take longer; it is then
/// abandoned, as when the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a future that completes at the first stop signal (SIGTERM or Ctrl-C). From this call on, these signals no
/// longer terminate the process.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let signal = platform::signals::stop().context("listening for signals")?;
    Ok(async move {
        // The macro evaluates nothing when the event is disabled.
        let name = signal.await;
        info!("stopping on {name}");
    })
}

/// Does not wait for a thread that is still reading standard input, because such a read cannot be canceled.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

/// Returns an error as soon as the signal arrives.
pub(crate) async fn until_stopped<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        biased;
        result = work => result,
        () = stop => bail!("stopped"),
    }
}

/// Sets the stop flag of the work when a signal arrives.
pub(crate) fn run_blocking<T: Send + 'static>(
    action: &'static str,
    is_quiet: bool,
    work: impl FnOnce(&Progress, &AtomicBool) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    block_on(async {
        let signal = stop_signal()?;
        let (progress, stop) = (Arc::new(Progress::new(action, 0)), Arc::new(AtomicBool::new(false)));
        let (shared_progress, shared_stop) = (Arc::clone(&progress), Arc::clone(&stop));
        let mut work = tokio::task::spawn_blocking(move || work(&shared_progress, &shared_stop));
        let ended = async {
            tokio::select! {
                result = &mut work => return result,
                () = signal => stop.store(true, Ordering::Relaxed),
            }
            tokio::time::timeout(STOP_TIMEOUT, work).await.unwrap_or_else(|_| Ok(Err(anyhow!("stopped"))))
        };
        let result = if is_quiet { ended.await } else { progress.show_during(ended).await };
        let result = result.context(TASK_FAILED)??;
        if !is_quiet {
            notice(format_args!("{action}: {}", progress.summary()));
        }
        Ok(result)
    })
}

/// Runs a few jobs at a time. The first failure stops all jobs, and its error names the table.
pub(crate) async fn for_each_table<T: Clone, J: Future<Output = anyhow::Result<()>> + Send + 'static>(
    tables: &[T],
    name: impl Fn(&T) -> &TableName,
    mut job: impl FnMut(T) -> J,
) -> anyhow::Result<()> {
    let mut running = JoinSet::new();
    let mut pending = tables.iter();
    loop {
        while running.len() < CONCURRENT_TABLES_MAX
            && let Some(table) = pending.next()
        {
            let (name, job) = (name(table).clone(), job(table.clone()));
            running.spawn(async move { job.await.with_context(|| format!("table '{name}'")) });
        }
        if next_result(&mut running).await?.is_none() {
            return Ok(());
        }
    }
}

/// Returns `None` if there are no more tasks.
pub(crate) async fn next_result<T: 'static>(running: &mut JoinSet<anyhow::Result<T>>) -> anyhow::Result<Option<T>> {
    match running.join_next().await {
        Some(result) => result.context(TASK_FAILED)?.map(Some),
        None => Ok(None),
    }
}

/// The message of the panic itself is on standard error.
pub(crate) const TASK_FAILED: &str = "a task of the command panicked";
