//! The history of a table whose entities are overwritten. After that, other entities are inserted and deleted among
//! them.

use super::stage::{Group, Moment, Observer};
use super::{CONNECTIONS, Churn, OnStage, write};
use crate::child::Server;
use crate::dataset::Usage;
use crate::generator::load::Load;
use crate::generator::workload::{self, Task};
use crate::run;

pub(super) fn measure(churn: &Churn, server: Server, on_stage: OnStage<'_>) -> anyhow::Result<()> {
    let measurement = churn.measurement(Usage::Growing);
    let plan = run::plan(&measurement, 0);
    let live = plan.dataset.stored_bytes();
    let mut observer = Observer::new(churn, Group::History, on_stage);
    let read = |server: &Server| churn.read_table(&server.target, &plan);

    observer.begin(&server)?;
    run::fill(&server.target, &measurement)?;
    churn.wait();
    observer.stage(&server, Moment::FRESH, (live, live), None, || read(&server))?;
    for (task, right_after, quiet) in [
        (workload::Churn::Overwrite, Moment::OVERWRITTEN, Moment::OVERWRITTEN_QUIET),
        (workload::Churn::InsertAndDelete, Moment::INSERTED_AND_DELETED, Moment::INSERTED_AND_DELETED_QUIET),
    ] {
        observer.begin(&server)?;
        let plan = run::plan(&measurement, 0);
        let mut load = Load::new(run::clients(&server.target, &plan, CONNECTIONS))?;
        let writes = write(&mut load, Task::Churn(task))?;
        observer.stage(&server, right_after, (live, live), Some(writes), || read(&server))?;
        churn.wait();
        observer.stage(&server, quiet, (live, live), None, || read(&server))?;
    }
    server.stop()?;
    let server = churn.serve(Group::History)?;
    observer.begin(&server)?;
    observer.stage(&server, Moment::RESTARTED, (live, 0), None, || read(&server))
}
