//! Files of entities: JSON lines and CSV, and the manifest that goes with the files of an export.
//!
//! `docs/export.md` describes the formats. This module must not know where entities come from or go to.

mod columns;
mod csv;
mod csv_spool;
mod guess;
mod json;
mod line_error;
mod lines;
mod manifest;
mod value;

pub(crate) use columns::{Columns, CsvHeader, too_many_columns};
pub(crate) use csv::parse as parse_csv_record;
pub(crate) use csv_spool::CsvSpool;
pub(crate) use guess::TypeGuess;
pub(crate) use json::{read_line, too_long, write_line};
pub(crate) use line_error::LineError;
pub(crate) use lines::{Framing, Lines};
pub(crate) use manifest::{
    ExportManifest, ExportedTable, MANIFEST_FORMAT, MANIFEST_NAME, STATE_NAME, decode_policies, encode_policies,
};
pub(crate) use value::{push_value, write_value};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileFormat {
    /// One JSON object per line, with types: exact
    Jsonl,
    /// Comma-separated values with a column for each property and one for its type
    Csv,
}

impl FileFormat {
    /// The extension of the names of such files.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// The format that the name of a file says, if it does.
    pub(crate) fn of(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}
