//! Entities on standard output.

use crate::formats::{Columns, CsvSpool, write_line, write_value};
use crate::terminal::{TerminalSafeWriter, counted, escaped};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use client::{ETag, PropertyBag};
use comfy_table::{ColumnConstraint, Row, Table, Width, presets};
use model::EdmValue;
use model::control_characters::is_control_character;
use model::limits::SHOWN_COLUMN_CHARS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use std::fmt::Write as _;
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

// Entities as a table of aligned columns, no wider than the terminal.
//
// Each page is laid out separately, so the first entities appear immediately and at most one page is in memory. The
// header is repeated when the columns change. The library aligns and truncates cells by the display width of their
// characters. This module decides which columns to show, because with too many columns the library would wrap cells in
// columns that are one character wide.

const GAP: u16 = 2;

#[derive(Debug, Default)]
pub(super) struct EntityTable {
    /// `None` for unlimited width.
    width: Option<usize>,
    /// The columns of the last header. `widths` contains their widths.
    header: Vec<String>,
    widths: Vec<usize>,
    left_out: Vec<String>,
    entities: u64,
}

impl EntityTable {
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width, ..Self::default() }
    }

    pub(super) fn write_page(&mut self, out: &mut String, entities: &[PropertyBag]) {
        if entities.is_empty() {
            return;
        }
        let mut columns = Columns::default();
        for entity in entities {
            columns.add(entity.properties.as_record_builder());
        }
        let names = [PARTITION_KEY, ROW_KEY].into_iter().chain(columns.names().iter().map(String::as_str));
        let mut names: Vec<String> = names.chain([TIMESTAMP]).map(|name| escaped(name).into_owned()).collect();
        let mut table = Table::new();
        // No cell contains this word delimiter, so the library can cut cells inside words.
        table.load_style(presets::NOTHING).set_delimiter('\0').add_row(names.clone());
        for entity in entities {
            let mut row = Row::from(cells(entity, &columns));
            row.max_height(1);
            table.add_row(row);
        }
        let widths = table.column_max_content_widths().into_iter();
        let mut widths = widths.map(|width| usize::from(width).min(SHOWN_COLUMN_CHARS_MAX)).collect();
        self.leave_out(&mut names, &mut widths);
        let is_new_header = names != self.header;
        if is_new_header {
            if !self.header.is_empty() {
                out.push('\n');
            }
            (self.header, self.widths) = (names, widths);
        } else {
            // Columns never become narrower, and the header is not repeated when they become wider.
            self.widths.iter_mut().zip(widths).for_each(|(known, new)| *known = new.max(*known));
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, GAP)).set_constraint(match self.widths.get(at) {
                Some(width) => {
                    ColumnConstraint::Absolute(Width::Fixed(u16::try_from(*width).unwrap_or(u16::MAX) + GAP))
                }
                None => ColumnConstraint::Hidden,
            });
        }
        let mut lines = table.lines();
        let header = lines.next().filter(|_| is_new_header);
        let rule = self.widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ");
        for line in header.into_iter().flat_map(|header| [header, rule.clone()]).chain(lines) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        self.entities += entities.len() as u64;
    }

    pub(super) fn footer(&self) -> String {
        let entities = counted(self.entities, "entity", "entities");
        if self.left_out.is_empty() {
            return format!("({entities})\n");
        }
        let names = self.left_out.join(", ");
        format!("({entities}; no room for {names}: choose columns with --select, or show all with --output jsonl)\n")
    }

    /// Removes the first column that does not fit, and all columns after it. The keys are always shown.
    fn leave_out(&mut self, names: &mut Vec<String>, widths: &mut Vec<usize>) {
        let Some(width_max) = self.width else { return };
        let ends = widths.iter().scan(0, |end, width| {
            *end += width + usize::from(GAP);
            Some(*end - usize::from(GAP))
        });
        let fitting = ends.take_while(|end| *end <= width_max).count().max(2);
        widths.truncate(fitting);
        for name in names.drain(fitting.min(names.len())..) {
            if !self.left_out.contains(&name) {
                self.left_out.push(name);
            }
        }
    }
}

pub(super) fn one_entity(entity: &PropertyBag) -> String {
    let mut rows = vec![
        (PARTITION_KEY.to_owned(), "", escaped(entity.key.partition.as_str()).into_owned()),
        (ROW_KEY.to_owned(), "", escaped(entity.key.row.as_str()).into_owned()),
    ];
    for property in entity.properties.as_record_builder().properties().filter_map(Result::ok) {
        if let (Ok(name), Ok(value)) = (property.name(), property.value()) {
            rows.push((escaped(name).into_owned(), property.edm_type().name().trim_start_matches("Edm."), cell(value)));
        }
    }
    rows.push((TIMESTAMP.to_owned(), "", timestamp(entity)));
    rows.push(("ETag".to_owned(), "", escaped(entity.etag.as_ref().map_or("", ETag::as_str)).into_owned()));
    let width = rows.iter().map(|(name, _, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, edm_type, value) in rows {
        let line = format!("{name:width$}  {edm_type:8}  {value}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn cells(entity: &PropertyBag, columns: &Columns) -> Vec<String> {
    let mut cells =
        vec![escaped(entity.key.partition.as_str()).into_owned(), escaped(entity.key.row.as_str()).into_owned()];
    let arranged = columns.arrange(entity.properties.as_record_builder()).unwrap_or_default();
    let values = arranged.iter().map(|property| property.as_ref().and_then(|property| property.value().ok()));
    cells.extend(values.map(|value| value.map(cell).unwrap_or_default()));
    cells.push(timestamp(entity));
    // One extra character is enough to make the library truncate the cell. Longer cells would make the library slow.
    cells.iter().map(|cell| cell.chars().take(SHOWN_COLUMN_CHARS_MAX + 1).collect()).collect()
}

fn timestamp(entity: &PropertyBag) -> String {
    entity.timestamp.map(|timestamp| cell(EdmValue::DateTime(timestamp))).unwrap_or_default()
}

fn cell(value: EdmValue<'_>) -> String {
    if value == EdmValue::String("") {
        // An empty cell means a missing property.
        return "\"\"".to_owned();
    }
    let mut text = Vec::new();
    write_value(&mut text, value);
    escaped(&String::from_utf8_lossy(&text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DateTime, EntityKey, KeyText, RecordBuilder};

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

    fn entity(row: &str, properties: &[(&str, EdmValue<'_>)]) -> PropertyBag {
        let text = |text| KeyText::new(text).unwrap();
        let mut builder = RecordBuilder::default();
        for (name, value) in properties {
            builder.push(name, *value);
        }
        let timestamp = Some(DateTime::parse("2031-04-01T06:30:00Z").unwrap());
        PropertyBag {
            timestamp,
            ..PropertyBag::of_properties(EntityKey { partition: text("p"), row: text(row) }, builder)
        }
    }

    fn page(width: Option<usize>, pages: &[&[PropertyBag]]) -> String {
        let mut table = EntityTable::new(width);
        let mut out = String::new();
        for page in pages {
            table.write_page(&mut out, page);
        }
        out + &table.footer()
    }

    #[test]
    fn columns_are_aligned_and_named_again_when_they_change() {
        let one = entity("1", &[("Name", EdmValue::String("Ann\u{1b}[1m")), ("Age", EdmValue::Int32(5))]);
        let two = entity("22", &[("Name", EdmValue::String(""))]);
        let expected = "\
PartitionKey  RowKey  Name          Age  Timestamp
------------  ------  ------------  ---  --------------------
p             1       Ann\\u{1b}[1m  5    2031-04-01T06:30:00Z
p             22      \"\"                 2031-04-01T06:30:00Z

PartitionKey  RowKey  Name  Timestamp
------------  ------  ----  --------------------
p             22      \"\"    2031-04-01T06:30:00Z
(3 entities)
";
        assert_eq!(page(None, &[&[one, two.clone()], &[two], &[]]), expected);
    }

    #[test]
    fn wide_characters_are_aligned_and_nothing_controls_the_terminal() {
        let one = entity("1", &[("A\u{1b}[2J", EdmValue::String("日本語")), ("B", EdmValue::String("a\r\n\u{202e}b"))]);
        let shown = page(None, &[&[one, entity("2", &[("A\u{1b}[2J", EdmValue::String("xyz"))])]]);
        let expected = "\
PartitionKey  RowKey  A\\u{1b}[2J  B               Timestamp
------------  ------  ----------  --------------  --------------------
p             1       日本語      a\\r\\n\\u{202e}b  2031-04-01T06:30:00Z
p             2       xyz                         2031-04-01T06:30:00Z
(2 entities)
";
        assert_eq!(shown, expected);
        let narrow = page(Some(30), &[&[entity("1", &[("A\u{1b}[2J", EdmValue::Int32(1))])]]);
        assert!(!narrow.contains('\u{1b}') && narrow.contains("no room for A\\u{1b}[2J"), "{narrow}");
    }

    #[test]
    fn a_value_is_cut_inside_of_a_word_and_its_rest_is_marked() {
        let words = "kestrel wren ".repeat(5000);
        let shown = page(None, &[&[entity("1", &[("Text", EdmValue::String(&words))])]]);
        let cut: String = words.chars().take(SHOWN_COLUMN_CHARS_MAX - 1).collect();
        assert!(shown.contains(&format!("  {cut}…  2031")), "{shown}");
    }

    #[test]
    fn the_width_is_kept_and_columns_without_room_are_named() {
        let long = entity("1", &[("Text", EdmValue::String(&"x".repeat(100))), ("More", EdmValue::Int32(1))]);
        let shown = page(Some(72), &[&[long]]);
        assert!(shown.lines().take(3).all(|line| line.chars().count() <= 72), "{shown}");
        assert!(shown.contains(&format!("{}…", "x".repeat(SHOWN_COLUMN_CHARS_MAX - 1))), "{shown}");
        assert!(
            shown.ends_with("(1 entity; no room for More, Timestamp: choose columns with --select, or show all with --output jsonl)\n"),
            "{shown}"
        );
    }
}
