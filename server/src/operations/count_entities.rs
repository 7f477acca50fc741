//! Count Entities, an extension: the number of entities that match a filter.
//!
//! Like a query, a count ends at its deadline with a continuation token. The client adds the counts of all responses.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use engine::{Engine, EntitySink, Order, Scan, SinkDecision};
use model::{EntityView, Visibility};

pub(super) async fn run<E: Engine>(
    tables: &AccountTables<'_, E>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let Selection { ranges, filter, .. } = Selection::new(context)?;
    let from = selection::position(context.options)?;
    let deadline = context.query_deadline;
    let (order, visible, limit) = (Order::Key, Visibility::Live, usize::MAX);
    let scan = Scan { ranges, order, from, filter, visible, limit, bytes_expected: usize::MAX, deadline };
    let (EveryEntity, end) = tables.scan(context.table(), scan, EveryEntity).await?;
    Ok(OperationResponse::number(end.accepted, end.next.as_ref().map_or_else(Vec::new, selection::tokens)))
}

struct EveryEntity;

impl EntitySink for EveryEntity {
    fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
        SinkDecision::Accepted
    }
}
