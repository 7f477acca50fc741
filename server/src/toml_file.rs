//! Reads TOML files that may hold secrets: no error shows any of their text.
//!
//! The errors of the library quote the line at fault, and those of serde the value, and either may be a password or a key.

use anyhow::anyhow;
use serde::de::DeserializeOwned;

/// Reads the text of a file. An error tells the place and the kind of the fault.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let fault = without_text(error.message());
        match error.span() {
            Some(span) => {
                let before = text.get(..span.start).unwrap_or(text);
                let line = before.split('\n').count();
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                anyhow!("line {line}, column {column}: {fault}")
            }
            None => anyhow!("{fault}"),
        }
    })
}

/// A message without what it quotes from the file: `invalid type: string "x", expected a number` quotes `x`. What follows the
/// last `, expected` is the text of this program or of the library.
fn without_text(message: &str) -> String {
    // The name of a field that this program expects.
    if ["missing field", "duplicate field"].iter().any(|start| message.starts_with(start)) {
        return message.to_owned();
    }
    let (found, expected) = match message.rfind(", expected") {
        Some(at) => message.split_at(at),
        None => (message, ""),
    };
    let found = found.split(['"', '`', '\'']).next().unwrap_or_default();
    // Numbers and the like are quoted with quotation marks as well, so this ends with the kind.
    format!("{}{}", found.trim_end(), expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Sample {
        store: Option<String>,
        connections: Option<u32>,
        kind: Option<Kind>,
        #[serde(default)]
        account: Vec<Key>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        One,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Key {
        key1: String,
    }

    #[test]
    fn errors_tell_the_place_and_show_nothing_of_the_file() {
        for (text, expected) in [
            ("store = \"postgres://me:s3cr3t@db/t\n", "line 1, column "),
            ("\nstore = postgres://me:s3cr3t@db/t", "line 2, column 9: "),
            ("store = \"x\"\nconnections = \"s3cr3t\"", "line 2, column 15: invalid type: string, expected u32"),
            ("connections = \"s3cr3t, expected s3cr3t\"", "column 15: invalid type: string, expected u32"),
            ("connections = \"s3cr3t \\\"s3cr3t\"", "invalid type: string, expected u32"),
            ("kind = \"s3cr3t\"", "unknown variant, expected `one`"),
            ("s3cr3t = 1", "line 1, column 1: unknown field, expected one of"),
            ("[[account]]\nkey1 = 's3cr3t", "line 2, "),
            ("[[account]]\nkey1 = 5301", "invalid type: integer, expected a string"),
            ("[[account]]\nkey = \"s3cr3t\"", "unknown field, expected `key1`"),
            ("[[account]]\n", "missing field `key1`"),
            ("store = \"é\"\nstore = \"s3cr3t\"", "line 2, column 1: duplicate key"),
            ("s3cr3t", "line 1"),
            ("é s3cr3t = 1", "line 1"),
            ("kind = s3cr3t", "line 1"),
        ] {
            let error = format!("{:#}", parse_toml::<Sample>(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("s3cr3t") && !error.contains("5301"), "{text}: {error}");
        }
        assert!(parse_toml::<Sample>("connections = 3").is_ok());
    }
}
