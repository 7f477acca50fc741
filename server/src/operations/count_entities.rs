//! Count Entities, an extension: the number of entities that match a filter.
//!
//! Like a query, a count ends at its deadline with a continuation token. The client adds the counts of all responses.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection, Token};
use crate::response::{OperationResponse, QueryCost};
use crate::tables::AccountTables;
use engine::{EntitySink, Scan, SinkDecision};
use http::HeaderMap;
use model::EntityView;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let Selection { ranges, filter, .. } = Selection::new(context)?;
    let token = Token::new(context)?;
    let (table, order) = tables.queried(context.table(), context.virtual_table.views()).await?;
    let list = selection::list(&table, &order);
    let from = token.map(|token| token.position(list.as_deref())).transpose()?;
    let cost = context.headers.explain.then(|| QueryCost::new(&ranges));
    let scan = Scan { ranges, order, from, filter, ..Scan::all(context.query_deadline) };
    let (EveryEntity, end) = tables.scan(&table, scan, EveryEntity).await?;
    Ok(OperationResponse {
        headers: HeaderMap::from_iter(cost.map(|cost| cost.header(end.examined, end.accepted, end.index.as_ref()))),
        ..OperationResponse::number(end.accepted, selection::tokens(list.as_deref(), end.next.as_ref()))
    })
}

pub(super) struct EveryEntity;

impl EntitySink for EveryEntity {
    fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
        SinkDecision::Accepted
    }
}
