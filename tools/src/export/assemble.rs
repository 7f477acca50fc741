//! Assembles the file of a table from its parts.
//!
//! Parts are in JSON Lines format, whatever the format of the file. The CSV columns are therefore known before the
//! first record is written, the table is read only once, and at most one line is in memory.

use crate::digest::Sha256Writer;
use crate::file::with_suffix;
use crate::formats::{Columns, FileFormat, Framing, Lines, MANIFEST_NAME, STATE_NAME, read_line, too_many_columns};
use anyhow::{Context, anyhow, bail, ensure};
use client::PropertyBag;
use model::TableName;
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExportTarget {
    Folder(PathBuf),
    File(PathBuf),
    StandardOutput,
}

impl ExportTarget {
    pub(super) fn parse(to: &Path, format: Option<FileFormat>) -> anyhow::Result<(Self, FileFormat)> {
        if to == Path::new("-") {
            return Ok((Self::StandardOutput, format.unwrap_or(FileFormat::Jsonl)));
        }
        ensure!(!to.as_os_str().is_empty(), "--to is empty");
        let by_name = FileFormat::from_path(to).filter(|_| !to.is_dir());
        match (by_name, format) {
            (Some(by_name), Some(format)) if by_name != format => {
                bail!("the extension of --to {} does not match --format {}", to.display(), format.extension())
            }
            (Some(format), _) => Ok((Self::File(to.to_owned()), format)),
            (None, format) => Ok((Self::Folder(to.to_owned()), format.unwrap_or(FileFormat::Jsonl))),
        }
    }

    pub(super) fn state(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(STATE_NAME),
            Self::File(file) => with_suffix(file, ".state.json"),
            Self::StandardOutput => PathBuf::from(STATE_NAME),
        }
    }

    pub(super) fn file(&self, table: &TableName, format: FileFormat) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(format!("{table}.{}", format.extension())),
            Self::File(file) => file.clone(),
            Self::StandardOutput => PathBuf::from("-"),
        }
    }

    /// The existence of this file means that the export is complete.
    fn completion_marker(&self) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => Some(folder.join(MANIFEST_NAME)),
            Self::File(file) => Some(file.clone()),
            Self::StandardOutput => None,
        }
    }

    /// Replaces a complete export only if `overwrite` is set. An interrupted export is continued.
    pub(super) fn prepare(&self, overwrite: bool) -> anyhow::Result<()> {
        if let Some(mark) =
            self.completion_marker().filter(|mark| mark.exists() && !overwrite && !self.state().exists())
        {
            bail!("{} already exists: choose another --to, or replace it with --overwrite", mark.display());
        }
        let folder = match self {
            Self::Folder(folder) => folder.as_path(),
            Self::File(file) => file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            Self::StandardOutput => return Ok(()),
        };
        std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))
    }
}

/// The file holds the part until all parts are complete.
pub(super) fn part_path(file: &Path, number: usize) -> PathBuf {
    with_suffix(file, &format!(".part{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_formats() {
        use FileFormat::{Csv, Jsonl};
        let path = PathBuf::from;
        for (to, format, expected) in [
            ("-", None, Some((ExportTarget::StandardOutput, Jsonl))),
            ("-", Some(Csv), Some((ExportTarget::StandardOutput, Csv))),
            ("out", None, Some((ExportTarget::Folder(path("out")), Jsonl))),
            ("out", Some(Csv), Some((ExportTarget::Folder(path("out")), Csv))),
            ("a/cars.csv", None, Some((ExportTarget::File(path("a/cars.csv")), Csv))),
            ("cars.NDJSON", None, Some((ExportTarget::File(path("cars.NDJSON")), Jsonl))),
            ("cars.csv", Some(Jsonl), None),
            ("", None, None),
        ] {
            assert_eq!(ExportTarget::parse(Path::new(to), format).ok(), expected, "{to}");
        }
        assert_eq!(part_path(Path::new("a/b.jsonl"), 3), path("a/b.jsonl.part3"));
    }
}
