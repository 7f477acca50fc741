//! The rows of the table that `compare` prints.

use crate::report::budget::Budget;
use serde::Serialize;
use std::io::Write;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) line: String,
    pub(crate) figure: String,
    pub(crate) reference: String,
    pub(crate) reference_value: Option<f64>,
    pub(crate) value: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) budget: Budget,
    pub(crate) is_met: Option<bool>,
    pub(crate) other_value: Option<f64>,
    /// The reason why a value is missing or wrong.
    pub(crate) note: Option<String>,
}

impl Row {
    /// Either figure may be missing.
    pub(crate) fn new(
        (line, figure, reference): (&str, &str, &str),
        (reference_value, value): (Option<f64>, Option<f64>),
        budget: Budget,
    ) -> Self {
        let ratio = value.zip(reference_value).map(|(value, reference)| value / reference);
        Self {
            line: line.to_owned(),
            figure: figure.to_owned(),
            reference: reference.to_owned(),
            reference_value,
            value,
            ratio,
            budget,
            is_met: ratio.and_then(|ratio| budget.is_met(ratio)),
            other_value: None,
            note: None,
        }
    }
}

/// A table of rows. Each row is printed when it is added, because the whole table takes minutes.
pub(crate) struct Table {
    as_json: bool,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Begins a table, and prints its heading unless it will be printed as JSON.
    pub(crate) fn new(as_json: bool) -> anyhow::Result<Self> {
        if !as_json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "| line | figure | reference | value | Rowhouse | ratio | budget | kept | other |")?;
            writeln!(out, "|---|---|---|---:|---:|---:|---|---|---:|")?;
        }
        Ok(Self { as_json, rows: Vec::new() })
    }

    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = Row>) -> anyhow::Result<()> {
        for row in rows {
            if !self.as_json {
                print(&row)?;
            }
            self.rows.push(row);
        }
        Ok(())
    }

    /// Prints the table if it is printed as JSON.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        if self.as_json { print_json(&self.rows) } else { Ok(()) }
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(value)?)?)
}

fn print(row: &Row) -> anyhow::Result<()> {
    let kept = match (&row.note, row.is_met) {
        (Some(note), _) => note.replace(['\n', '|'], " "),
        (None, Some(true)) => "yes".to_owned(),
        (None, Some(false)) => "NO".to_owned(),
        (None, None) => String::new(),
    };
    let Row { line, figure, reference, budget, .. } = row;
    let values = [row.reference_value, row.value, row.ratio].map(number).join(" | ");
    let other = row.other_value.map_or_else(String::new, |value| number(Some(value)));
    writeln!(std::io::stdout().lock(), "| {line} | {figure} | {reference} | {values} | {budget} | {kept} | {other} |")?;
    Ok(())
}

pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}
