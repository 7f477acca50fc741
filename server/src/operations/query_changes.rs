//! Query Entities, Count Entities and Query Entity for a table of the change feed, an extension.

use super::query_entities::{PageForm, PageWriter};
use super::stream_changes;
use crate::changes::READ_BYTES;
use crate::failure::Failure;
use crate::request::selection::{self, Selection};
use crate::request::{OperationContext, OperationKind, address_key};
use crate::response::{OperationResponse, QueryCost, X_MS_ROWHOUSE_POSITION};
use crate::tables::{AccountTables, ChangesEnd, EveryEntity};
use bytes::Bytes;
use engine::{EntitySink, Scan};
use http::{HeaderMap, HeaderValue};
use model::ChangesTable;
use model::limits::PAGE_BODY_BYTES_MAX;
use wire::ErrorCode;
use wire::negotiation::ContentKind;
use wire::payload::write_single_entity;
use wire::size::{EntityBounds, UnwrittenEntity};

/// The other operations are refused before they begin.
pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
) -> Result<OperationResponse, Failure> {
    match context.kind {
        OperationKind::QueryEntity => get(tables, context, table).await,
        OperationKind::CountEntities => count(tables, context, table).await,
        _ if context.wants_events => stream_changes::run(tables, context, table).await,
        _ => query(tables, context, table).await,
    }
}

async fn query(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
) -> Result<OperationResponse, Failure> {
    let limit = context.options.top().map_err(Failure::service)?;
    context.options.check_supported().map_err(Failure::service)?;
    let select = context.select()?;
    let writer = PageWriter::new(PageForm::new(context.response, context.table(), select), usize::MAX);
    let page = scan(tables, context, table, (limit, PAGE_BODY_BYTES_MAX + READ_BYTES), writer).await?;
    let segments = page.sink.finish()?;
    Ok(OperationResponse {
        // `$top=0` ends the query (04 §5, UNVERIFIED).
        continuation: if limit > 0 { page.continuation } else { Vec::new() },
        headers: page.headers,
        ..OperationResponse::ok(context.content_type(ContentKind::Set), segments)
    })
}

async fn count(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let page = scan(tables, context, table, (usize::MAX, READ_BYTES), EveryEntity).await?;
    Ok(OperationResponse { headers: page.headers, ..OperationResponse::number(page.accepted, page.continuation) })
}

struct ChangesPage<S> {
    sink: S,
    accepted: u64,
    continuation: Vec<(&'static str, String)>,
    headers: HeaderMap,
}

/// `bytes` is the memory that the page needs.
async fn scan<S: EntitySink>(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
    (limit, bytes): (usize, usize),
    sink: S,
) -> Result<ChangesPage<S>, Failure> {
    let Selection { ranges, filter, .. } = Selection::of_changes(context)?;
    let bounds = selection::change_bounds(context, filter.as_ref())?;
    let cost = context.headers.explain.then(|| QueryCost::new(&ranges, None));
    let scan = Scan { ranges, filter, limit, ..Scan::all(context.query_deadline) };
    context.memory.acquire(bytes).await?;
    let (sink, end) = tables.scan_changes(&selection::change_scope(context, table), &bounds, scan, sink).await?;
    let ChangesEnd { page, read_up_to, .. } = end;
    let cost = cost.map(|cost| cost.header(page.examined, page.accepted, None));
    let read_up_to = read_up_to.and_then(|position| HeaderValue::try_from(position.to_string()).ok());
    let headers = cost.into_iter().chain(read_up_to.map(|position| (X_MS_ROWHOUSE_POSITION, position))).collect();
    let continuation = selection::tokens(context.response.dialect, Some(selection::CHANGES), page.next.as_ref());
    Ok(ChangesPage { sink, accepted: page.accepted, continuation, headers })
}

async fn get(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let select = context.select()?.filter(|select| !select.is_all());
    let key = address_key(context.keys(), ErrorCode::ResourceNotFound)?;
    let form = context.entity_context(select.as_ref());
    context.memory.acquire(READ_BYTES).await?;
    let scope = selection::change_scope(context, table);
    let written = tables.get_change(&scope, &key, |row| {
        let bytes_max = EntityBounds::new(&form).measured_bound(&UnwrittenEntity::stored(row), select.as_ref());
        let mut body = Vec::with_capacity(bytes_max.min(row.record.record_bytes() * 2 + 512));
        write_single_entity(&mut body, &form, row).map(|()| (body, row.record.timestamp()))
    });
    let (body, timestamp) = written.await?.ok_or_else(|| Failure::service(ErrorCode::ResourceNotFound))??;
    let response = OperationResponse::ok(context.content_type(ContentKind::Entry), vec![Bytes::from(body)]);
    Ok(OperationResponse { etag: Some(timestamp), ..response })
}
