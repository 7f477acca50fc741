//! Query plans: the keys that a filter can match, so that a scan reads no other keys (04 §3.7).
//!
//! Invariants:
//!
//! 1. A plan never misses a match: every entity that the filter matches is in one of the ranges. The ranges may contain
//!    other entities, so the filter is still evaluated for every entity in them.
//! 2. The ranges are ascending, disjoint and not empty.
//!
//! A filter is treated as a set of areas (`areas`). For a query of many ranges, [`EntityFilter`] evaluates only what
//! the filter still requires of the entities in each of them.
//!
//! This module must not depend on storage.

mod areas;
mod entity_filter;
mod interval;
mod residual;

use crate::filter::Filter;
use crate::limits::PLAN_RANGES_MAX;
use crate::range::KeyRange;
use areas::{Area, Areas, entity_bound, hull, table_bound};
use interval::Interval;
use std::borrow::Cow;
use std::fmt;
use std::ops::Bound;

pub use entity_filter::EntityFilter;

/// The key ranges that a scan must read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The ranges, which are ascending, disjoint and not empty. If there are none, nothing can match.
    pub ranges: Vec<KeyRange>,
    /// The kind of the plan.
    pub kind: PlanKind,
    /// Whether the conditions on keys allow more ranges than can be planned, so that the ranges contain more keys than
    /// these conditions.
    pub is_reduced: bool,
}

/// The kind of a plan, as shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanKind {
    /// No entity can match.
    Nothing,
    /// One entity.
    Point,
    /// A range of row keys in one partition.
    RowRange,
    /// One range that spans more than one partition.
    PartitionRange,
    /// Several ranges.
    Ranges,
    /// Every entity of the table.
    TableScan,
}

impl PlanKind {
    /// Returns the kind of a plan that reads the given ranges, which must be disjoint and not empty.
    pub fn from_ranges(ranges: &[KeyRange]) -> Self {
        match ranges {
            [] => Self::Nothing,
            [KeyRange { start, end: None }] if start.is_empty() => Self::TableScan,
            [range] if range.is_point() => Self::Point,
            [range] if range.partition().is_some() => Self::RowRange,
            [_] => Self::PartitionRange,
            _ => Self::Ranges,
        }
    }
}

/// Why a query with a filter reads many entities that the filter refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanCause {
    /// The filter can match under every key.
    Table,
    /// The filter can match every row key of a partition.
    Partition,
    /// The filter allows more ranges of keys than a plan has.
    TooManyRanges,
}

impl ScanCause {
    /// Returns the cause in a plan that reads the given ranges, if there is one.
    pub fn new(ranges: &[KeyRange], is_reduced: bool) -> Option<Self> {
        if is_reduced {
            Some(Self::TooManyRanges)
        } else if PlanKind::from_ranges(ranges) == PlanKind::TableScan {
            Some(Self::Table)
        } else {
            ranges.iter().any(KeyRange::is_partition).then_some(Self::Partition)
        }
    }
}

impl fmt::Display for PlanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Point => "point",
            Self::RowRange => "row range",
            Self::PartitionRange => "partition range",
            Self::Ranges => "ranges",
            Self::TableScan => "table scan",
        })
    }
}

/// Returns the tightest key ranges that contain every match of a filter. `None` means a filter that matches every
/// entity.
pub fn plan(filter: Option<&Filter>) -> Plan {
    let Some(filter) = filter else {
        return Plan { ranges: vec![KeyRange::all()], kind: PlanKind::TableScan, is_reduced: false };
    };
    let Areas { areas, are_reduced } = Areas::new(filter, entity_bound, false);
    let mut ranges = disjoint(areas.iter().map(Area::range).collect());
    let is_reduced = are_reduced || ranges.len() > PLAN_RANGES_MAX;
    join_neighbours(&mut ranges, PLAN_RANGES_MAX);
    Plan { kind: PlanKind::from_ranges(&ranges), ranges, is_reduced }
}

/// A range of lower-case table names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRange {
    /// The inclusive start of the range. It need not be the name of a table.
    pub from: String,
    /// The exclusive end of the range. `None` means that the range extends to the last table.
    pub to: Option<String>,
}

impl TableRange {
    /// Returns whether a lower-case name lies in the range.
    pub fn contains(&self, folded_name: &str) -> bool {
        self.from.as_str() <= folded_name && self.to.as_deref().is_none_or(|to| folded_name < to)
    }

    /// Returns true if the range cannot contain any name.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

/// Returns the tightest single range that contains every table that the filter matches.
pub fn plan_tables(filter: Option<&Filter>) -> TableRange {
    let areas = filter.map_or_else(|| vec![Area::ALL], |filter| Areas::new(filter, table_bound, false).areas);
    let Some(Area { partitions: names, .. }) = hull(areas) else {
        return TableRange { from: String::new(), to: Some(String::new()) };
    };
    // No table name contains U+0000, so a name with it appended is the next possible name.
    let after = |name: &str| format!("{name}\0");
    let from = match &names.lower {
        Bound::Unbounded => String::new(),
        Bound::Included(name) => name.to_string(),
        Bound::Excluded(name) => after(name),
    };
    let to = match &names.upper {
        Bound::Unbounded => None,
        Bound::Included(name) => Some(after(name)),
        Bound::Excluded(name) => Some(name.to_string()),
    };
    TableRange { from, to }
}

/// Bounds on both keys of an entity, independent of each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBounds {
    /// The bounds on the partition key.
    pub partitions: (Bound<String>, Bound<String>),
    /// The bounds on the row key.
    pub rows: (Bound<String>, Bound<String>),
}

/// Returns the tightest bounds on both keys that contain every match of a filter, or `None` if nothing can match. They
/// are for tables in which both keys have the same order.
pub fn plan_bounds(filter: Option<&Filter>) -> Option<KeyBounds> {
    let areas = filter.map_or_else(|| vec![Area::ALL], |filter| Areas::new(filter, entity_bound, false).areas);
    let Area { partitions, rows, .. } = hull(areas)?;
    let owned = |bound: Bound<Cow<'_, str>>| bound.map(Cow::into_owned);
    let bounds = |interval: Interval<'_>| (owned(interval.lower), owned(interval.upper));
    Some(KeyBounds { partitions: bounds(partitions), rows: bounds(rows) })
}

/// Sorts ranges, and merges those that overlap or adjoin.
pub(super) fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    ranges.dedup_by(|range, last| {
        let adjoins = last.end.as_ref().is_none_or(|end| range.start <= *end);
        if adjoins {
            last.extend_to(range.end.take());
        }
        adjoins
    });
    ranges
}

/// If there are more than `ranges_max` disjoint ranges, joins neighbours with what is between them.
pub(super) fn join_neighbours(ranges: &mut Vec<KeyRange>, ranges_max: usize) {
    let group_size = ranges.len().div_ceil(ranges_max);
    let mut number = 0;
    ranges.dedup_by(|range, last| {
        number += 1;
        let joins = number % group_size != 0;
        if joins {
            last.extend_to(range.end.take());
        }
        joins
    });
}

#[cfg(test)]
mod tests;
