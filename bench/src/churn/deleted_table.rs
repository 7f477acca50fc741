//! The history of a table that is deleted, created again and filled again, next to another table.

use super::stage::{Group, Moment, Observer, Writes};
use super::{Churn, OnStage, block_on, client};
use crate::child::Server;
use crate::dataset::Usage;
use crate::run;
use std::time::{Duration, Instant};

pub(super) fn measure(churn: &Churn, server: &Server, on_stage: OnStage<'_>) -> anyhow::Result<()> {
    // The tables are created in this order, so leftovers of the first table may slow down reads of the second.
    let (deleted, next) = (churn.measurement(Usage::Overwritten), churn.measurement(Usage::Growing));
    let (deleted_plan, next_plan) = (run::plan(&deleted, 0), run::plan(&next, 0));
    let stored = next_plan.dataset.stored_bytes();
    let mut observer = Observer::new(churn, Group::DeletedTable, on_stage);
    let read = || churn.read_table(&server.target, &next_plan);

    observer.begin(server)?;
    run::fill(&server.target, &deleted)?;
    run::fill(&server.target, &next)?;
    churn.wait();
    observer.stage(server, Moment::FRESH, (2 * stored, 2 * stored), None, read)?;
    observer.begin(server)?;
    let mut client = client(&server.target, &deleted_plan)?;
    let writes = block_on(async {
        let began = Instant::now();
        client.delete_table().await?;
        let deletion = began.elapsed();
        Ok(requests([deletion, client.create_table_again().await?]))
    })?;
    observer.stage(server, Moment::TABLE_DELETED, (stored, 0), Some(writes), read)?;
    churn.wait();
    observer.stage(server, Moment::TABLE_DELETED_QUIET, (stored, 0), None, read)?;
    observer.begin(server)?;
    run::fill(&server.target, &deleted)?;
    churn.wait();
    let read = || churn.read_table(&server.target, &deleted_plan);
    observer.stage(server, Moment::CREATED_AGAIN, (2 * stored, stored), None, read)
}

fn requests([deletion, creation]: [Duration; 2]) -> Writes {
    let (shorter, longer) = (deletion.min(creation).as_secs_f64() * 1e3, deletion.max(creation).as_secs_f64() * 1e3);
    Writes { count: 2, p50_ms: shorter, p999_ms: longer, max_ms: longer }
}
