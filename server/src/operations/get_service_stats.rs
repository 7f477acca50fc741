//! Get Table Service Stats (specification 10 §6).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use engine::Engine;
use wire::service_stats::{self, GeoReplication};

/// Responds that the secondary endpoint is up to date, because it reads the data of the primary endpoint.
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn run<E: Engine>(
    _: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    Ok(OperationResponse::xml(service_stats::write(GeoReplication::Live(context.request.incoming.now))))
}
