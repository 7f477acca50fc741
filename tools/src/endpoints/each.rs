//! Doing the same with several things, some of them at a time.

use anyhow::Context;
use std::future::Future;
use tokio::task::JoinSet;

/// Most tables at work at a time.
pub(crate) const TABLES_AT_ONCE: usize = 4;

/// Runs a job for each item, so many at a time; the first failure ends all.
pub(crate) async fn each<T: Clone, J: Future<Output = anyhow::Result<()>> + Send + 'static>(
    items: &[T],
    most: usize,
    mut job: impl FnMut(T) -> J,
) -> anyhow::Result<()> {
    let mut running = JoinSet::new();
    let mut pending = items.iter();
    loop {
        while running.len() < most
            && let Some(item) = pending.next()
        {
            running.spawn(job(item.clone()));
        }
        match running.join_next().await {
            Some(result) => result.context("a task failed inside")??,
            None => return Ok(()),
        }
    }
}
