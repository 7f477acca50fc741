//! Create Table (specification 02 §4.3).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use model::TableName;
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::{read_table, write_single_table};
use wire::uri::write_table_address;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let name = read_table(context.body_format, context.body)?;
    // UNVERIFIED (01 §2): the error code for a body without a name.
    let name = name.ok_or_else(|| Failure::service(ErrorCode::PropertiesNeedValue))?;
    let name = TableName::new(&name).map_err(Failure::service)?;
    context.note_table_in_body(name.clone());
    tables.create(name.clone()).await?;
    let mut location = format!("{}/", context.response.base).into_bytes();
    write_table_address(&mut location, name.as_str());
    Ok(OperationResponse::created(context.preference, location, context.content_type(ContentKind::Entry), || {
        let mut body = Vec::new();
        write_single_table(&mut body, context.response, name.as_str());
        body
    }))
}
