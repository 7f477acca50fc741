//! Get Table Service Stats (specification 10 §6).

use crate::failure::Failure;
use crate::replication::{Replicated, StandbyState};
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::service_stats::{self, GeoReplication};

/// Responds with the time up to which a standby has the writes of its primary. Otherwise, the secondary endpoint is up
/// to date, because it reads the data of the primary endpoint.
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn run(_: &AccountTables<'_>, context: &OperationContext<'_>) -> Result<OperationResponse, Failure> {
    let replication = match context.replication.and_then(Replicated::standby) {
        None => GeoReplication::Live(context.request.incoming.now),
        Some(StandbyState { last_sync: Some(time) }) => GeoReplication::Live(time),
        Some(StandbyState { last_sync: None }) => GeoReplication::Unavailable,
    };
    Ok(OperationResponse::xml(service_stats::write(replication)))
}
