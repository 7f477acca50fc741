//! The operations on the list of tables (specification 02 §4.1 to §4.4).

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use engine::{TablePage, TableQuery};
use model::plan::plan_tables;
use model::{Filter, TableName};
use wire::defect::{body_defect, table_name_defect};
use wire::entity_body::KeyLocation;
use wire::negotiation::ContentKind;
use wire::payload::{read_table, write_single_table, write_table_set};
use wire::reason::ReasonKind;
use wire::uri::write_table_address;
use wire::{ErrorCode, QueryOptions, Select, continuation};

/// The maximum number of bytes written for a table, apart from the service URL: its name, its entry and its URLs.
///
/// With this limit, a page with the maximum number of tables is shorter than the longest allowed page.
const TABLE_BYTES_MAX: usize = 1024;

/// Query Tables (specification 02 §4.1, 04 §7).
///
/// Responds with one page of the matching tables, in the order of their folded names.
pub(super) async fn query(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let options = &context.options;
    let limit = options.top().map_err(Failure::service)?;
    options.check_supported().map_err(Failure::service)?;
    let filter = context.filter().map_err(Failure::query)?;
    check_properties(filter.as_ref())?;
    check_selected(context)?;
    let TablePage { tables, next } = page(tables, context, filter.as_ref(), limit).await?;
    context
        .memory
        .acquire(TABLE_BYTES_MAX + tables.len() * (TABLE_BYTES_MAX + 2 * context.response.base.len()))
        .await?;
    let mut body = Vec::with_capacity(tables.len() * 40 + 256);
    write_table_set(&mut body, context.response, tables.iter().map(TableName::as_str));
    let continuation =
        next.map(|name| ("x-ms-continuation-nexttablename", continuation::encode(name.folded()))).into_iter().collect();
    let response = OperationResponse::ok(context.content_type(ContentKind::Set), vec![Bytes::from(body)]);
    Ok(OperationResponse { continuation, ..response })
}

/// Checks that the filter uses only the table name. The service responds with 500 to a filter on other properties (04
/// §7). This server responds with 400, because the error is in the request.
fn check_properties(filter: Option<&Filter>) -> Result<(), Failure> {
    if filter.is_none_or(Filter::uses_only_table_name) {
        return Ok(());
    }
    Err(Failure::query(ErrorCode::InvalidInput).because(ReasonKind::FilterProperty.because("")))
}

/// Checks that `$select` names only the table name, which every response contains. UNVERIFIED (04 §7): the message for
/// other names.
fn check_selected(context: &OperationContext<'_>) -> Result<(), Failure> {
    let is_table_name = |name: &String| name == "TableName";
    if context.select()?.iter().flat_map(Select::names).all(is_table_name) {
        return Ok(());
    }
    let reason = ReasonKind::SelectInvalid.because("Tables have only the property TableName.");
    Err(Failure::query(ErrorCode::InvalidInput).because(reason))
}

async fn page(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    filter: Option<&Filter>,
    limit: usize,
) -> Result<TablePage, Failure> {
    // The page is empty and the last one, whatever the token is.
    if limit == 0 || plan_tables(filter).is_empty() {
        return Ok(TablePage::default());
    }
    tables.page(TableQuery { filter, from: start(context.options)?, limit }).await
}

/// Returns the folded name at which the client continues.
///
/// In tokens of the real service, a control character and the creation time follow the name; they are ignored.
fn start(options: &QueryOptions<'_>) -> Result<String, Failure> {
    let Some(token) = options.next_table_name.as_deref().filter(|token| !token.is_empty()) else {
        return Ok(String::new());
    };
    let name = continuation::decode(token)
        .ok_or_else(|| Failure::query(ErrorCode::InvalidInput).because(ReasonKind::ContinuationInvalid.because("")))?;
    Ok(name.split('\u{1}').next().unwrap_or_default().to_ascii_lowercase())
}

/// Create Table (specification 02 §4.3).
pub(super) async fn create(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let name = read_table(context.body_format, context.body).map_err(|error| {
        let reason = body_defect(
            context.body_format,
            context.body,
            KeyLocation::Address,
            context.response.version,
            context.limits,
            &error,
        );
        Failure::from(error).because(reason)
    })?;
    // UNVERIFIED (01 §2): the error code for a body without a name.
    let name = name.ok_or_else(|| {
        Failure::service(ErrorCode::PropertiesNeedValue).because(ReasonKind::TableNameMissing.because(""))
    })?;
    let name =
        TableName::new(&name).map_err(|error| Failure::service(error).because(table_name_defect(&name, error)))?;
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

/// Reads one entry of the list of tables (specification 02 §4.2).
///
/// The name in the response has the spelling with which the table was created.
pub(super) async fn get(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    check_selected(context)?;
    let spelling = tables.spelling(context.table()).await?;
    let spelling = spelling.ok_or_else(|| Failure::service(ErrorCode::ResourceNotFound))?;
    let mut body = Vec::new();
    write_single_table(&mut body, context.response, spelling.as_str());
    Ok(OperationResponse::ok(context.content_type(ContentKind::Entry), vec![Bytes::from(body)]))
}

/// Delete Table (specification 02 §4.4).
pub(super) async fn delete(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    tables.delete(context.table()).await?;
    Ok(OperationResponse::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::limits::{PAGE_BODY_BYTES_MAX, PAGE_RESULTS_MAX, TABLE_NAME_CHARS_MAX};
    use model::{AccountName, DateTime, Dialect};
    use wire::payload::ResponseContext;
    use wire::{Format, MetadataLevel, Version};

    #[test]
    fn the_longest_page_of_tables_is_within_its_bound() {
        let (base, name) = ("h".repeat(320), "t".repeat(TABLE_NAME_CHARS_MAX));
        let account = AccountName::new("abcdefghijklmnopqrstuvwx").unwrap();
        for format in [Format::Json(MetadataLevel::Full), Format::Json(MetadataLevel::None), Format::Atom] {
            let version = Version::parse("2019-02-02").unwrap();
            let response = ResponseContext {
                base: &base,
                account: &account,
                dialect: Dialect::Storage,
                format,
                version,
                now: DateTime::MAX,
            };
            let mut body = Vec::new();
            write_table_set(&mut body, response, std::iter::repeat_n(name.as_str(), PAGE_RESULTS_MAX));
            let most = TABLE_BYTES_MAX + PAGE_RESULTS_MAX * (TABLE_BYTES_MAX + 2 * base.len());
            assert!(body.len() <= most && most <= PAGE_BODY_BYTES_MAX, "{} of {most}", body.len());
        }
    }
}
