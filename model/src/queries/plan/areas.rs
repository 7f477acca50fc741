//! The areas of a filter: which keys it can match, and what it requires of the entities with these keys.
//!
//! An area is the product of an interval of partition keys and an interval of row keys. A condition that neither
//! compares a key with a string nor requires it to start with one does not restrict keys. Conditions on keys are exact,
//! because every entity has both keys. What else a filter requires of the entities of an area is the area's residual.
//!
//! Invariants:
//!
//! 1. Every entity that the filter matches is in one of the areas.
//! 2. Unless the areas are reduced, the filter matches exactly those entities that are in one of the areas and meet its
//!    residual.
//! 3. Planning takes time proportional to the length of the filter and at most [`PLAN_STEPS_MAX`] steps more.
//!
//! This module must not depend on how areas are read.

use super::interval::{Interval, borrowed};
use super::residual::Residual;
use crate::filter::{Call, Comparison, Filter, Literal, Operator, PropertyName, StringFunction, TABLE_NAME};
use crate::limits::{PLAN_RANGES_MAX, PLAN_STEPS_MAX};
use crate::range::KeyRange;
use std::borrow::Cow;
use std::ops::Bound;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Partition,
    Row,
}

/// A function that returns the key that a condition on a property bounds, and the string that bounds it: the literal of
/// the condition in the form in which keys are ordered.
pub(super) type KeyBound = for<'f> fn(&PropertyName, &'f str) -> Option<(Axis, Cow<'f, str>)>;

/// Returns the bound of a condition on an entity's key.
pub(super) fn entity_bound<'f>(property: &PropertyName, text: &'f str) -> Option<(Axis, Cow<'f, str>)> {
    match property {
        PropertyName::PartitionKey => Some((Axis::Partition, Cow::Borrowed(text))),
        PropertyName::RowKey => Some((Axis::Row, Cow::Borrowed(text))),
        PropertyName::Timestamp | PropertyName::Custom(_) => None,
    }
}

/// Returns the bound of a condition on a table's name. Table names are treated as partition keys.
pub(super) fn table_bound<'f>(property: &PropertyName, text: &'f str) -> Option<(Axis, Cow<'f, str>)> {
    (property.as_str() == TABLE_NAME).then(|| (Axis::Partition, Cow::Owned(text.to_ascii_lowercase())))
}

/// The set of all entities whose two keys lie in two intervals, and a condition on them.
#[derive(Debug, Clone)]
pub(super) struct Area<'f> {
    pub(super) partitions: Interval<'f>,
    pub(super) rows: Interval<'f>,
    pub(super) residual: Residual,
}

impl<'f> Area<'f> {
    pub(super) const ALL: Self = Self { partitions: Interval::ALL, rows: Interval::ALL, residual: Residual::None };

    fn along(axis: Axis, interval: Interval<'f>) -> Self {
        match axis {
            Axis::Partition => Self { partitions: interval, ..Self::ALL },
            Axis::Row => Self { rows: interval, ..Self::ALL },
        }
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        Some(Self {
            partitions: self.partitions.intersect(&other.partitions)?,
            rows: self.rows.intersect(&other.rows)?,
            residual: self.residual.and(&other.residual),
        })
    }

    fn hull(&self, other: &Self) -> Self {
        Self {
            partitions: self.partitions.hull(&other.partitions),
            rows: self.rows.hull(&other.rows),
            residual: Residual::None,
        }
    }

    /// Returns the smallest range of keys that contains the area.
    pub(super) fn range(&self) -> KeyRange {
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

    /// Returns the condition that an entity in the range must meet to be in the area and to meet its residual.
    pub(super) fn residual_in_range(&self) -> Residual {
        if self.partitions.single().is_some() {
            return self.residual.clone();
        }
        let row = |operator, text: &str| {
            let literal = Literal::String(text.into());
            Filter::Compare(Comparison { property: PropertyName::RowKey, operator, literal })
        };
        let lower = match borrowed(&self.rows.lower) {
            Bound::Unbounded => None,
            Bound::Included(text) => Some(row(Operator::GreaterThanOrEqual, text)),
            Bound::Excluded(text) => Some(row(Operator::GreaterThan, text)),
        };
        let upper = match borrowed(&self.rows.upper) {
            Bound::Unbounded => None,
            Bound::Included(text) => Some(row(Operator::LessThanOrEqual, text)),
            Bound::Excluded(text) => Some(row(Operator::LessThan, text)),
        };
        lower.into_iter().chain(upper).fold(self.residual.clone(), |all, row| all.and(&Residual::from(row)))
    }
}

/// Returns the smallest area that contains all of the given areas, or `None` if there are none.
pub(super) fn hull(areas: Vec<Area<'_>>) -> Option<Area<'_>> {
    areas.into_iter().reduce(|a, b| a.hull(&b))
}

/// The areas of a filter.
pub(super) struct Areas<'f> {
    pub(super) areas: Vec<Area<'f>>,
    /// Whether the areas contain more keys than the conditions on keys allow, because planning them would have taken
    /// too many steps.
    pub(super) are_reduced: bool,
}

impl<'f> Areas<'f> {
    /// Returns the areas of a filter. Their residuals are [`Residual::None`] if they are not wanted, which saves time.
    pub(super) fn new(filter: &'f Filter, key_bound: KeyBound, with_residuals: bool) -> Self {
        let mut planner = Planner { key_bound, with_residuals, steps_left: PLAN_STEPS_MAX, has_skipped: false };
        let mut areas = Vec::new();
        if !planner.add(filter, true, &mut areas) {
            let residual = if with_residuals { Residual::all(&[filter], true) } else { Residual::None };
            areas.push(Area { residual, ..Area::ALL });
        }
        Self { areas, are_reduced: planner.has_skipped }
    }
}

struct Planner {
    key_bound: KeyBound,
    with_residuals: bool,
    /// The number of areas that may still be combined.
    steps_left: usize,
    /// Whether a combination was left out.
    has_skipped: bool,
}

impl Planner {
    /// Adds areas that contain every entity for which the filter evaluates to `wanted`. Returns false, and adds
    /// nothing, if the filter does not restrict keys.
    ///
    /// The areas of a negation are not the complement of the filter's areas, because areas may contain more than the
    /// matches. A negation is therefore pushed down to the conditions.
    fn add<'f>(&mut self, filter: &'f Filter, wanted: bool, areas: &mut Vec<Area<'f>>) -> bool {
        let (axis, intervals) = match filter {
            Filter::And(operands) if wanted => return self.intersection(operands, wanted, areas),
            Filter::Or(operands) if !wanted => return self.intersection(operands, wanted, areas),
            Filter::And(operands) | Filter::Or(operands) => return self.union(operands, wanted, areas),
            Filter::Not(operand) => return self.add(operand, !wanted, areas),
            // A comparison of a key with a literal of a different type gives no bound (UNVERIFIED, 04 §3.6).
            Filter::Compare(Comparison { property, operator, literal: Literal::String(text) }) => {
                let Some((axis, text)) = (self.key_bound)(property, text) else { return false };
                (axis, Interval::matching(if wanted { *operator } else { operator.negated() }, text))
            }
            Filter::Call(Call { function: StringFunction::StartsWith, property, text }) => {
                let Some((axis, text)) = (self.key_bound)(property, text) else { return false };
                (axis, Interval::starting_with(text, wanted))
            }
            Filter::Constant(value) => return *value != wanted,
            Filter::Compare(_) | Filter::IsTrue(_) | Filter::Call(_) => return false,
        };
        areas.extend(intervals.into_iter().flatten().map(|interval| Area::along(axis, interval)));
        true
    }

    fn union<'f>(&mut self, operands: &'f [Filter], wanted: bool, areas: &mut Vec<Area<'f>>) -> bool {
        let start = areas.len();
        let is_restricting = operands.iter().all(|operand| self.add(operand, wanted, areas));
        if !is_restricting {
            areas.truncate(start);
        }
        is_restricting
    }

    fn intersection<'f>(&mut self, operands: &'f [Filter], wanted: bool, areas: &mut Vec<Area<'f>>) -> bool {
        let start = areas.len();
        let mut is_restricting = false;
        let mut other_areas = Vec::new();
        let mut conditions = Vec::new();
        for operand in operands {
            if !is_restricting && self.add(operand, wanted, areas) {
                is_restricting = true;
            } else if is_restricting && self.add(operand, wanted, &mut other_areas) {
                let own_areas = areas.split_off(start);
                areas.append(&mut self.product(own_areas, std::mem::take(&mut other_areas)));
            } else if self.with_residuals {
                conditions.push(operand);
            }
        }
        let own_areas = areas.get_mut(start..).unwrap_or_default();
        if !conditions.is_empty() && is_restricting && self.takes_steps(own_areas.len()) {
            let condition = Residual::all(&conditions, wanted);
            for area in own_areas {
                area.residual = area.residual.and(&condition);
            }
        }
        is_restricting
    }

    /// Returns the intersections of the areas of two sets. If that would take too many steps, replaces one set by its
    /// hull: preferably one that leaves partitions unbounded.
    fn product<'f>(&mut self, mut large: Vec<Area<'f>>, mut small: Vec<Area<'f>>) -> Vec<Area<'f>> {
        let steps = |a: &[_], b: &[_]| a.len().saturating_mul(b.len());
        if small.len() > 1 && steps(&large, &small) > self.steps_left.min(PLAN_RANGES_MAX) {
            let bounds_partitions = |areas: &[Area<'_>]| areas.iter().all(|area| area.partitions != Interval::ALL);
            if bounds_partitions(&small) && !bounds_partitions(&large) {
                std::mem::swap(&mut large, &mut small);
            }
            self.has_skipped = true;
            small = Vec::from_iter(hull(small));
        }
        if !self.takes_steps(steps(&large, &small)) {
            return large;
        }
        large.iter().flat_map(|a| small.iter().filter_map(|b| a.intersect(b))).collect()
    }

    /// Returns whether so many steps are left, and takes them.
    fn takes_steps(&mut self, steps: usize) -> bool {
        let rest = self.steps_left.checked_sub(steps);
        self.has_skipped |= rest.is_none();
        self.steps_left = rest.unwrap_or(self.steps_left);
        rest.is_some()
    }
}
