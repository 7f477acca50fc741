//! CSV from a stream of entities. The columns are known only when the last entity has arrived.

use super::{Columns, Framing, Lines, read_line, too_many_columns, write_line};
use anyhow::{Context, anyhow, ensure};
use client::PropertyBag;
use platform::files::private_file;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use uuid::Uuid;

const WHAT: &str = "keeping entities in a temporary file";
const FLUSH_BYTES: usize = 64 * 1024;

/// Keeps entities in a temporary file in JSON Lines format. The file has no name, so it disappears when the process
/// exits.
#[derive(Debug)]
pub(crate) struct CsvSpool {
    file: BufWriter<File>,
    columns: Columns,
    with_timestamps: bool,
}

impl CsvSpool {
    pub(crate) fn new(with_timestamps: bool) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rowhouse-{}.jsonl", Uuid::new_v4()));
        let what = || format!("creating the temporary file {}", path.display());
        let file = private_file().read(true).write(true).create_new(true).open(&path).with_context(what)?;
        std::fs::remove_file(&path).with_context(what)?;
        Ok(Self { file: BufWriter::new(file), columns: Columns::default(), with_timestamps })
    }

    pub(crate) fn push(&mut self, entities: &[PropertyBag]) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for entity in entities {
            ensure!(self.columns.add(entity.properties.as_record_builder()), too_many_columns());
            line.clear();
            write_line(&mut line, entity, self.with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
            line.push(b'\n');
            self.file.write_all(&line).context(WHAT)?;
        }
        Ok(())
    }

    pub(crate) fn write_to(self, out: &mut impl Write) -> anyhow::Result<()> {
        let Self { file, columns, with_timestamps } = self;
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error).context(WHAT)?;
        file.rewind().context(WHAT)?;
        let mut text = Vec::new();
        columns.write_header(&mut text, with_timestamps);
        let mut lines = Lines::new(BufReader::new(file), Framing::Lines, 0, 0);
        while let Some(line) = lines.next().context(WHAT)? {
            let entity = read_line(line.bytes).map_err(|error| anyhow!("{WHAT}: {}", error.reason))?;
            columns.write_entity(&mut text, &entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
            if text.len() >= FLUSH_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)?;
        Ok(out.flush()?)
    }
}
