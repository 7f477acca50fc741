//! Entities on standard output.

use super::entity_table::{EntityTable, one_entity};
use crate::formats::{Columns, CsvSpool, write_line};
use crate::terminal::TerminalSafeWriter;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use client::PropertyBag;
use model::control_characters::is_control_character;
use std::io::{IsTerminal, StdoutLock, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Aligned columns, for reading
    Table,
    /// One JSON array
    Json,
    /// One JSON object per line, as export writes them, but in UTF-8
    Jsonl,
    /// Comma-separated values with types, as export writes them
    Csv,
}

impl OutputFormat {
    /// The default is a table on a terminal, and JSON Lines elsewhere.
    pub(super) fn or_default(chosen: Option<Self>) -> Self {
        chosen.unwrap_or(if std::io::stdout().is_terminal() { Self::Table } else { Self::Jsonl })
    }
}

pub(super) fn write_out(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context("writing to standard output")
}

/// Strings in CSV are not escaped, so they could control a terminal.
fn csv_out() -> TerminalSafeWriter<StdoutLock<'static>> {
    let out = std::io::stdout();
    TerminalSafeWriter { is_terminal: out.is_terminal(), out: out.lock() }
}

fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

pub(super) enum EntityOutput {
    Table(EntityTable),
    Json { is_begun: bool },
    Jsonl,
    Csv(Box<CsvSpool>),
}

impl EntityOutput {
    pub(super) fn new(format: OutputFormat) -> anyhow::Result<Self> {
        Ok(match format {
            OutputFormat::Table => Self::Table(EntityTable::new(width())),
            OutputFormat::Json => Self::Json { is_begun: false },
            OutputFormat::Jsonl => Self::Jsonl,
            OutputFormat::Csv => Self::Csv(Box::new(CsvSpool::new(true)?)),
        })
    }

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
    let mut escaped = Vec::new();
    write_line(&mut escaped, entity, true).map_err(|_| anyhow!("an entity is damaged"))?;
    out.extend_from_slice(unescaped(&String::from_utf8(escaped)?).as_bytes());
    Ok(())
}

/// Keeps the escapes of characters that could control a terminal.
fn unescaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let units: Vec<u16> = escape.split('\\').map_while(unit).take(2).collect();
        let first = char::decode_utf16(units).next().and_then(Result::ok);
        // ASCII characters are escaped only where JSON requires it, so keep these escapes.
        let length = if let Some(c) = first.filter(|c| !c.is_ascii() && !is_control_character(*c)) {
            text.push(c);
            UNIT_BYTES * c.len_utf16() + c.len_utf16() - 1
        } else {
            text.push('\\');
            let kept = escape.chars().next().unwrap_or_default();
            text.push(kept);
            kept.len_utf8()
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// The length of an escape after its backslash, such as `u65e5`.
const UNIT_BYTES: usize = 5;

fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..UNIT_BYTES - 1)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_readable_and_controls_no_terminal() {
        for (json, expected) in [
            (r#"{"a":"\u65E5\u672c"}"#, "{\"a\":\"日本\"}"),
            (r"x\ud83d\ude00y", "x😀y"),
            (r"\u00e9\n\u0041", "é\\n\\u0041"),
            (r#"\"\\\\u65e5"#, r#"\"\\\\u65e5"#),
            (r"\u001b[2J\u009b\u202e\u2028", r"\u001b[2J\u009b\u202e\u2028"),
            (r"\ud83d", r"\ud83d"),
            ("", ""),
        ] {
            assert_eq!(unescaped(json), expected);
        }
    }
}
