//! The part of the log that a filter and a continuation token restrict a reader to.

use model::changes_table::start_of;
use model::plan::KeyBounds;
use model::{ChangePosition, DateTime};
use std::ops::Bound;

/// The bounds of a reader. Both keys of the feed have the order of positions, so each of them bounds positions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChangeBounds {
    /// The position from which changes are read.
    pub(crate) position: Option<ChangePosition>,
    /// The time from which changes are read.
    pub(crate) minute: Option<DateTime>,
    /// Whether there is a lower bound on a key, even if it is not a key of the feed.
    pub(crate) has_lower: bool,
    /// The last position that can match.
    pub(crate) last: Option<ChangePosition>,
    /// The time from which no change matches.
    pub(crate) end: Option<DateTime>,
}

impl ChangeBounds {
    /// Returns the bounds that a filter implies. A key that is not one of the feed restricts nothing here.
    pub(crate) fn new(bounds: &KeyBounds) -> Self {
        let KeyBounds { partitions, rows } = bounds;
        let position = match &rows.0 {
            Bound::Included(row) => ChangePosition::parse(row),
            Bound::Excluded(row) => ChangePosition::parse(row).map(ChangePosition::next),
            Bound::Unbounded => None,
        };
        let minute = match &partitions.0 {
            Bound::Included(partition) => start_of(partition),
            Bound::Excluded(partition) => start_after(partition),
            Bound::Unbounded => None,
        };
        let last = match &rows.1 {
            Bound::Included(row) => ChangePosition::parse(row),
            Bound::Excluded(row) => ChangePosition::parse(row).map(ChangePosition::previous),
            Bound::Unbounded => None,
        };
        let end = match &partitions.1 {
            Bound::Included(partition) => start_after(partition),
            Bound::Excluded(partition) => start_of(partition),
            Bound::Unbounded => None,
        };
        let has_lower = partitions.0 != Bound::Unbounded || rows.0 != Bound::Unbounded;
        Self { position, minute, has_lower, last, end }
    }

    /// Restricts the bounds to the changes from a position on.
    pub(crate) fn starting_at(self, position: ChangePosition) -> Self {
        Self { position: self.position.max(Some(position)), has_lower: true, ..self }
    }

    /// Returns whether the reader names where it starts.
    pub(crate) fn has_start(&self) -> bool {
        self.position.is_some() || self.minute.is_some()
    }
}

/// Returns the start of the first minute after a partition key, or after the beginning of one.
fn start_after(partition: &str) -> Option<DateTime> {
    let start = start_of(partition)?;
    if start.text().minute() == *partition.as_bytes() { start.plus_seconds(60) } else { Some(start) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::plan_bounds;
    use wire::filter::{Grammar, parse_optional};

    #[test]
    fn a_filter_bounds_positions_by_either_key() {
        let at = |index| Some(ChangePosition { transaction: 7, index });
        let time = |text| DateTime::parse(text).ok();
        for (filter, position, minute, last) in [
            ("", None, None, None),
            ("RowKey gt '00000000000000000007-001'", at(2), None, None),
            ("RowKey ge '00000000000000000007-001'", at(1), None, None),
            ("RowKey eq '00000000000000000007-001'", at(1), None, at(1)),
            ("RowKey gt '00000000000000000007-001' and RowKey lt '00000000000000000007-009'", at(2), None, at(8)),
            ("RowKey lt '00000000000000000008-000'", None, None, Some(ChangePosition::end_of(7))),
            ("RowKey gt '00000000000000000006-999'", Some(ChangePosition::start_of(7)), None, None),
            ("RowKey gt ''", None, None, None),
            ("RowKey gt '7'", None, None, None),
            ("PartitionKey ge '20261128T0510'", None, time("2026-11-28T05:10:00Z"), None),
            ("PartitionKey gt '20261128T0510'", None, time("2026-11-28T05:11:00Z"), None),
            ("PartitionKey ge '20261128'", None, time("2026-11-28T00:00:00Z"), None),
            ("PartitionKey gt '20261128'", None, time("2026-11-28T00:00:00Z"), None),
            ("PartitionKey ge '2026112'", None, None, None),
            (
                "Operation eq 'Put' and PartitionKey eq '20261128T0510' and RowKey gt '00000000000000000007-001'",
                at(2),
                time("2026-11-28T05:10:00Z"),
                None,
            ),
            ("RowKey gt '00000000000000000007-001' or Operation eq 'Put'", None, None, None),
        ] {
            let parsed = parse_optional(filter, Grammar::Service).unwrap();
            let bounds = ChangeBounds::new(&plan_bounds(parsed.as_ref()).unwrap());
            assert_eq!((bounds.position, bounds.minute, bounds.last), (position, minute, last), "{filter}");
            assert_eq!(bounds.has_start(), position.is_some() || minute.is_some());
        }
        for (filter, end) in [
            ("PartitionKey lt '20261128T0510'", time("2026-11-28T05:10:00Z")),
            ("PartitionKey le '20261128T0510'", time("2026-11-28T05:11:00Z")),
            ("PartitionKey eq '20261128T0510'", time("2026-11-28T05:11:00Z")),
            ("PartitionKey gt '20261128T0510'", None),
            ("PartitionKey lt '20261129'", time("2026-11-29T00:00:00Z")),
            ("PartitionKey le '20261129'", time("2026-11-29T00:00:00Z")),
        ] {
            let parsed = parse_optional(filter, Grammar::Service).unwrap();
            assert_eq!(ChangeBounds::new(&plan_bounds(parsed.as_ref()).unwrap()).end, end, "{filter}");
        }
    }
}
