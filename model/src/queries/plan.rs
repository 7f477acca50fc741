//! Query plans: the keys that a filter can match, so that a scan reads no other keys (04 §3.7).
//!
//! Invariants:
//!
//! 1. A plan never misses a match: every entity that the filter matches is in one of the ranges. The ranges may contain
//!    other entities, so the filter is still evaluated for every entity in them.
//! 2. The ranges are ascending, disjoint and not empty.
//!
//! A filter is treated as a set of areas. An area is the product of an interval of partition keys and an interval of
//! row keys. A part of the filter that neither compares a key with a string nor requires it to start with one does not
//! restrict keys, so it becomes the area of all keys.
//!
//! This module must not depend on storage.

use crate::edm::compare_ordinal;
use crate::filter::{Call, Comparison, Filter, Literal, Operator, PropertyName, StringFunction, TABLE_NAME};
use crate::limits::PLAN_RANGES_MAX;
use crate::prefix::successor;
use crate::range::KeyRange;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// Maximum number of areas that an `and` of two sets of areas may produce. Beyond this number, the larger set is
/// replaced by its hull. The limit bounds the work of planning; filters written by people stay far below it.
const AREAS_MAX: usize = PLAN_RANGES_MAX * PLAN_RANGES_MAX;

/// The key ranges that a scan must read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The ranges, which are ascending, disjoint and not empty. If there are none, nothing can match.
    pub ranges: Vec<KeyRange>,
    /// The kind of the plan.
    pub kind: PlanKind,
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
    let ranges = match filter {
        None => vec![KeyRange::all()],
        Some(filter) => disjoint(areas(filter, true, entity_bound).iter().map(Area::range).collect(), PLAN_RANGES_MAX),
    };
    Plan { kind: PlanKind::from_ranges(&ranges), ranges }
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
    let areas = filter.map_or_else(|| vec![Area::ALL], |filter| areas(filter, true, table_bound));
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
    let areas = filter.map_or_else(|| vec![Area::ALL], |filter| areas(filter, true, entity_bound));
    let Area { partitions, rows } = hull(areas)?;
    let owned = |bound: Bound<Cow<'_, str>>| bound.map(Cow::into_owned);
    let bounds = |interval: Interval<'_>| (owned(interval.lower), owned(interval.upper));
    Some(KeyBounds { partitions: bounds(partitions), rows: bounds(rows) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Partition,
    Row,
}

/// A function that returns the key that a condition on a property bounds, and the string that bounds it: the literal of
/// the condition in the form in which keys are ordered.
type KeyBound = for<'f> fn(&PropertyName, &'f str) -> Option<(Axis, Cow<'f, str>)>;

/// Returns the bound of a condition on an entity's key.
fn entity_bound<'f>(property: &PropertyName, text: &'f str) -> Option<(Axis, Cow<'f, str>)> {
    match property {
        PropertyName::PartitionKey => Some((Axis::Partition, Cow::Borrowed(text))),
        PropertyName::RowKey => Some((Axis::Row, Cow::Borrowed(text))),
        PropertyName::Timestamp | PropertyName::Custom(_) => None,
    }
}

/// Returns the bound of a condition on a table's name. Table names are treated as partition keys.
fn table_bound<'f>(property: &PropertyName, text: &'f str) -> Option<(Axis, Cow<'f, str>)> {
    (property.as_str() == TABLE_NAME).then(|| (Axis::Partition, Cow::Owned(text.to_ascii_lowercase())))
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Interval<'f> {
    lower: Bound<Cow<'f, str>>,
    upper: Bound<Cow<'f, str>>,
}

impl<'f> Interval<'f> {
    const ALL: Self = Self { lower: Bound::Unbounded, upper: Bound::Unbounded };

    fn matching(operator: Operator, text: Cow<'f, str>) -> Vec<Self> {
        let below = |upper| Self { lower: Bound::Unbounded, upper };
        let above = |lower| Self { lower, upper: Bound::Unbounded };
        // Keys do not contain the bytes that structure encoded keys, so a string that contains such a byte equals no
        // key. It sorts directly after the part before that byte, and before every longer key that begins with that
        // part.
        if let Some((head, _)) = text.split_once(['\0', '\u{1}']) {
            let head = Cow::Owned(head.to_owned());
            return match operator {
                Operator::Equal => Vec::new(),
                Operator::NotEqual => vec![Self::ALL],
                Operator::LessThan | Operator::LessThanOrEqual => vec![below(Bound::Included(head))],
                Operator::GreaterThan | Operator::GreaterThanOrEqual => vec![above(Bound::Excluded(head))],
            };
        }
        match operator {
            Operator::Equal => vec![Self { lower: Bound::Included(text.clone()), upper: Bound::Included(text) }],
            Operator::NotEqual => vec![below(Bound::Excluded(text.clone())), above(Bound::Excluded(text))],
            Operator::LessThan => vec![below(Bound::Excluded(text))],
            Operator::LessThanOrEqual => vec![below(Bound::Included(text))],
            Operator::GreaterThan => vec![above(Bound::Excluded(text))],
            Operator::GreaterThanOrEqual => vec![above(Bound::Included(text))],
        }
    }

    /// Returns the intervals of all keys that start with a prefix, or if `wanted` is false, of all other keys.
    fn starting_with(prefix: Cow<'f, str>, wanted: bool) -> Vec<Self> {
        // No key contains the bytes that structure encoded keys.
        if prefix.contains(['\0', '\u{1}']) {
            return if wanted { Vec::new() } else { vec![Self::ALL] };
        }
        let end = successor(&prefix).map(Cow::Owned);
        if wanted {
            let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
            return vec![Self { lower: Bound::Included(prefix), upper }];
        }
        let after = end.map(|end| Self { lower: Bound::Included(end), upper: Bound::Unbounded });
        [Self { lower: Bound::Unbounded, upper: Bound::Excluded(prefix) }].into_iter().chain(after).collect()
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        let lower = tighter(&self.lower, &other.lower, Ordering::Greater).clone();
        let upper = tighter(&self.upper, &other.upper, Ordering::Less).clone();
        let empty = match (&lower, &upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(from), Bound::Included(to)) => compare_ordinal(from, to).is_gt(),
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
                compare_ordinal(from, to).is_ge()
            }
        };
        (!empty).then_some(Self { lower, upper })
    }

    fn hull(&self, other: &Self) -> Self {
        Self {
            lower: looser(&self.lower, &other.lower, Ordering::Greater).clone(),
            upper: looser(&self.upper, &other.upper, Ordering::Less).clone(),
        }
    }

    fn single(&self) -> Option<&str> {
        match (&self.lower, &self.upper) {
            (Bound::Included(from), Bound::Included(to)) if from == to => Some(from),
            _ => None,
        }
    }
}

/// Returns whether the first bound admits fewer strings than the second. `inward` is the order of an admitted string
/// relative to the bound: greater for a lower bound, less for an upper bound.
fn is_tighter(a: &Bound<Cow<'_, str>>, b: &Bound<Cow<'_, str>>, inward: Ordering) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let order = compare_ordinal(x, y);
            order == inward || (order.is_eq() && matches!(a, Bound::Excluded(_)))
        }
    }
}

fn tighter<'b, 'f>(
    a: &'b Bound<Cow<'f, str>>,
    b: &'b Bound<Cow<'f, str>>,
    inward: Ordering,
) -> &'b Bound<Cow<'f, str>> {
    if is_tighter(a, b, inward) { a } else { b }
}

fn looser<'b, 'f>(a: &'b Bound<Cow<'f, str>>, b: &'b Bound<Cow<'f, str>>, inward: Ordering) -> &'b Bound<Cow<'f, str>> {
    if is_tighter(a, b, inward) { b } else { a }
}

fn borrowed<'b>(bound: &'b Bound<Cow<'_, str>>) -> Bound<&'b str> {
    bound.as_ref().map(|text| &**text)
}

/// The set of all entities whose two keys lie in two intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Area<'f> {
    partitions: Interval<'f>,
    rows: Interval<'f>,
}

impl Area<'_> {
    const ALL: Self = Self { partitions: Interval::ALL, rows: Interval::ALL };

    fn intersect(&self, other: &Self) -> Option<Self> {
        Some(Self {
            partitions: self.partitions.intersect(&other.partitions)?,
            rows: self.rows.intersect(&other.rows)?,
        })
    }

    fn hull(&self, other: &Self) -> Self {
        Self { partitions: self.partitions.hull(&other.partitions), rows: self.rows.hull(&other.rows) }
    }

    fn range(&self) -> KeyRange {
        if let Some(partition) = self.partitions.single() {
            return KeyRange::rows(partition, borrowed(&self.rows.lower), borrowed(&self.rows.upper));
        }
        let mut range = KeyRange::partitions(borrowed(&self.partitions.lower), borrowed(&self.partitions.upper));
        // The row keys also narrow the ends of the first and the last partition, if these are known.
        if let (Bound::Included(first), Bound::Included(_) | Bound::Excluded(_)) =
            (&self.partitions.lower, &self.rows.lower)
        {
            range.start = KeyRange::rows(first, borrowed(&self.rows.lower), Bound::Unbounded).start;
        }
        if let (Bound::Included(last), Bound::Included(_) | Bound::Excluded(_)) =
            (&self.partitions.upper, &self.rows.upper)
        {
            range.end = KeyRange::rows(last, Bound::Unbounded, borrowed(&self.rows.upper)).end;
        }
        range
    }
}

/// Returns the smallest area that contains all of the given areas, or `None` if there are none.
fn hull(areas: Vec<Area<'_>>) -> Option<Area<'_>> {
    areas.into_iter().reduce(|a, b| a.hull(&b))
}

/// Returns areas that contain every entity for which the filter evaluates to `wanted`. The areas of a negation are not
/// the complement of the filter's areas, because areas may contain more than the matches. A negation is therefore
/// pushed down to the conditions. Those are exact for keys, because every entity has both keys.
fn areas(filter: &Filter, wanted: bool, key_bound: KeyBound) -> Vec<Area<'_>> {
    match filter {
        Filter::And(operands) if wanted => intersection(operands, wanted, key_bound),
        Filter::Or(operands) if !wanted => intersection(operands, wanted, key_bound),
        Filter::And(operands) | Filter::Or(operands) => union(operands, wanted, key_bound),
        Filter::Not(operand) => areas(operand, !wanted, key_bound),
        // A comparison of a key with a literal of a different type gives no bound (UNVERIFIED, 04 §3.6).
        Filter::Compare(Comparison { property, operator, literal: Literal::String(text) }) => {
            let operator = if wanted { *operator } else { operator.negated() };
            areas_along(key_bound(property, text), |text| Interval::matching(operator, text))
        }
        Filter::Call(Call { function: StringFunction::StartsWith, property, text }) => {
            areas_along(key_bound(property, text), |text| Interval::starting_with(text, wanted))
        }
        Filter::Compare(_) | Filter::Call(_) | Filter::IsTrue(_) => vec![Area::ALL],
        Filter::Constant(value) if *value == wanted => vec![Area::ALL],
        Filter::Constant(_) => Vec::new(),
    }
}

/// Returns the areas in which a key lies in one of the intervals for a string, or the area of all keys if there is no
/// bound.
fn areas_along<'f>(
    bound: Option<(Axis, Cow<'f, str>)>,
    intervals: impl FnOnce(Cow<'f, str>) -> Vec<Interval<'f>>,
) -> Vec<Area<'f>> {
    let Some((axis, text)) = bound else { return vec![Area::ALL] };
    let area = |interval| match axis {
        Axis::Partition => Area { partitions: interval, rows: Interval::ALL },
        Axis::Row => Area { partitions: Interval::ALL, rows: interval },
    };
    intervals(text).into_iter().map(area).collect()
}

fn union(operands: &[Filter], wanted: bool, key_bound: KeyBound) -> Vec<Area<'_>> {
    let mut result = Vec::new();
    for operand in operands {
        let more = areas(operand, wanted, key_bound);
        if more.contains(&Area::ALL) {
            return vec![Area::ALL];
        }
        result.extend(more);
    }
    result
}

fn intersection(operands: &[Filter], wanted: bool, key_bound: KeyBound) -> Vec<Area<'_>> {
    let mut result = vec![Area::ALL];
    for operand in operands {
        let other = areas(operand, wanted, key_bound);
        if other.contains(&Area::ALL) {
            continue;
        }
        if result.as_slice() == [Area::ALL] {
            result = other;
            continue;
        }
        let (mut large, mut small) = if result.len() < other.len() { (other, result) } else { (result, other) };
        if large.len() * small.len() > AREAS_MAX {
            large = Vec::from_iter(hull(large));
        }
        if large.len() * small.len() > AREAS_MAX {
            small = Vec::from_iter(hull(small));
        }
        result = large.iter().flat_map(|a| small.iter().filter_map(|b| a.intersect(b))).collect();
    }
    result
}

/// Sorts and merges ranges. If more than `ranges_max` remain, returns a single range that covers all of them.
pub(super) fn disjoint(mut ranges: Vec<KeyRange>, ranges_max: usize) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut merged: Vec<KeyRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end.as_ref().is_none_or(|end| range.start <= *end) => {
                last.end = last.end.take().zip(range.end).map(|(a, b)| a.max(b));
            }
            _ => merged.push(range),
        }
    }
    if merged.len() > ranges_max {
        let end = merged.pop().and_then(|last| last.end);
        merged.truncate(1);
        if let Some(first) = merged.first_mut() {
            first.end = end;
        }
    }
    merged
}

#[cfg(test)]
mod tests;
