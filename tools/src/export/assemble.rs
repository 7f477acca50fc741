//! Assembles the file of a table from its parts.
//!
//! Parts are in JSON Lines format, whatever the format of the file. The CSV columns are therefore known before the
//! first record is written, the table is read only once, and at most one line is in memory.

use crate::digest::Sha256Writer;
use crate::file::with_suffix;
use crate::formats::{Columns, FileFormat, Framing, Lines, read_line, too_many_columns};
use anyhow::{Context, anyhow, ensure};
use client::PropertyBag;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct TableFile {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// The file appears under its final name once it is complete and on disk.
pub(super) fn assemble(
    file: &Path,
    parts: usize,
    format: FileFormat,
    with_timestamps: bool,
) -> anyhow::Result<TableFile> {
    let what = || format!("writing {}", file.display());
    let new = with_suffix(file, ".new");
    let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&new).with_context(what)?);
    let mut out = Sha256Writer::new(out);
    match format {
        FileFormat::Jsonl => join(file, parts, &mut out)?,
        FileFormat::Csv => convert(file, parts, with_timestamps, &mut out)?,
    }
    let (out, bytes, sha256) = out.finish();
    let written = out.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(what)?;
    written.sync_data().with_context(what)?;
    std::fs::rename(&new, file).with_context(what)?;
    Ok(TableFile { bytes, sha256 })
}

fn open(file: &Path, number: usize) -> anyhow::Result<BufReader<File>> {
    let path = part_path(file, number);
    let opened = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, opened))
}

fn join(file: &Path, parts: usize, out: &mut impl Write) -> anyhow::Result<()> {
    for number in 0..parts {
        std::io::copy(&mut open(file, number)?, out).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

fn convert(file: &Path, parts: usize, with_timestamps: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let what = || format!("writing {}", file.display());
    let mut columns = Columns::default();
    each_entity(file, parts, |entity| {
        ensure!(columns.add(entity.properties.as_record_builder()), too_many_columns());
        Ok(())
    })?;
    let mut buffer = Vec::new();
    columns.write_header(&mut buffer, with_timestamps);
    out.write_all(&buffer).with_context(what)?;
    each_entity(file, parts, |entity| {
        buffer.clear();
        columns.write_entity(&mut buffer, entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
        out.write_all(&buffer).with_context(what)
    })
}

fn each_entity(
    file: &Path,
    parts: usize,
    mut take: impl FnMut(&PropertyBag) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for number in 0..parts {
        let mut lines = Lines::new(open(file, number)?, Framing::Lines, 0, 0);
        while let Some(line) = lines.next()? {
            let entity = read_line(line.bytes).map_err(|error| {
                anyhow!("{} line {}: {}", part_path(file, number).display(), line.number, error.reason)
            })?;
            take(&entity)?;
        }
    }
    Ok(())
}

/// The file holds the part until all parts are complete.
pub(super) fn part_path(file: &Path, number: usize) -> PathBuf {
    with_suffix(file, &format!(".part{number}"))
}
