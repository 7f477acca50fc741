//! The rows of the table that `compare` prints.

use serde::Serialize;
use std::fmt;
use std::io::Write;

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) line: String,
    pub(crate) figure: &'static str,
    pub(crate) reference: String,
    pub(crate) reference_value: Option<f64>,
    pub(crate) value: Option<f64>,
    pub(crate) budget: Budget,
    pub(crate) other_value: Option<f64>,
    /// The reason why a value is missing or wrong.
    pub(crate) note: Option<String>,
}

impl Row {
    /// Prints the row when it is measured, because the whole table takes minutes.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let Row { line, figure, reference, reference_value, value, budget, other_value, note } = self;
        let ratio = value.zip(*reference_value).map(|(value, reference)| value / reference);
        let kept = match (note, ratio.and_then(|ratio| budget.is_met(ratio))) {
            (Some(note), _) => note.replace(['\n', '|'], " "),
            (None, Some(true)) => "yes".to_owned(),
            (None, Some(false)) => "NO".to_owned(),
            (None, None) => String::new(),
        };
        let values = [*reference_value, *value, ratio].map(number).join(" | ");
        let other = other_value.map_or_else(String::new, |value| number(Some(value)));
        let mut out = std::io::stdout().lock();
        writeln!(out, "| {line} | {figure} | {reference} | {values} | {budget} | {kept} | {other} |")?;
        Ok(())
    }
}

pub(crate) fn print_heading() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| line | figure | reference | value | Rowhouse | ratio | budget | kept | other |")?;
    Ok(writeln!(out, "|---|---|---|---:|---:|---:|---|---|---:|")?)
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(value)?)?)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
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
