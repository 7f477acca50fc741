//! The ranges of an index that contain every match of a filter, and the choice of an index.
//!
//! Invariant: every entity that the filter matches has an entry in one of the ranges. The ranges may contain other
//! entries, so the filter is still evaluated for every entity.

use super::{
    BINARY, BOOLEAN, DATE_TIME, DOUBLE, GUID, INT32, INT64, IndexedProperty, STRING, TAGS, encoded, push_prefix,
    value_bytes,
};
use crate::edm::EdmValue;
use crate::filter::{Call, Comparison, Filter, Literal, Operator, PropertyName, StringFunction};
use crate::key::ordinal_byte;
use crate::limits::{INDEX_RANGES_MAX, INDEXED_BYTES_MAX};
use crate::plan::{disjoint, join_neighbours};
use crate::range::KeyRange;

/// The entries of an index that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPlan {
    /// The property of the index.
    pub property: IndexedProperty,
    /// The ranges of entries, ascending, disjoint and not empty. If there are none, nothing can match.
    pub ranges: Vec<KeyRange>,
}

impl IndexPlan {
    /// Returns whether the ranges contain the entries of certain values only, all of them.
    pub fn is_of_values(&self) -> bool {
        self.ranges.iter().all(is_value)
    }

    /// Leaves out entries of entities outside a range of keys. The entries of one value are in the order of keys, so
    /// this is possible in the ranges of single values; the other ranges stay as they are.
    #[must_use]
    pub fn within(self, keys: &KeyRange) -> Self {
        let restrict = |range: KeyRange| {
            if !is_value(&range) {
                return range;
            }
            let entry = |key: &[u8]| [range.start.as_slice(), key].concat();
            KeyRange {
                start: entry(&keys.start),
                end: keys.end.as_deref().map_or(range.end.clone(), |end| Some(entry(end))),
            }
        };
        let ranges = self.ranges.into_iter().map(restrict).filter(|range| !range.is_empty()).collect();
        Self { ranges, ..self }
    }
}

/// How much of an index the ranges of a plan contain. The order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Selectivity {
    /// The entries of certain values.
    Values,
    /// The entries between two values of a type.
    Between,
    /// The entries on one side of a value, perhaps with all values of other types.
    OneSide,
}

/// Chooses the index that a query reads instead of the entities in `key_ranges`. Returns `None` if no index helps: the
/// filter restricts no indexed property, or the keys are a better restriction.
pub fn plan_index<'p>(
    filter: &Filter,
    key_ranges: &[KeyRange],
    indexes: impl IntoIterator<Item = &'p IndexedProperty>,
) -> Option<IndexPlan> {
    // No index is faster than the entities themselves.
    if key_ranges.iter().all(KeyRange::is_point) {
        return None;
    }
    // A partition may have few entities, so only a condition that few entities meet is worth a second lookup.
    let worst = match key_ranges {
        [range] if range.partition().is_some() => Selectivity::Values,
        _ => Selectivity::OneSide,
    };
    let plans = indexes.into_iter().filter_map(|property| {
        let ranges = value_ranges(filter, property)?;
        Some((selectivity(&ranges)?, IndexPlan { property: property.clone(), ranges }))
    });
    let (selectivity, plan) = plans.min_by_key(|(selectivity, _)| *selectivity)?;
    (selectivity <= worst).then_some(plan)
}

/// Returns ascending, disjoint ranges of an index that contain the entry of every match of a filter. Returns `None` if
/// an entity without an entry may match.
pub fn value_ranges(filter: &Filter, property: &IndexedProperty) -> Option<Vec<KeyRange>> {
    let mut ranges = Vec::new();
    if !add_ranges(filter, true, property, &mut ranges) {
        return None;
    }
    let mut ranges = disjoint(ranges);
    join_neighbours(&mut ranges, INDEX_RANGES_MAX);
    Some(ranges)
}

/// Adds ranges that contain the entry of every entity for which the filter evaluates to `wanted`. Returns false, and
/// adds nothing, if there may be such an entity without an entry: a condition on a missing property is false.
fn add_ranges(filter: &Filter, wanted: bool, property: &IndexedProperty, ranges: &mut Vec<KeyRange>) -> bool {
    let is_indexed = |name: &PropertyName| matches!(name, PropertyName::Custom(name) if **name == *property.as_str());
    match filter {
        Filter::And(operands) if wanted => return add_intersection(operands, wanted, property, ranges),
        Filter::Or(operands) if !wanted => return add_intersection(operands, wanted, property, ranges),
        Filter::And(operands) | Filter::Or(operands) => {
            let start = ranges.len();
            let is_union = operands.iter().all(|operand| add_ranges(operand, wanted, property, ranges));
            if !is_union {
                ranges.truncate(start);
            }
            return is_union;
        }
        Filter::Not(operand) => return add_ranges(operand, !wanted, property, ranges),
        Filter::Constant(value) => return *value != wanted,
        Filter::Compare(comparison) if wanted && is_indexed(&comparison.property) => {
            ranges.extend(comparison_ranges(comparison));
        }
        Filter::IsTrue(name) if wanted && is_indexed(name) => {
            ranges.push(with_prefix(encoded(EdmValue::Boolean(true))));
        }
        Filter::Call(call) if wanted && is_indexed(&call.property) => ranges.push(call_range(call)),
        Filter::Compare(_) | Filter::IsTrue(_) | Filter::Call(_) => return false,
    }
    true
}

fn add_intersection(operands: &[Filter], wanted: bool, property: &IndexedProperty, ranges: &mut Vec<KeyRange>) -> bool {
    let mut result: Option<Vec<KeyRange>> = None;
    for operand in operands {
        let mut other = Vec::new();
        if add_ranges(operand, wanted, property, &mut other) {
            let other = disjoint(other);
            result = Some(match result {
                None => other,
                Some(own) => intersection(&own, &other),
            });
        }
    }
    let is_restricting = result.is_some();
    ranges.extend(result.into_iter().flatten());
    is_restricting
}

/// Returns the intersection of two lists of ascending, disjoint ranges.
fn intersection(a: &[KeyRange], b: &[KeyRange]) -> Vec<KeyRange> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut result = Vec::new();
    while let (Some(of_a), Some(of_b)) = (a.peek(), b.peek()) {
        result.push(of_a.intersect(of_b));
        let ends_first = of_a.end.as_ref().is_some_and(|end| of_b.end.as_ref().is_none_or(|other| end <= other));
        if ends_first {
            a.next()
        } else {
            b.next()
        };
    }
    result.retain(|range| !range.is_empty());
    result
}

fn comparison_ranges(Comparison { operator, literal, .. }: &Comparison) -> Vec<KeyRange> {
    let bounds = bounds(literal);
    match operator {
        // Nearly every value differs.
        Operator::NotEqual => vec![of_tags(*TAGS.start(), *TAGS.end())],
        Operator::Equal => bounds.into_iter().map(|bound| with_prefix(bound.encoded)).collect(),
        Operator::GreaterThan | Operator::GreaterThanOrEqual => bounds
            .into_iter()
            .map(|bound| {
                let includes_equal = bound.is_cut || *operator == Operator::GreaterThanOrEqual;
                let end = of_tags(bound.tag, bound.tag).end;
                let KeyRange { start, end: after } = with_prefix(bound.encoded);
                KeyRange { start: if includes_equal { start } else { after.unwrap_or_default() }, end }
            })
            .collect(),
        // A value whose type does not match the literal is less than it (04 §3.2).
        Operator::LessThan | Operator::LessThanOrEqual => TAGS
            .filter_map(|tag| {
                let all = of_tags(tag, tag);
                if tag == DOUBLE && matches!(literal, Literal::Double(number) if number.is_nan()) {
                    return None;
                }
                let Some(bound) = bounds.iter().find(|bound| bound.tag == tag) else { return Some(all) };
                let includes_equal = bound.is_cut || *operator == Operator::LessThanOrEqual;
                let KeyRange { start, end: after } = with_prefix(bound.encoded.clone());
                Some(KeyRange { start: all.start, end: if includes_equal { after } else { Some(start) } })
            })
            .collect(),
    }
}

/// A literal as a value of a type with which it can be compared.
struct Bound {
    tag: u8,
    encoded: Vec<u8>,
    /// Whether values that differ from the literal may be encoded like it.
    is_cut: bool,
}

/// Returns a literal as a value of each type with which it can be compared (04 §3.3). Nothing is equal to a number that
/// is not one, or greater.
#[expect(clippy::cast_precision_loss, reason = "a 64-bit literal is rounded to the property's type, as .NET does")]
fn bounds(literal: &Literal) -> Vec<Bound> {
    let bound = |tag, value| Bound { tag, encoded: encoded(value), is_cut: false };
    let cut = |tag, value, bytes| Bound { is_cut: bytes > INDEXED_BYTES_MAX, ..bound(tag, value) };
    match literal {
        Literal::String(text) => vec![cut(STRING, EdmValue::String(text), text.len())],
        Literal::Binary(bytes) => vec![cut(BINARY, EdmValue::Binary(bytes), bytes.len())],
        Literal::Boolean(value) => vec![bound(BOOLEAN, EdmValue::Boolean(*value))],
        Literal::DateTime(value) => vec![bound(DATE_TIME, EdmValue::DateTime(*value))],
        Literal::Guid(value) => vec![bound(GUID, EdmValue::Guid(*value))],
        Literal::Int32(value) => vec![
            bound(INT32, EdmValue::Int32(*value)),
            bound(INT64, EdmValue::Int64((*value).into())),
            bound(DOUBLE, EdmValue::Double((*value).into())),
        ],
        Literal::Int64(value) => {
            vec![bound(INT64, EdmValue::Int64(*value)), bound(DOUBLE, EdmValue::Double(*value as f64))]
        }
        Literal::Double(value) if value.is_nan() => Vec::new(),
        Literal::Double(value) => vec![bound(DOUBLE, EdmValue::Double(*value))],
    }
}

fn call_range(Call { function, text, .. }: &Call) -> KeyRange {
    match function {
        StringFunction::StartsWith => {
            let mut prefix = Vec::new();
            push_prefix(STRING, text.as_bytes(), ordinal_byte, &mut prefix);
            with_prefix(prefix)
        }
        StringFunction::EndsWith | StringFunction::Contains => of_tags(STRING, STRING),
    }
}

fn of_tags(first: u8, last: u8) -> KeyRange {
    KeyRange { start: vec![first], end: Some(vec![last + 1]) }
}

/// Returns the range of the entries with a prefix that begins with a tag.
fn with_prefix(prefix: Vec<u8>) -> KeyRange {
    let mut end = prefix.clone();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    KeyRange { start: prefix, end: Some(end) }
}

/// Returns whether a range contains the entries of one value, and nothing else.
fn is_value(range: &KeyRange) -> bool {
    value_bytes(&range.start) == Some(range.start.len()) && *range == with_prefix(range.start.clone())
}

/// Returns `None` if the ranges contain all values of every type that they contain.
fn selectivity(ranges: &[KeyRange]) -> Option<Selectivity> {
    let is_inside = |bound: &[u8]| bound.len() > 1;
    let has_start = |range: &KeyRange| is_inside(&range.start);
    let has_end = |range: &KeyRange| range.end.as_deref().is_some_and(is_inside);
    if ranges.iter().all(is_value) {
        Some(Selectivity::Values)
    } else if ranges.iter().all(|range| has_start(range) && has_end(range)) {
        Some(Selectivity::Between)
    } else {
        ranges.iter().any(|range| has_start(range) || has_end(range)).then_some(Selectivity::OneSide)
    }
}

#[cfg(test)]
mod tests;
