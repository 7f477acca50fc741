//! Reads one entry of the list of tables (specification 02 §4.2).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::write_single_table;

/// The name in the response has the spelling with which the table was created.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let spelling = tables.spelling(context.table()).await?;
    let spelling = spelling.ok_or_else(|| Failure::service(ErrorCode::ResourceNotFound))?;
    let mut body = Vec::new();
    write_single_table(&mut body, context.response, spelling.as_str());
    Ok(OperationResponse::ok(context.content_type(ContentKind::Entry), vec![Bytes::from(body)]))
}
