//! Get Table ACL (specification 02 §4.5, 10 §7).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::acl;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let policies = tables.policies(context.table()).await?;
    Ok(OperationResponse::xml(acl::write(&policies)))
}
