//! Query Tables (specification 02 §4.1, 04 §7).

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::traces::step;
use bytes::Bytes;
use model::plan::plan_tables;
use model::{Filter, TableName};
use std::pin::pin;
use store::{Engine, TablePages};
use wire::negotiation::ContentKind;
use wire::payload::write_table_set;
use wire::{ErrorCode, QueryOptions, continuation, filter};

/// Answers one page of the tables that match, in the order of their folded names.
pub(crate) async fn run(engine: &impl Engine, call: &Call<'_>) -> Result<Answer, Failure> {
    let options = call.options;
    let limit = options.top().map_err(Failure::service)?;
    options.check_supported().map_err(Failure::service)?;
    let filter = filter::parse_optional(options.filter.as_deref().unwrap_or_default()).map_err(Failure::query)?;
    check_properties(filter.as_ref())?;
    let (tables, next) = page(engine, call, filter.as_ref(), limit).await?;
    let mut body = Vec::with_capacity(tables.len() * 40 + 256);
    write_table_set(&mut body, call.form(), tables.iter().map(TableName::as_str));
    let continuation =
        next.map(|name| ("x-ms-continuation-nexttablename", continuation::encode(name.folded()))).into_iter().collect();
    Ok(Answer { continuation, ..Answer::ok(call.content_type(ContentKind::Set), vec![Bytes::from(body)]) })
}

/// The service answers 500 to a filter on another property (04 §7); the request is at fault, so this answers 400.
fn check_properties(filter: Option<&Filter>) -> Result<(), Failure> {
    if filter.is_none_or(Filter::names_only_table_name) {
        return Ok(());
    }
    Err(Failure::query(ErrorCode::InvalidInput))
}

/// At most `limit` tables that match, and the first one behind them that does.
async fn page(
    engine: &impl Engine,
    call: &Call<'_>,
    filter: Option<&Filter>,
    limit: usize,
) -> Result<(Vec<TableName>, Option<TableName>), Failure> {
    let mut tables = Vec::new();
    let range = plan_tables(filter);
    if range.is_empty() || limit == 0 {
        return Ok((tables, None));
    }
    let from = start(call.options)?.max(range.from.clone());
    let mut pages = TablePages::new(engine, &call.grant.account, from);
    while let Some(listed) = step("list tables", pin!(pages.next())).await? {
        for table in listed {
            if !range.contains(table.folded()) && table.folded() >= range.from.as_str() {
                return Ok((tables, None));
            }
            if filter.is_none_or(|filter| filter.matches_table(table.folded())) {
                if tables.len() == limit {
                    return Ok((tables, Some(table)));
                }
                tables.push(table);
            }
        }
    }
    Ok((tables, None))
}

/// The folded name at which the client wants to go on.
///
/// The service's own tokens carry the creation stamp behind a control character; it is not needed here.
fn start(options: &QueryOptions<'_>) -> Result<String, Failure> {
    let Some(token) = options.next_table_name.as_deref().filter(|token| !token.is_empty()) else {
        return Ok(String::new());
    };
    let name = continuation::decode(token).ok_or_else(|| Failure::query(ErrorCode::InvalidInput))?;
    Ok(name.split('\u{1}').next().unwrap_or_default().to_ascii_lowercase())
}
