//! CSV of entities that come one after the other, whose columns are known only when the last one is there.

use super::{Columns, Lines, Shape, read_line, write_line};
use anyhow::{Context, anyhow, ensure};
use client::Entity;
use model::limits::EXPORT_COLUMNS_MAX;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use uuid::Uuid;

const WHAT: &str = "keeping entities among the temporary files";

/// Keeps entities as lines in a temporary file without a name, which goes with the program.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    columns: Columns,
    with_timestamps: bool,
}

impl Spool {
    /// An empty one.
    pub(crate) fn new(with_timestamps: bool) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rowhouse-{}.jsonl", Uuid::new_v4()));
        let what = || format!("making the temporary file {}", path.display());
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path).with_context(what)?;
        std::fs::remove_file(&path).with_context(what)?;
        Ok(Self { file: BufWriter::new(file), columns: Columns::default(), with_timestamps })
    }

    /// Keeps more entities.
    pub(crate) fn push(&mut self, entities: &[Entity]) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for entity in entities {
            ensure!(self.columns.add(&entity.properties), too_many_columns());
            line.clear();
            write_line(&mut line, entity, self.with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
            line.push(b'\n');
            self.file.write_all(&line).context(WHAT)?;
        }
        Ok(())
    }

    /// Writes all of them.
    pub(crate) fn write_to(self, out: &mut impl Write) -> anyhow::Result<()> {
        let Self { file, columns, with_timestamps } = self;
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error).context(WHAT)?;
        file.rewind().context(WHAT)?;
        let mut text = Vec::new();
        columns.write_header(&mut text, with_timestamps);
        let mut lines = Lines::new(BufReader::new(file), Shape::Plain, 0, 0);
        while let Some(line) = lines.next().context(WHAT)? {
            let entity = read_line(line.bytes).map_err(|bad| anyhow!("{WHAT}: {}", bad.reason))?;
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

const FLUSH_BYTES: usize = 64 * 1024;

/// What to say when a table has more properties than a file has columns.
pub(crate) fn too_many_columns() -> String {
    format!(
        "the entities have more than {EXPORT_COLUMNS_MAX} different properties together, which are too many columns: \
         choose some with --select, or take JSON lines"
    )
}
