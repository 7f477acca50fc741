//! Set Table ACL (specification 02 §4.6, 10 §7).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use wire::{ErrorCode, acl};

/// The policies take effect before the response is sent.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let policies = acl::read(context.body).map_err(|_| Failure::service(ErrorCode::InvalidXmlDocument))?;
    tables.set_policies(context.table(), policies).await?;
    Ok(OperationResponse::no_content())
}
