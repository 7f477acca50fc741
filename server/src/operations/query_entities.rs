//! Query Entities (specification 04).
//!
//! The scan passes each entity to a [`PageWriter`] as a borrow of the engine's memory, and the writer encodes it into
//! the segments of the response body. A page is therefore in memory only once, as the bytes that will be sent. The
//! memory for these bytes is acquired before the page is written. If the client disconnects, the future of the request
//! is dropped, and the scan with it.

use super::page_writer::PageWriter;
use super::query_changes;
use crate::failure::Failure;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection};
use crate::response::{OperationResponse, QueryCost};
use crate::tables::AccountTables;
use engine::{Engine, Order, Scan};
use http::HeaderMap;
use model::IndexedProperty;
use model::limits::PAGE_BODY_BYTES_MAX;
use tracing::debug;
use wire::Select;
use wire::negotiation::ContentKind;

pub(super) async fn run<E: Engine>(
    tables: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    if let Some(table) = context.virtual_table.changes() {
        return Box::pin(query_changes::query(tables, context, table)).await;
    }
    let options = &context.options;
    // `$top` is checked before the filter (04 §7).
    let limit = options.top().map_err(Failure::service)?;
    options.check_supported().map_err(Failure::service)?;
    let selection = Selection::new(context)?;
    let select = context.select().map_err(Failure::service)?;
    let from = selection::position(context)?;
    let (kind, range_count) = (selection.plan, selection.ranges.len());
    let cost = context.headers.explain.then(|| QueryCost::new(&selection.ranges));
    let deadline = context.query_deadline;
    // With a projection, it is not known how much of an entity will be written.
    let bytes_expected = if select.as_ref().is_none_or(Select::is_all) { PAGE_BODY_BYTES_MAX } else { usize::MAX };
    let Selection { ranges, filter, .. } = selection;
    let (table, order) = tables.queried(context.table(), context.virtual_table.views()).await?;
    // The entities of a view have the addresses of the entities in its table.
    let name = if order == Order::Key { context.table() } else { table.name.as_str() };
    let scan = Scan { ranges, order, from, filter, limit, bytes_expected, ..Scan::all(deadline) };
    context.memory.acquire(PAGE_BODY_BYTES_MAX).await?;
    let (writer, end) = tables.scan(&table, scan, PageWriter::new(context, name, select)).await?;
    debug!(
        target: "rowhouse::query",
        table = context.table(), plan = %kind, ranges = range_count, index = end.index.as_ref().map(IndexedProperty::as_str), examined = end.examined, answered = end.accepted, complete = end.next.is_none(),
    );
    let (examined, returned) = (end.examined, end.accepted);
    let segments = writer.finish()?;
    let cost = cost.map(|cost| cost.header(examined, returned, end.index.as_ref()));
    // `$top=0` ends the query (04 §5, UNVERIFIED).
    let next = end.next.filter(|_| limit > 0);
    Ok(OperationResponse {
        continuation: selection::tokens(context, next.as_ref()),
        headers: HeaderMap::from_iter(cost),
        ..OperationResponse::ok(context.content_type(ContentKind::Set), segments)
    })
}
