//! Intervals of strings in the order of keys.
//!
//! This module must not depend on which key an interval bounds.

use crate::edm::compare_ordinal;
use crate::filter::Operator;
use crate::prefix::successor;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

/// An interval of strings in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interval<'f> {
    pub(super) lower: Bound<Cow<'f, str>>,
    pub(super) upper: Bound<Cow<'f, str>>,
}

impl<'f> Interval<'f> {
    pub(super) const ALL: Self = Self { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// Returns the at most two intervals of all keys for which a comparison with a string is true.
    pub(super) fn matching(operator: Operator, text: Cow<'f, str>) -> [Option<Self>; 2] {
        let below = |upper| Self { lower: Bound::Unbounded, upper };
        let above = |lower| Self { lower, upper: Bound::Unbounded };
        // Keys do not contain the bytes that structure encoded keys, so a string that contains such a byte equals no
        // key. It sorts directly after the part before that byte, and before every longer key that begins with that
        // part.
        if let Some((head, _)) = text.split_once(['\0', '\u{1}']) {
            let head = Cow::Owned(head.to_owned());
            let interval = match operator {
                Operator::Equal => None,
                Operator::NotEqual => Some(Self::ALL),
                Operator::LessThan | Operator::LessThanOrEqual => Some(below(Bound::Included(head))),
                Operator::GreaterThan | Operator::GreaterThanOrEqual => Some(above(Bound::Excluded(head))),
            };
            return [interval, None];
        }
        let interval = match operator {
            Operator::Equal => Self { lower: Bound::Included(text.clone()), upper: Bound::Included(text) },
            Operator::NotEqual => {
                return [Some(below(Bound::Excluded(text.clone()))), Some(above(Bound::Excluded(text)))];
            }
            Operator::LessThan => below(Bound::Excluded(text)),
            Operator::LessThanOrEqual => below(Bound::Included(text)),
            Operator::GreaterThan => above(Bound::Excluded(text)),
            Operator::GreaterThanOrEqual => above(Bound::Included(text)),
        };
        [Some(interval), None]
    }

    /// Returns the at most two intervals of all keys that start with a prefix, or if `wanted` is false, of all others.
    pub(super) fn starting_with(prefix: Cow<'f, str>, wanted: bool) -> [Option<Self>; 2] {
        // No key contains the bytes that structure encoded keys.
        if prefix.contains(['\0', '\u{1}']) {
            return [(!wanted).then_some(Self::ALL), None];
        }
        let end = successor(&prefix).map(Cow::Owned);
        if wanted {
            let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
            return [Some(Self { lower: Bound::Included(prefix), upper }), None];
        }
        let after = end.map(|end| Self { lower: Bound::Included(end), upper: Bound::Unbounded });
        [Some(Self { lower: Bound::Unbounded, upper: Bound::Excluded(prefix) }), after]
    }

    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
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

    pub(super) fn hull(&self, other: &Self) -> Self {
        Self {
            lower: looser(&self.lower, &other.lower, Ordering::Greater).clone(),
            upper: looser(&self.upper, &other.upper, Ordering::Less).clone(),
        }
    }

    pub(super) fn single(&self) -> Option<&str> {
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

pub(super) fn borrowed<'b>(bound: &'b Bound<Cow<'_, str>>) -> Bound<&'b str> {
    bound.as_ref().map(|text| &**text)
}
