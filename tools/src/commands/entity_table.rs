//! Entities as a table of aligned columns, no wider than the terminal.
//!
//! Each page is laid out by itself, so that the first entities are shown at once and no more than a page is in memory.
//! The columns are named again where they change.

use crate::formats::{Columns, write_value};
use crate::terminal::escaped;
use client::Entity;
use model::EdmValue;
use model::limits::SHOWN_COLUMN_CHARS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use std::fmt::Write as _;

const GAP: &str = "  ";
/// What stands for the rest of a value that is cut.
const CUT: char = '…';

/// Lays out entities page by page.
#[derive(Debug, Default)]
pub(super) struct EntityTable {
    /// Nothing if the width does not matter.
    width: Option<usize>,
    /// The columns that were named last, and how wide they are.
    header: Vec<String>,
    widths: Vec<usize>,
    left_out: Vec<String>,
    pub(super) entities: u64,
}

impl EntityTable {
    /// A table of so many characters.
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width, ..Self::default() }
    }

    /// Appends a page.
    pub(super) fn write_page(&mut self, out: &mut String, entities: &[Entity]) {
        if entities.is_empty() {
            return;
        }
        let mut columns = Columns::default();
        for entity in entities {
            columns.add(&entity.properties);
        }
        let mut names = vec![PARTITION_KEY, ROW_KEY];
        names.extend(columns.names().iter().map(String::as_str));
        names.push(TIMESTAMP);
        let rows: Vec<Vec<String>> = entities.iter().map(|entity| cells(entity, &columns)).collect();
        let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| chars(cell)).max().unwrap_or(0);
        let widths = names.iter().enumerate().map(|(at, name)| chars(name).max(widest(at)).min(SHOWN_COLUMN_CHARS_MAX));
        let widths = self.fitting(&names, widths.collect());
        let header: Vec<String> = names.iter().take(widths.len()).map(|name| (*name).to_owned()).collect();
        if header == self.header {
            // Columns never become narrower while they are the same, and are not named again when they become wider.
            self.widths = widths.iter().zip(&self.widths).map(|(new, known)| *new.max(known)).collect();
        } else {
            if !self.header.is_empty() {
                out.push('\n');
            }
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            for row in [&header, &rule] {
                let _ = writeln!(out, "{}", line(row.iter().map(String::as_str), &widths));
            }
            (self.header, self.widths) = (header, widths);
        }
        for row in &rows {
            let _ = writeln!(out, "{}", line(row.iter().map(String::as_str), &self.widths));
        }
        self.entities += entities.len() as u64;
    }

    /// What to say at the end.
    pub(super) fn footer(&self) -> String {
        let entities = if self.entities == 1 { "1 entity".to_owned() } else { format!("{} entities", self.entities) };
        if self.left_out.is_empty() {
            return format!("({entities})\n");
        }
        let names = self.left_out.join(", ");
        format!("({entities}; no room for {names}: --select chooses, --output jsonl shows all)\n")
    }

    /// The widths of the columns from the left that have room; the keys always have.
    fn fitting(&mut self, names: &[&str], widths: Vec<usize>) -> Vec<usize> {
        let Some(room) = self.width else { return widths };
        let mut used = 0;
        let mut fitting = Vec::new();
        for (at, width) in widths.into_iter().enumerate() {
            let needed = width + if at > 0 { GAP.len() } else { 0 };
            if at >= 2 && used + needed > room {
                break;
            }
            used += needed;
            fitting.push(width);
        }
        for name in names.iter().skip(fitting.len()) {
            if !self.left_out.iter().any(|known| known == name) {
                self.left_out.push((*name).to_owned());
            }
        }
        fitting
    }
}

/// One entity, a property a line: name, type and value.
pub(super) fn one_entity(entity: &Entity) -> String {
    let mut rows = vec![
        (PARTITION_KEY.to_owned(), "", escaped(entity.key.partition.as_str()).into_owned()),
        (ROW_KEY.to_owned(), "", escaped(entity.key.row.as_str()).into_owned()),
    ];
    for property in entity.properties.properties().filter_map(Result::ok) {
        if let (Ok(name), Ok(value)) = (property.name(), property.value()) {
            rows.push((escaped(name).into_owned(), property.edm_type().name().trim_start_matches("Edm."), cell(value)));
        }
    }
    rows.push((TIMESTAMP.to_owned(), "", timestamp(entity)));
    rows.push(("ETag".to_owned(), "", escaped(entity.etag.as_deref().unwrap_or_default()).into_owned()));
    let width = rows.iter().map(|(name, _, _)| chars(name)).max().unwrap_or(0);
    let mut text = String::new();
    for (name, edm_type, value) in rows {
        let padded = format!("{name}{}{GAP}{edm_type:8}{GAP}{value}", " ".repeat(width - chars(&name)));
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

fn cells(entity: &Entity, columns: &Columns) -> Vec<String> {
    let mut cells =
        vec![escaped(entity.key.partition.as_str()).into_owned(), escaped(entity.key.row.as_str()).into_owned()];
    let arranged = columns.arrange(&entity.properties).unwrap_or_default();
    let values = arranged.iter().map(|property| property.as_ref().and_then(|property| property.value().ok()));
    cells.extend(values.map(|value| value.map(cell).unwrap_or_default()));
    cells.push(timestamp(entity));
    cells
}

fn timestamp(entity: &Entity) -> String {
    entity.timestamp.map(|timestamp| cell(EdmValue::DateTime(timestamp))).unwrap_or_default()
}

fn cell(value: EdmValue<'_>) -> String {
    if value == EdmValue::String("") {
        // An entity without the property has nothing there.
        return "\"\"".to_owned();
    }
    let mut text = Vec::new();
    write_value(&mut text, value);
    escaped(&String::from_utf8_lossy(&text)).into_owned()
}

fn line<'t>(cells: impl Iterator<Item = &'t str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.zip(widths) {
        if !line.is_empty() {
            line.push_str(GAP);
        }
        let length = chars(cell);
        if length > *width {
            line.extend(cell.chars().take(width.saturating_sub(1)));
            line.push(CUT);
        } else {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - length));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DateTime, EntityKey, KeyText, RecordBuilder};

    fn entity(row: &str, properties: &[(&str, EdmValue<'_>)]) -> Entity {
        let text = |text| KeyText::new(text).unwrap();
        let mut builder = RecordBuilder::default();
        for (name, value) in properties {
            builder.push(name, *value);
        }
        let timestamp = Some(DateTime::parse("2031-04-01T06:30:00Z").unwrap());
        Entity { timestamp, ..Entity::new(EntityKey { partition: text("p"), row: text(row) }, builder) }
    }

    fn page(width: Option<usize>, pages: &[&[Entity]]) -> String {
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
    fn the_width_is_kept_and_what_has_no_room_is_told() {
        let long = entity("1", &[("Text", EdmValue::String(&"x".repeat(100))), ("More", EdmValue::Int32(1))]);
        let shown = page(Some(72), &[&[long]]);
        assert!(shown.lines().take(3).all(|line| line.chars().count() <= 72), "{shown}");
        assert!(shown.contains(&format!("{}…", "x".repeat(SHOWN_COLUMN_CHARS_MAX - 1))), "{shown}");
        assert!(
            shown.ends_with("(1 entity; no room for More, Timestamp: --select chooses, --output jsonl shows all)\n"),
            "{shown}"
        );
    }
}
