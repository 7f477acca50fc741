//! From the parts of a table to its file.
//!
//! Parts hold JSON lines, whatever the file is to be. So the columns of CSV are known before the first record is
//! written although the table is read once, and no more than a line of it is in memory.

use super::layout::{beside, part};
use crate::formats::{Columns, FileFormat, Lines, Shape, hex, read_line, too_many_columns};
use anyhow::{Context, anyhow, ensure};
use ring::digest::{Context as Digest, SHA256};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

const BUFFER_BYTES: usize = 256 * 1024;

/// A file that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Writes, counts and hashes.
struct Hashed<W> {
    out: W,
    digest: Digest,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Makes the file of a table out of its parts; it appears under its name when it is whole and on disk.
pub(super) fn assemble(file: &Path, parts: usize, format: FileFormat, with_timestamps: bool) -> anyhow::Result<Made> {
    let what = || format!("writing {}", file.display());
    let new = beside(file, ".new");
    let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&new).with_context(what)?);
    let mut out = Hashed { out, digest: Digest::new(&SHA256), bytes: 0 };
    match format {
        FileFormat::Jsonl => join(file, parts, &mut out)?,
        FileFormat::Csv => convert(file, parts, with_timestamps, &mut out)?,
    }
    let written = out.out.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(what)?;
    written.sync_data().with_context(what)?;
    std::fs::rename(&new, file).with_context(what)?;
    Ok(Made { bytes: out.bytes, sha256: hex(out.digest.finish().as_ref()) })
}

fn open(file: &Path, number: usize) -> anyhow::Result<BufReader<File>> {
    let path = part(file, number);
    let opened = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, opened))
}

fn join(file: &Path, parts: usize, out: &mut impl Write) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    for number in 0..parts {
        let mut part = open(file, number)?;
        loop {
            let read = part.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            out.write_all(buffer.get(..read).unwrap_or_default()).context("writing the file of a table")?;
        }
    }
    Ok(())
}

fn convert(file: &Path, parts: usize, with_timestamps: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let mut columns = Columns::default();
    each_entity(file, parts, |entity| {
        ensure!(columns.add(&entity.properties), too_many_columns());
        Ok(())
    })?;
    let mut buffer = Vec::new();
    columns.write_header(&mut buffer, with_timestamps);
    out.write_all(&buffer)?;
    each_entity(file, parts, |entity| {
        buffer.clear();
        columns.write_entity(&mut buffer, entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
        out.write_all(&buffer).context("writing the file of a table")
    })
}

fn each_entity(
    file: &Path,
    parts: usize,
    mut take: impl FnMut(&client::Entity) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for number in 0..parts {
        let mut lines = Lines::new(open(file, number)?, Shape::Plain, 0, 0);
        while let Some(line) = lines.next()? {
            let entity = read_line(line.bytes)
                .map_err(|bad| anyhow!("{} line {}: {}", part(file, number).display(), line.number, bad.reason))?;
            take(&entity)?;
        }
    }
    Ok(())
}
