//! Bounds for the ratio of two figures, and medians, from which ratios are computed.

use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) enum Budget {
    AtMost(f64),
    AtLeast(f64),
    /// The ratio is displayed but not checked.
    None,
}

impl Budget {
    /// Returns `None` if there is no budget.
    pub(crate) fn is_met(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtMost(bound) => Some(ratio <= bound),
            Self::AtLeast(bound) => Some(ratio >= bound),
            Self::None => None,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::None => Ok(()),
        }
    }
}

pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let above = figures.get(figures.len() / 2)?;
    let below = figures.get(figures.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*above, *below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (figures, expected) in
            [(&[][..], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[4.0, 1.0, 2.0, 9.0], Some(3.0))]
        {
            assert_eq!(median(figures.iter().copied()), expected, "{figures:?}");
        }
    }

    #[test]
    fn budgets() {
        for (budget, ratio, kept) in [
            (Budget::AtMost(2.0), 2.0, Some(true)),
            (Budget::AtMost(2.0), 2.1, Some(false)),
            (Budget::AtLeast(0.5), 0.5, Some(true)),
            (Budget::AtLeast(0.5), 0.4, Some(false)),
            (Budget::None, 9.0, None),
        ] {
            assert_eq!(budget.is_met(ratio), kept, "{budget} {ratio}");
        }
    }
}
