//! Entities on standard output.

use super::entity_table::{EntityTable, one_entity};
use crate::formats::{Columns, CsvSpool, write_line};
use crate::terminal::LinesForPeople;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use client::PropertyBag;
use std::io::{IsTerminal, StdoutLock, Write};

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Aligned columns, for people
    Table,
    /// One JSON array
    Json,
    /// One JSON object per line, as export writes them
    Jsonl,
    /// Comma-separated values with types, as export writes them
    Csv,
}

impl OutputFormat {
    /// The chosen form; else a table on a terminal, and JSON lines elsewhere.
    pub(super) fn or_default(chosen: Option<Self>) -> Self {
        chosen.unwrap_or(if std::io::stdout().is_terminal() { Self::Table } else { Self::Jsonl })
    }
}

/// Writes to standard output.
pub(super) fn write_out(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context("writing to standard output")
}

/// Standard output for CSV, whose texts are not escaped.
fn csv_out() -> LinesForPeople<StdoutLock<'static>> {
    let out = std::io::stdout();
    LinesForPeople { is_terminal: out.is_terminal(), out: out.lock() }
}

/// The width of the terminal, if the output is one.
fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Writes entities page by page.
pub(super) enum EntityOutput {
    Table(EntityTable),
    Json { is_begun: bool },
    Jsonl,
    Csv(Box<CsvSpool>),
}

impl EntityOutput {
    /// An output without entities. Nothing is written yet.
    pub(super) fn new(format: OutputFormat) -> anyhow::Result<Self> {
        Ok(match format {
            OutputFormat::Table => Self::Table(EntityTable::new(width())),
            OutputFormat::Json => Self::Json { is_begun: false },
            OutputFormat::Jsonl => Self::Jsonl,
            OutputFormat::Csv => Self::Csv(Box::new(CsvSpool::new(true)?)),
        })
    }

    /// Writes a page.
    pub(super) fn page(&mut self, entities: &[PropertyBag]) -> anyhow::Result<()> {
        let mut text = Vec::new();
        match self {
            Self::Table(table) => {
                let mut page = String::new();
                table.write_page(&mut page, entities);
                text = page.into_bytes();
            }
            Self::Json { is_begun } => {
                for entity in entities {
                    text.extend_from_slice(if *is_begun { b",\n" } else { b"[" });
                    *is_begun = true;
                    line(&mut text, entity)?;
                }
            }
            Self::Jsonl => {
                for entity in entities {
                    line(&mut text, entity)?;
                    text.push(b'\n');
                }
            }
            Self::Csv(spool) => spool.push(entities)?,
        }
        write_out(&text)
    }

    /// Writes what follows the last page.
    pub(super) fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Table(table) => write_out(table.footer().as_bytes()),
            Self::Json { is_begun: true } => write_out(b"]\n"),
            Self::Json { is_begun: false } => write_out(b"[]\n"),
            Self::Jsonl => Ok(()),
            Self::Csv(spool) => spool.write_to(&mut csv_out()),
        }
    }
}

/// Writes one entity.
pub(super) fn write_one(format: OutputFormat, entity: &PropertyBag) -> anyhow::Result<()> {
    let mut text = Vec::new();
    match format {
        OutputFormat::Table => text = one_entity(entity).into_bytes(),
        OutputFormat::Json | OutputFormat::Jsonl => {
            line(&mut text, entity)?;
            text.push(b'\n');
        }
        OutputFormat::Csv => {
            let mut columns = Columns::default();
            columns.add(entity.properties.as_record_builder());
            columns.write_header(&mut text, true);
            columns.write_entity(&mut text, entity, true).map_err(|_| anyhow!("the entity is damaged"))?;
            return csv_out().write_all(&text).context("writing to standard output");
        }
    }
    write_out(&text)
}

fn line(out: &mut Vec<u8>, entity: &PropertyBag) -> anyhow::Result<()> {
    write_line(out, entity, true).map_err(|_| anyhow!("an entity is damaged"))
}
