//! Get Cluster Load, an extension: the load of the nodes and shards of a cluster, and what would even it out.
//!
//! The response never waits for the database. Of the hottest partitions, it contains only those in the account.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use engine::LoadMonitor;
use wire::ErrorCode;

#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn run(_: &AccountTables<'_>, context: &OperationContext<'_>) -> Result<OperationResponse, Failure> {
    let report = context.load.and_then(LoadMonitor::latest).ok_or_else(|| {
        Failure::service(ErrorCode::ServerBusy).with_reason("the load of the cluster has not been read recently")
    })?;
    let json = serde_json::to_vec(&report.visible_to(context.account()));
    let json = json.expect("the report has no maps, whose keys could be invalid");
    Ok(OperationResponse::ok("application/json", vec![Bytes::from(json)]))
}
