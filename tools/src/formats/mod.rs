//! Entity files in JSON Lines and CSV format, and the manifest of an export.
//!
//! `docs/export.md` describes the formats. This module must not know where entities come from or go to.

mod columns;
mod csv;
mod json;
mod lines;
mod manifest;
mod value;

pub(crate) use columns::{Columns, CsvHeader, CsvSpool, TypeGuess, too_many_columns};
pub(crate) use csv::parse as parse_csv_record;
pub(crate) use json::{read_line, too_long, write_line};
pub(crate) use lines::{Framing, LineError, Lines};
pub(crate) use manifest::{
    ExportManifest, ExportedRetention, ExportedTable, MANIFEST_FORMAT, MANIFEST_NAME, STATE_NAME, decode_policies,
    encode_policies,
};
pub(crate) use value::{push_value, write_value};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileFormat {
    /// One JSON object per line, with types; lossless
    Jsonl,
    /// Comma-separated values with one column for each property and one for its type
    Csv,
}

impl FileFormat {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    pub(crate) fn from_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}
