//! The entities of a table that a request selects: a filter, the URL and the credential determine the key ranges, and a
//! continuation token the position from which they are read (specification 04).

use super::{OperationContext, VirtualTable, table_of};
use crate::changes::{ChangeBounds, ChangeScope};
use crate::failure::Failure;
use engine::{Order, TableKey};
use model::limits::SKIPPED_ENTITIES_MAX;
use model::ordered_view::view_name;
use model::plan::{PlanKind, ScanCause, plan, plan_bounds};
use model::{ChangePosition, ChangesTable, Dialect, Filter, KeyRange, Position};
use wire::filter::{FilterError, FilterErrorCode};
use wire::reason::ReasonKind;
use wire::target::Resource;
use wire::{ErrorCode, Target, continuation};

pub(crate) struct Selection {
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether the credential covers only a range of keys, which contains the ranges.
    pub(crate) is_confined: bool,
    pub(crate) filter: Option<Filter>,
    pub(crate) plan: PlanKind,
    /// Whether the ranges contain more keys than the filter's conditions on keys, because it allows too many ranges.
    is_reduced: bool,
}

impl Selection {
    pub(crate) fn new(context: &OperationContext<'_>) -> Result<Self, Failure> {
        let selection = Self::of_changes(context)?;
        let (ranges, is_confined) = (context.grant.restrict(selection.ranges), context.grant.is_confined());
        Ok(Self { ranges, is_confined, ..selection })
    }

    /// Returns why the ranges contain entities that the filter refuses, if another filter could avoid that.
    pub(crate) fn scan_cause(&self) -> Option<ScanCause> {
        self.filter.as_ref().and_then(|_| ScanCause::new(&self.ranges, self.is_reduced))
    }

    /// Returns the selection of a table of the change feed. The key ranges of the credential apply to the entities that
    /// changed, not to the rows of the feed.
    pub(crate) fn of_changes(context: &OperationContext<'_>) -> Result<Self, Failure> {
        let filter = context.filter().map_err(filter_failure)?;
        let plan = plan(filter.as_ref());
        let ranges = addressed(&context.resource, plan.ranges);
        Ok(Self { ranges, is_confined: false, filter, plan: plan.kind, is_reduced: plan.is_reduced })
    }
}

/// Returns the changes that the credential covers.
pub(crate) fn change_scope(context: &OperationContext<'_>, table: &ChangesTable) -> ChangeScope {
    let grant = context.grant;
    ChangeScope::new(context.account(), table, grant.restrict(vec![KeyRange::all()]), !grant.covers_every_table())
}

/// Returns the bounds that a filter and a continuation token imply for the positions of changes.
pub(crate) fn change_bounds(context: &OperationContext<'_>, filter: Option<&Filter>) -> Result<ChangeBounds, Failure> {
    let bounds = plan_bounds(filter).map_or_else(ChangeBounds::default, |bounds| ChangeBounds::new(&bounds));
    let Some(token) = Token::new(context)? else { return Ok(bounds) };
    let token = token.position(Some(CHANGES))?;
    let position = token.keys().and_then(|keys| ChangePosition::parse(&keys.row));
    Ok(bounds.starting_at(position.ok_or_else(malformed)?))
}

/// Restricts ranges to the partition in the URL, if there is one (02 §1).
fn addressed(resource: &Resource<'_>, ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    let Resource::Partition { partition, .. } = resource else { return ranges };
    let bound = Some((partition.as_ref(), None));
    let own = KeyRange::pairs(bound, bound);
    ranges.iter().map(|range| range.intersect(&own)).filter(|range| !range.is_empty()).collect()
}

/// Returns the failure for an invalid filter. A filter function that the service does not support is rejected where
/// operations are executed.
fn filter_failure(error: FilterError) -> Failure {
    match error.code {
        FilterErrorCode::InvalidInput => Failure::query(error),
        FilterErrorCode::NotImplemented => Failure::service(error),
    }
}

/// The list of the change feed. Its positions are the same in all tables of the feed.
pub(crate) const CHANGES: &str = "$Changes";

/// The list of the entities of a table in descending order of keys. Its name is no name of a view.
const DESCENDING: &str = "$Descending";

/// Returns the order of a query, given the order of the table or view that it reads.
pub(crate) fn query_order(dialect: Dialect, order: Order) -> Order {
    match order {
        Order::Key { .. } => Order::Key { is_descending: dialect.has_descending_keys() },
        Order::Value { .. } => order,
    }
}

/// Returns the list in which a table is read: `None` for the table itself in the order of keys, otherwise the name of
/// the view or of the order. A continuation token is valid only for its list.
pub(crate) fn list(table: &TableKey, order: &Order) -> Option<String> {
    match order {
        Order::Key { is_descending: false } => None,
        Order::Key { is_descending: true } => Some(DESCENDING.to_owned()),
        Order::Value { property, is_descending } => {
            Some(view_name(table.name.folded(), property.as_str(), *is_descending))
        }
    }
}

/// A continuation token from the client.
pub(crate) struct Token {
    position: Position,
    list: Option<String>,
}

impl Token {
    /// Returns the token of a request, if there is one.
    ///
    /// UNVERIFIED (04 §6): the error code for a row key without a partition key, and for a malformed token in the
    /// service's form.
    pub(crate) fn new(context: &OperationContext<'_>) -> Result<Option<Self>, Failure> {
        let row = context.options.next_row_key.as_deref();
        let Some(partition) = context.options.next_partition_key.as_deref() else {
            return if row.is_some() { Err(malformed()) } else { Ok(None) };
        };
        let split;
        let (partition, row) = match context.response.dialect {
            // Without this check, the token would be read as a key.
            Dialect::Storage if continuation::split_from_cosmos(partition, row).is_some() => return Err(malformed()),
            Dialect::Storage => (partition, row),
            Dialect::Cosmos => {
                split = continuation::split_from_cosmos(partition, row).ok_or_else(malformed)?;
                (&*split.0, split.1.as_deref())
            }
        };
        if let Some((position, list)) = continuation::decode_in_list(partition, row) {
            return Ok(Some(Self { position: Position::from_bytes(position), list: Some(list) }));
        }
        if !matches!(context.virtual_table, VirtualTable::None) {
            return Err(malformed());
        }
        let key = |token: &str| {
            Some(token).filter(|token| !token.is_empty()).and_then(continuation::decode).ok_or_else(malformed)
        };
        let (partition, row) = (key(partition)?, row.map(key).transpose()?);
        Ok(Some(Self { position: Position::new(&partition, row.as_deref().unwrap_or_default()), list: None }))
    }

    /// Removes the number of entities that remain to be skipped from the name of the list, and returns it.
    pub(crate) fn take_skip(&mut self) -> Result<usize, Failure> {
        let Some(text) = self.list.as_deref().and_then(|list| list.strip_prefix(SKIP)) else { return Ok(0) };
        let (skip, list) = text.split_once(':').ok_or_else(malformed)?;
        let skip = skip.parse().ok().filter(|skip| *skip <= SKIPPED_ENTITIES_MAX).ok_or_else(malformed)?;
        self.list = Some(list).filter(|list| !list.is_empty()).map(ToOwned::to_owned);
        Ok(skip)
    }

    /// Returns the position at which the client continues a list. Fails if the token is of another list.
    pub(crate) fn position(self, list: Option<&str>) -> Result<Position, Failure> {
        if self.list.as_deref() == list { Ok(self.position) } else { Err(malformed()) }
    }
}

fn malformed() -> Failure {
    Failure::query(ErrorCode::InvalidInput).because(ReasonKind::ContinuationInvalid.because(""))
}

/// Begins the name of a list of which entities remain to be skipped. No list begins with it otherwise.
const SKIP: &str = "$Skip";

/// Returns the name of a list of which a number of entities remain to be skipped. Only a page that ends before all of
/// them are skipped has such a token, so most tokens do not depend on `$skip`.
pub(crate) fn list_to_skip(list: Option<String>, skip: usize) -> Option<String> {
    if skip == 0 { list } else { Some(format!("{SKIP}{skip}:{}", list.unwrap_or_default())) }
}

/// Returns the headers from which the next request continues a list.
pub(crate) fn tokens(dialect: Dialect, list: Option<&str>, next: Option<&Position>) -> Vec<(&'static str, String)> {
    let encoded = next.and_then(|next| match list {
        Some(list) => {
            let (partition, row) = continuation::encode_in_list(next.as_bytes(), list);
            Some((partition, Some(row)))
        }
        None => next.partition_and_row().map(|(partition, row)| {
            (continuation::encode(partition.as_bytes()), row.map(|row| continuation::encode(row.as_bytes())))
        }),
    });
    let encoded = encoded.map(|(partition, row)| match dialect {
        Dialect::Storage => (partition, row),
        Dialect::Cosmos => {
            let (partition, row) = continuation::join_for_cosmos(&partition, row.as_deref());
            (partition, Some(row))
        }
    });
    let Some((partition, row)) = encoded else { return Vec::new() };
    let row = row.map(|row| ("x-ms-continuation-nextrowkey", row));
    [("x-ms-continuation-nextpartitionkey", partition)].into_iter().chain(row).collect()
}

/// Returns whether a client accepts server-sent events.
pub(crate) fn accepts_events(accept: &str) -> bool {
    let media_type = |range: &str| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    accept.split(',').any(|range| media_type(range) == "text/event-stream")
}

/// Returns whether a URL contains the name of a table of the change feed.
pub(crate) fn has_changes(target: &Target<'_>) -> bool {
    target
        .resource()
        .is_ok_and(|resource| table_of(&resource).is_some_and(|name| ChangesTable::from_name(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_lists_events_accepts_them() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream; q=0.9", true),
            ("application/json", false),
            ("text/*", false),
            ("", false),
        ] {
            assert_eq!(accepts_events(accept), expected, "{accept}");
        }
    }
}
