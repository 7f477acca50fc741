//! Reads lines into windows.

use super::bad_lines::BadLine;
use super::files::{Input, TableInput};
use super::state::ImportProgress;
use crate::formats::{
    CsvHeader, FileFormat, Framing, LineError, Lines, TypeGuess, parse_csv_record, read_line, too_long,
};
use anyhow::{Context, bail};
use client::PropertyBag;
use model::EdmType;
use model::limits::{IMPORT_WINDOW_BYTES_MAX, IMPORT_WINDOW_ENTITIES_MAX};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct EntityLine {
    pub(super) entity: PropertyBag,
    /// The number of the first line.
    pub(super) number: u64,
    pub(super) lines: u64,
    /// The bytes of the record, if bad lines are saved.
    pub(super) raw: Option<Box<[u8]>>,
}

impl EntityLine {
    /// Returns the line as one that is not imported.
    pub(super) fn refused(self, reason: String) -> BadLine {
        let Self { number, lines, raw, .. } = self;
        BadLine { number, lines, error: LineError::at_column(1, reason), raw }
    }
}

/// The entities of consecutive lines.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) entities: Vec<EntityLine>,
    pub(super) bad_lines: Vec<BadLine>,
    /// The offset of the next line, and the number of lines before that offset.
    pub(super) position: (u64, u64),
    pub(super) is_last: bool,
}

pub(super) struct WindowReader {
    lines: Lines<Box<dyn BufRead + Send>>,
    header: Option<CsvHeader>,
    header_text: Option<Vec<u8>>,
    keeps_raw: bool,
}

impl WindowReader {
    /// Opens the file at the position at which the import continues.
    pub(super) fn open(
        table: &TableInput,
        progress: &ImportProgress,
        types: &[(String, EdmType)],
        guesses_types: bool,
        keeps_raw: bool,
    ) -> anyhow::Result<Self> {
        let framing = match table.format {
            FileFormat::Jsonl => Framing::Lines,
            FileFormat::Csv => Framing::CsvRecords,
        };
        let mut reader =
            Self { lines: Lines::new(open(table, 0)?, framing, 0, 0), header: None, header_text: None, keeps_raw };
        if table.format == FileFormat::Csv {
            reader.read_header(table, types, guesses_types)?;
        }
        if progress.offset > 0 {
            reader.lines = Lines::new(open(table, progress.offset)?, framing, progress.offset, progress.line);
        }
        Ok(reader)
    }

    fn read_header(
        &mut self,
        table: &TableInput,
        types: &[(String, EdmType)],
        guesses_types: bool,
    ) -> anyhow::Result<()> {
        let Some(line) = self.lines.next().with_context(|| format!("reading {}", table.name()))? else {
            bail!("{} is empty: the first line of CSV must name the columns", table.name());
        };
        // A byte order mark is not part of the first field.
        let bytes = line.bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(line.bytes);
        let read = |types: &[_]| {
            let header = parse_csv_record(bytes).and_then(|fields| CsvHeader::read(&fields, types));
            header.map_err(|LineError { column, reason }| anyhow::anyhow!("{}:1:{column}: {reason}", table.name()))
        };
        let mut header = read(types)?;
        if guesses_types {
            // The first type for a name takes precedence, so the given types come before the guessed types.
            header = read(&[types, &guess_types(table, &header)?].concat())?;
        }
        self.header_text = Some(bytes.to_vec());
        self.header = Some(header);
        Ok(())
    }

    pub(super) fn missing_column<'t>(&self, types: &'t [(String, EdmType)]) -> Option<&'t str> {
        let header = self.header.as_ref()?;
        types.iter().map(|(name, _)| name.as_str()).find(|name| !header.has(name))
    }

    pub(super) fn header_text(&self) -> Option<&[u8]> {
        self.header_text.as_deref()
    }

    /// Only the last window can be empty.
    pub(super) fn window(&mut self) -> anyhow::Result<Window> {
        let mut window = Window::default();
        let mut bytes = 0;
        while window.entities.len() + window.bad_lines.len() < IMPORT_WINDOW_ENTITIES_MAX
            && bytes < IMPORT_WINDOW_BYTES_MAX
        {
            let Some(line) = self.lines.next()? else {
                window.is_last = true;
                break;
            };
            if line.bytes.iter().all(u8::is_ascii_whitespace) && !line.is_too_long {
                continue;
            }
            let raw: Option<Box<[u8]>> = self.keeps_raw.then(|| Box::from(line.bytes));
            let (number, lines) = (line.number, line.lines);
            let read = if line.is_too_long { Err(too_long(lines)) } else { read(self.header.as_ref(), line.bytes) };
            match read {
                Err(error) => {
                    bytes += raw.as_deref().map_or(0, <[u8]>::len);
                    window.bad_lines.push(BadLine { number, lines, error, raw });
                }
                Ok(entity) => {
                    let line = EntityLine { entity, number, lines, raw };
                    bytes += line.entity.properties.as_record_builder().formula_bytes();
                    bytes += line.raw.as_deref().map_or(0, <[u8]>::len);
                    window.entities.push(line);
                }
            }
        }
        window.position = self.lines.position();
        Ok(window)
    }
}

/// Guesses from as many records as fit in a window. The result for a file is always the same, so an import continues
/// with the types with which it began.
fn guess_types(table: &TableInput, header: &CsvHeader) -> anyhow::Result<Vec<(String, EdmType)>> {
    let mut guesses: Vec<_> = header.untyped().map(|(at, name)| (at, name, TypeGuess::default())).collect();
    let mut lines = Lines::new(open(table, 0)?, Framing::CsvRecords, 0, 0);
    lines.next()?;
    for _ in 0..IMPORT_WINDOW_ENTITIES_MAX {
        let Some(line) = lines.next()? else { break };
        // A bad line is reported when it is read for the import.
        let Ok(fields) = parse_csv_record(line.bytes) else { continue };
        for (at, _, guess) in &mut guesses {
            if let Some(field) = fields.get(*at).filter(|field| field.is_quoted || !field.text.is_empty()) {
                guess.add(&field.text);
            }
        }
    }
    Ok(guesses.into_iter().map(|(_, name, guess)| (name.to_owned(), guess.edm_type())).collect())
}

fn read(header: Option<&CsvHeader>, line: &[u8]) -> Result<PropertyBag, LineError> {
    match header {
        None => read_line(line),
        Some(header) => header.entity(&parse_csv_record(line)?),
    }
}

fn open(table: &TableInput, offset: u64) -> anyhow::Result<Box<dyn BufRead + Send>> {
    let path = match &table.input {
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
    use crate::import::files::ImportFiles;

    fn reader(text: &str, keeps_raw: bool) -> (tempfile::TempDir, anyhow::Result<WindowReader>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cars.csv");
        std::fs::write(&path, text).unwrap();
        let files = ImportFiles::find("--from", &path, &[], None).unwrap();
        (folder, WindowReader::open(&files.tables[0], &ImportProgress::default(), &[], false, keeps_raw))
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
    fn bytes_that_may_have_to_be_kept_count_for_a_window() {
        // Timestamps are ignored, so these lines are far larger than their entities.
        let filler = "x".repeat(IMPORT_WINDOW_BYTES_MAX / 4);
        let rows = (0..8).map(|row| format!("p,{row},{filler}\n")).collect::<Vec<_>>().concat();
        for (keeps_raw, expected) in [(false, 8), (true, 4)] {
            let (_folder, reader) = reader(&format!("PartitionKey,RowKey,Timestamp\n{rows}"), keeps_raw);
            assert_eq!(reader.unwrap().window().unwrap().entities.len(), expected);
        }
    }
}
