//! `$orderby` and `$skip`, an extension: the order in which a query lists entities, and how many it skips first.

use super::OperationContext;
use crate::failure::Failure;
use model::name::{PARTITION_KEY, ROW_KEY};
use model::{IndexedProperty, KeyRange, OrderedView, TableName};
use wire::reason::{Reason, ReasonKind};
use wire::{ErrorCode, ServiceError};

#[derive(Debug, Clone, Default)]
pub(crate) struct Sequence {
    /// The views that the query reads, in the order of precedence. If there are none, it reads the table.
    pub(crate) views: Vec<OrderedView>,
    /// Whether the order of keys is reversed; only if `$orderby` requests an order of keys.
    pub(crate) are_keys_descending: Option<bool>,
    /// The number of entities to skip before the first page.
    pub(crate) skip: usize,
    /// Why the query fails if the view does not exist; only with `$orderby`.
    pub(crate) needs_index: Option<Reason>,
}

impl Sequence {
    /// Returns the sequence of a query whose options are supported, in key ranges.
    pub(crate) fn new(context: &OperationContext<'_>, ranges: &[KeyRange]) -> Result<Self, Failure> {
        let views = context.virtual_table.views();
        if !context.offered.extensions {
            return Ok(Self { views: views.to_vec(), ..Self::default() });
        }
        let skip = context.options.skip().map_err(Failure::service)?;
        let Some(text) = context.options.order_by.as_deref() else {
            return Ok(Self { views: views.to_vec(), skip, ..Self::default() });
        };
        if !views.is_empty() {
            return Err(unsupported(text, "A view has an order. Query the table instead."));
        }
        let items = parse(text)?;
        let are_keys_descending = key_order(&items, ranges);
        if are_keys_descending.is_some() {
            return Ok(Self { are_keys_descending, skip, ..Self::default() });
        }
        let [(name, is_descending)] = items[..] else {
            return Err(unsupported(text, "Only one property can determine the order."));
        };
        let (Some(property), Ok(table)) = (IndexedProperty::new(name), TableName::new(context.table())) else {
            let detail = "RowKey alone is an order only if $filter selects one partition, and Timestamp has no index.";
            return Err(unsupported(text, detail));
        };
        let detail =
            format!("The index of {name} does not exist or is being built: rowhouse table index add {table} {name}.");
        let needs_index = Some(ReasonKind::OrderByUnsupported.because(detail));
        let views = vec![OrderedView { table, property, is_descending }];
        Ok(Self { views, skip, needs_index, ..Self::default() })
    }
}

/// Returns the properties of an order, each with whether its order is reversed.
fn parse(text: &str) -> Result<Vec<(&str, bool)>, Failure> {
    let item = |item| {
        let mut words = str::split_whitespace(item);
        match (words.next(), words.next(), words.next()) {
            (Some(name), None | Some("asc"), None) => Some((name, false)),
            (Some(name), Some("desc"), None) => Some((name, true)),
            _ => None,
        }
    };
    let items: Option<Vec<_>> = text.split(',').map(item).collect();
    items.ok_or_else(|| {
        let detail = "$orderby is not a list of properties, each with asc or desc, as in PartitionKey,RowKey desc.";
        let reason = ReasonKind::OrderByUnsupported.because(detail).quoting(text);
        Failure::query(ServiceError::from(ErrorCode::InvalidInput).because(reason))
    })
}

/// Returns whether the order of keys is reversed, or `None` if the properties do not stand for the order of keys in the
/// key ranges.
fn key_order(items: &[(&str, bool)], ranges: &[KeyRange]) -> Option<bool> {
    let is_one_partition = || {
        let first = ranges.first().map(KeyRange::partition);
        ranges.iter().all(|range| range.partition().is_some() && Some(range.partition()) == first)
    };
    match *items {
        [(PARTITION_KEY, partition), (ROW_KEY, row)] if partition == row => Some(row),
        [(PARTITION_KEY, false)] => Some(false),
        [(ROW_KEY, row)] | [(PARTITION_KEY, _), (ROW_KEY, row)] if is_one_partition() => Some(row),
        _ => None,
    }
}

fn unsupported(text: &str, detail: &'static str) -> Failure {
    let reason = ReasonKind::OrderByUnsupported.because(detail).quoting(text);
    Failure::service(ServiceError::from(ErrorCode::NotImplemented).because(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    #[test]
    fn orders_of_keys() {
        let rows = |partition| KeyRange::rows(partition, Bound::Included("1"), Bound::Excluded("5"));
        let whole = |partition| KeyRange::partitions(Bound::Included(partition), Bound::Included(partition));
        let one = [rows("a"), whole("a")];
        let two = [rows("a"), rows("ab")];
        let open = [KeyRange::partitions(Bound::Included("a"), Bound::Unbounded)];
        for (text, in_one, in_many) in [
            ("PartitionKey,RowKey", Some(false), Some(false)),
            ("PartitionKey asc , RowKey  asc", Some(false), Some(false)),
            ("PartitionKey desc,RowKey desc", Some(true), Some(true)),
            ("PartitionKey", Some(false), Some(false)),
            ("RowKey", Some(false), None),
            ("RowKey desc", Some(true), None),
            ("PartitionKey,RowKey desc", Some(true), None),
            ("RowKey,PartitionKey", None, None),
            ("rowkey", None, None),
        ] {
            let items = parse(text).unwrap();
            assert_eq!(key_order(&items, &one), in_one, "{text}");
            assert_eq!(key_order(&items, &two), in_many, "{text}");
            assert_eq!(key_order(&items, &open), in_many, "{text}");
        }
        for text in ["", "A,", "A up", "A asc desc", ",A", "A DESC"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
