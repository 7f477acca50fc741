//! Files of entities: JSON lines and CSV, and the manifest that goes with the files of an export.
//!
//! `docs/export.md` says byte by byte what they hold. This module must not know where entities come from or go to.

mod columns;
mod csv;
mod json;
mod lines;
mod manifest;
mod spool;
mod value;

pub(crate) use columns::{Columns, Header};
pub(crate) use csv::parse as parse_csv_record;
pub(crate) use json::{read_line, too_long, write_line};
pub(crate) use lines::{Lines, Shape};
pub(crate) use manifest::{MANIFEST_FORMAT, MANIFEST_NAME, Manifest, ManifestTable, hex, policies_from, policies_to};
pub(crate) use spool::{Spool, too_many_columns};
pub(crate) use value::{push_text, write_text};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileFormat {
    /// One JSON object a line, with types: exact
    Jsonl,
    /// Comma-separated values with a column for each property and one for its type
    Csv,
}

impl FileFormat {
    /// What the names of such files end with.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// The format of a file of this name, if that says it.
    pub(crate) fn of(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Where, in bytes from one on.
    pub(crate) column: usize,
    /// What, for people.
    pub(crate) reason: String,
}

impl Bad {
    /// Something that is wrong at a place.
    pub(crate) fn at(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}
