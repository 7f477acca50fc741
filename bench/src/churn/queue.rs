//! The history of a partition that is used as a queue: entities are inserted at its end and deleted at its beginning.

use super::stage::{Group, Moment, Observer};
use super::{CONNECTIONS, Churn, OnStage, block_on, client, write};
use crate::child::Server;
use crate::dataset::Usage;
use crate::generator::load::Load;
use crate::generator::workload::{self, Task};
use crate::run::{self, Measurement};

/// The number of entities in the queue at any time.
const LIVE: u64 = 1000;

pub(super) fn measure(churn: &Churn, server: &Server, on_stage: OnStage<'_>) -> anyhow::Result<()> {
    // A single partition contains all entities that ever pass through the queue.
    let measurement = Measurement { per_partition: churn.entities, ..churn.measurement(Usage::Growing) };
    let plan = run::plan(&measurement, 0);
    let stored = plan.dataset.stored_bytes();
    let live = stored / churn.entities * LIVE.min(churn.entities);
    let kept = usize::try_from(LIVE)? / CONNECTIONS;
    let mut observer = Observer::new(churn, Group::Queue, on_stage);
    let read = || {
        let first = churn.read(&server.target, &plan, Task::Churn(workload::Churn::First))?;
        let partition = churn.read(&server.target, &plan, Task::Churn(workload::Churn::Partition))?;
        Ok([first, partition])
    };

    observer.begin(server)?;
    block_on(client(&server.target, &plan)?.create_table())?;
    let mut load = Load::new(run::clients(&server.target, &plan, CONNECTIONS))?;
    write(&mut load, Task::Churn(workload::Churn::Queue { until: LIVE, kept }))?;
    churn.wait();
    observer.stage(server, Moment::FRESH, (live, live), None, read)?;
    observer.begin(server)?;
    let writes = write(&mut load, Task::Churn(workload::Churn::Queue { until: churn.entities, kept }))?;
    observer.stage(server, Moment::PASSED, (live, stored), Some(writes), read)?;
    churn.wait();
    observer.stage(server, Moment::PASSED_QUIET, (live, stored), None, read)
}
