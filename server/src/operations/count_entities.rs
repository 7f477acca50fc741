//! Count Entities, an extension: the number of entities that match a filter.
//!
//! Like a query, a count ends at its deadline with a continuation token. The client adds the counts of all responses.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection, Token};
use crate::response::{OperationResponse, QueryCost};
use crate::tables::AccountTables;
use engine::Scan;
use http::HeaderMap;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let Selection { ranges, is_confined, filter, .. } = Selection::new(context)?;
    let token = Token::new(context)?;
    let (table, order) = tables.queried(context.table(), context.virtual_table.views()).await?;
    let list = selection::list(&table, &order).map(|view| {
        // Such a count has positions in the order of keys.
        if is_confined { format!("{view}/$count") } else { view }
    });
    let from = token.map(|token| token.position(list.as_deref())).transpose()?;
    let cost = context.headers.explain.then(|| QueryCost::new(&ranges));
    let scan = Scan { ranges, is_confined, order, from, filter, ..Scan::all(context.query_deadline) };
    let end = tables.count(&table, scan).await?;
    Ok(OperationResponse {
        headers: HeaderMap::from_iter(cost.map(|cost| cost.header(end.examined, end.accepted, end.index.as_ref()))),
        ..OperationResponse::number(end.accepted, selection::tokens(list.as_deref(), end.next.as_ref()))
    })
}
