//! Reads lines into windows: entities with different keys that may be written in any order.

use super::bad::BadLine;
use super::source::{Input, Item};
use super::state::TableProgress;
use crate::formats::{Bad, FileFormat, Header, Lines, Shape, parse_csv_record, read_line, too_long};
use anyhow::{Context, bail};
use client::Entity;
use model::limits::{IMPORT_WINDOW_BYTES_MAX, IMPORT_WINDOW_ENTITIES_MAX};
use model::{EdmType, EntityKey};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

const BUFFER_BYTES: usize = 256 * 1024;

/// An entity and the line that it was.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) entity: Entity,
    pub(super) line: u64,
    /// How many lines it took.
    pub(super) lines: u64,
    /// As it stands in the file, if bad lines are kept.
    pub(super) raw: Option<Box<[u8]>>,
}

/// Lines that follow one another.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) entities: Vec<Numbered>,
    pub(super) bad: Vec<BadLine>,
    /// Where the next line begins, and how many are in front of it.
    pub(super) position: (u64, u64),
    pub(super) is_last: bool,
}

/// Reads the lines of one table.
pub(super) struct Reader {
    lines: Lines<Box<dyn BufRead + Send>>,
    header: Option<Header>,
    /// The first record of CSV, as it stands there.
    header_text: Option<Vec<u8>>,
    keeps_raw: bool,
    /// An entity with keys that the window before it has.
    held: Option<Numbered>,
}

impl Reader {
    /// Opens what a table is read from, at the place where it goes on.
    pub(super) fn open(
        item: &Item,
        progress: &TableProgress,
        types: &[(String, EdmType)],
        keeps_raw: bool,
    ) -> anyhow::Result<Self> {
        let shape = match item.format {
            FileFormat::Jsonl => Shape::Plain,
            FileFormat::Csv => Shape::Quoted,
        };
        let mut reader = Self {
            lines: Lines::new(input(item, 0)?, shape, 0, 0),
            header: None,
            header_text: None,
            keeps_raw,
            held: None,
        };
        if item.format == FileFormat::Csv {
            reader.read_header(item, types)?;
        }
        if progress.offset > 0 {
            reader.lines = Lines::new(input(item, progress.offset)?, shape, progress.offset, progress.line);
        }
        Ok(reader)
    }

    fn read_header(&mut self, item: &Item, types: &[(String, EdmType)]) -> anyhow::Result<()> {
        let Some(line) = self.lines.next().with_context(|| format!("reading {}", item.shown()))? else {
            bail!("{} is empty: the first line of CSV names the columns", item.shown());
        };
        // A mark in front of a quote is no part of the first field.
        let bytes = line.bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(line.bytes);
        let header = parse_csv_record(bytes).and_then(|fields| Header::read(&fields, types));
        let header =
            header.map_err(|Bad { column, reason }| anyhow::anyhow!("{}:1:{column}: {reason}", item.shown()))?;
        self.header_text = Some(bytes.to_vec());
        self.header = Some(header);
        Ok(())
    }

    /// Of some properties the first that no column stands for.
    pub(super) fn lacks<'t>(&self, types: &'t [(String, EdmType)]) -> Option<&'t str> {
        let header = self.header.as_ref()?;
        types.iter().map(|(name, _)| name.as_str()).find(|name| !header.has(name))
    }

    /// The first record of CSV.
    pub(super) fn header_text(&self) -> Option<&[u8]> {
        self.header_text.as_deref()
    }

    /// The next window; it may be empty if it is the last.
    pub(super) fn window(&mut self) -> anyhow::Result<Window> {
        let mut window = Window::default();
        let mut keys: HashSet<EntityKey> = HashSet::new();
        let mut bytes = 0;
        if let Some(held) = self.held.take() {
            keys.insert(held.entity.key.clone());
            window.entities.push(held);
        }
        while window.entities.len() + window.bad.len() < IMPORT_WINDOW_ENTITIES_MAX && bytes < IMPORT_WINDOW_BYTES_MAX {
            window.position = self.lines.position();
            let Some(line) = self.lines.next()? else {
                window.is_last = true;
                return Ok(window);
            };
            if line.bytes.iter().all(u8::is_ascii_whitespace) && !line.is_too_long {
                continue;
            }
            let raw: Option<Box<[u8]>> = self.keeps_raw.then(|| Box::from(line.bytes));
            let (number, lines) = (line.number, line.lines);
            let read = if line.is_too_long { Err(too_long(lines)) } else { read(self.header.as_ref(), line.bytes) };
            match read {
                Err(bad) => {
                    bytes += raw.as_deref().map_or(0, <[u8]>::len);
                    window.bad.push(BadLine { number, lines, bad, raw });
                }
                Ok(entity) => {
                    let numbered = Numbered { line: number, lines, raw, entity };
                    // Of two lines with the same keys the first is written before the second.
                    if !keys.insert(numbered.entity.key.clone()) {
                        self.held = Some(numbered);
                        return Ok(window);
                    }
                    bytes += numbered.entity.properties.formula_bytes();
                    bytes += numbered.raw.as_deref().map_or(0, <[u8]>::len);
                    window.entities.push(numbered);
                }
            }
        }
        window.position = self.lines.position();
        Ok(window)
    }
}

fn read(header: Option<&Header>, line: &[u8]) -> Result<Entity, Bad> {
    match header {
        None => read_line(line),
        Some(header) => header.entity(&parse_csv_record(line)?),
    }
}

fn input(item: &Item, offset: u64) -> anyhow::Result<Box<dyn BufRead + Send>> {
    let path = match &item.input {
        Input::StandardInput => return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, std::io::stdin()))),
        Input::File(path) => path,
    };
    let what = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(what)?;
    file.seek(SeekFrom::Start(offset)).with_context(what)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::source::Source;

    fn reader(text: &str, keeps_raw: bool) -> (tempfile::TempDir, anyhow::Result<Reader>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cars.csv");
        std::fs::write(&path, text).unwrap();
        let source = Source::find(&path, &[], None).unwrap();
        (folder, Reader::open(&source.items[0], &TableProgress::default(), &[], keeps_raw))
    }

    #[test]
    fn a_byte_order_mark_may_stand_before_the_header_alone() {
        for header in ["\u{FEFF}\"PartitionKey\",\"RowKey\"", "\u{FEFF}PartitionKey,RowKey"] {
            let (_folder, reader) = reader(&format!("{header}\n\u{FEFF}a,b\n"), false);
            let window = reader.unwrap().window().unwrap();
            assert_eq!(window.entities[0].entity.key.partition.as_str(), "\u{FEFF}a");
        }
        assert!(reader("PartitionKey,\u{FEFF}RowKey\na,b\n", false).1.is_err());
    }

    #[test]
    fn lines_that_may_have_to_be_kept_count_for_a_window() {
        // Timestamps are passed over, so that the lines are far larger than the entities.
        let filler = "x".repeat(IMPORT_WINDOW_BYTES_MAX / 4);
        let rows = (0..8).map(|row| format!("p,{row},{filler}\n")).collect::<Vec<_>>().concat();
        for (keeps_raw, expected) in [(false, 8), (true, 4)] {
            let (_folder, reader) = reader(&format!("PartitionKey,RowKey,Timestamp\n{rows}"), keeps_raw);
            assert_eq!(reader.unwrap().window().unwrap().entities.len(), expected);
        }
    }
}
