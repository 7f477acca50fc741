//! Delete Entities, an extension: deletes the entities that match a filter.
//!
//! Like a query, a deletion ends at its deadline with a continuation token. The client adds the numbers of all
//! responses.

use crate::failure::Failure;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection, Token};
use crate::response::{OperationResponse, QueryCost};
use crate::tables::{AccountTables, Deletion};
use http::HeaderMap;
use model::limits::{DELETION_ENTITIES_IN_FLIGHT_MAX, DELETION_TRANSACTIONS_IN_FLIGHT_MAX, PAGE_BODY_BYTES_MAX};
use model::{Condition, Visibility};
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let (deletion, cost) = decode(context)?;
    // The keys of two steps take at most as much as a page.
    context.memory.acquire(PAGE_BODY_BYTES_MAX).await?;
    // Boxed, so that the future of every request does not reserve space for it.
    let end = Box::pin(tables.delete_matching(context.table(), deletion)).await?;
    let examined = tables.entities().examined;
    Ok(OperationResponse {
        headers: HeaderMap::from_iter(cost.map(|cost| cost.header(examined, end.deleted, end.index.as_ref()))),
        ..OperationResponse::number(end.deleted, selection::tokens(context.response.dialect, None, end.next.as_ref()))
    })
}

fn decode(context: &OperationContext<'_>) -> Result<(Deletion, Option<QueryCost>), Failure> {
    let deletion_refused = |message| ReasonKind::DeletionRefused.because(message);
    let refused =
        |message: &'static str| Failure::query(ServiceError::invalid_input(message)).because(deletion_refused(message));
    // An option that is ignored here would let the request delete more than its sender intended.
    if context.options.has_top() {
        return Err(refused("A deletion by filter does not support $top."));
    }
    if context.options.has_unknown() {
        return Err(refused("A deletion by filter does not support unknown options that begin with $."));
    }
    if context.condition("DELETE").map_err(Failure::query)?.is_some_and(|condition| condition != Condition::Any) {
        return Err(refused("A deletion by filter does not support an ETag in If-Match."));
    }
    let selection = Selection::new(context)?;
    let cost = context.headers.explain.then(|| QueryCost::new(&selection.ranges, selection.scan_cause()));
    let Selection { ranges, is_confined, filter, .. } = selection;
    if filter.is_none() {
        let message = "Deleting the entities of a table requires $filter. To delete all of them, specify $filter=true.";
        let error = ServiceError::new(ErrorCode::MissingRequiredQueryParameter, message);
        return Err(Failure::query(error).because(deletion_refused(message)));
    }
    let deletion = Deletion {
        ranges,
        is_confined,
        filter,
        visible: Visibility::Live,
        from: Token::new(context)?.map(|token| token.position(None)).transpose()?,
        deadline: context.query_deadline,
        entities_in_flight_max: DELETION_ENTITIES_IN_FLIGHT_MAX,
        transactions_in_flight_max: DELETION_TRANSACTIONS_IN_FLIGHT_MAX,
    };
    Ok((deletion, cost))
}
