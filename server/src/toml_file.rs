//! Reads TOML files that may contain secrets: no error shows a value.
//!
//! The errors of the library quote the faulty line, and the errors of serde quote the value. Either may contain a
//! password or a key. Only the name of an unknown field is shown, and only if it looks like a field name.

use anyhow::anyhow;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toml::Spanned;

/// Parses the text of a file. An error contains the position and the kind of the mistake. `names` are the fields of the
/// file; they are needed only if the type has flattened fields.
pub fn parse_toml<T: DeserializeOwned>(text: &str, names: &[&str]) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let unknown = unknown_field(error.message());
        let fault = match &unknown {
            Some((name, expected)) => describe_unknown(name, if expected.is_empty() { names } else { expected }),
            None => redact(error.message()),
        };
        // With flattened fields, the error for an unknown field covers the whole file.
        let span = unknown.and_then(|(name, _)| field_position(text, name)).or_else(|| error.span());
        match span {
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

fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = message.strip_prefix("unknown field `")?.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

/// Returns the position of a field at the top level of the file, or `None` if it is in a section.
fn field_position(text: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let fields: BTreeMap<Spanned<String>, toml::Value> = toml::from_str(text).ok()?;
    fields.into_keys().find(|field| field.get_ref() == name).map(|field| field.span())
}

/// Describes an unknown field, and suggests the field that was probably meant. Omits the name if it might be a secret.
fn describe_unknown(name: &str, names: &[&str]) -> String {
    let spelling = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let similarity = |known: &str| strsim::jaro_winkler(&spelling(name), known);
    let similar = names.iter().map(|known| (similarity(known), known)).filter(|(similarity, _)| *similarity >= SIMILAR);
    let meant = similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known);
    // A key or a password that was pasted in the wrong place contains capital letters, or is not similar to any field
    // name.
    let is_name = name.len() <= FIELD_NAME_BYTES_MAX
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'));
    let shown =
        if is_name || meant.is_some() { format!("unknown option '{name}'") } else { "unknown option".to_owned() };
    match meant {
        Some(meant) => format!("{shown}; did you mean '{meant}'?"),
        None if names.len() <= LISTED_MAX && !names.is_empty() => format!("{shown}, expected {}", names.join(", ")),
        None => shown,
    }
}

/// The minimum similarity of a suggested name, from 0 to 1.
const SIMILAR: f64 = 0.8;
const FIELD_NAME_BYTES_MAX: usize = 40;
const LISTED_MAX: usize = 12;

/// Returns a message without the parts that it quotes from the file: `invalid type: string "x", expected a number`
/// quotes `x`. The part after the last `, expected` comes from this program or from the library.
fn redact(message: &str) -> String {
    // The message names a field that this program expects.
    if ["missing field", "duplicate field"].iter().any(|start| message.starts_with(start)) {
        return message.to_owned();
    }
    let (found, expected) = match message.rfind(", expected") {
        Some(at) => message.split_at(at),
        None => (message, ""),
    };
    let found = found.split(['"', '`', '\'']).next().unwrap_or_default();
    // Numbers and similar values are also quoted, so the result ends with the kind.
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
    fn errors_tell_the_place_and_show_no_value() {
        for (text, expected) in [
            ("store = \"postgres://me:s3cr3t@db/t\n", "line 1, column "),
            ("\nstore = postgres://me:s3cr3t@db/t", "line 2, column 9: "),
            ("store = \"x\"\nconnections = \"s3cr3t\"", "line 2, column 15: invalid type: string, expected u32"),
            ("connections = \"s3cr3t, expected s3cr3t\"", "column 15: invalid type: string, expected u32"),
            ("connections = \"s3cr3t \\\"s3cr3t\"", "invalid type: string, expected u32"),
            ("kind = \"s3cr3t\"", "unknown variant, expected `one`"),
            ("S3cr3t = 1", "line 1, column 1: unknown option, expected store, connections, kind, account"),
            ("connection = 1", "line 1, column 1: unknown option 'connection'; did you mean 'connections'?"),
            ("kind = \"one\"\nlisten = 1", "line 2, column 1: unknown option 'listen', expected store, connections"),
            ("[[account]]\nkey1 = 's3cr3t", "line 2, "),
            ("[[account]]\nkey1 = 5301", "invalid type: integer, expected a string"),
            ("[[account]]\nkey = \"s3cr3t\"", "line 2, column 1: unknown option 'key'; did you mean 'key1'?"),
            ("[[account]]\n  Key_1 = \"s3cr3t\"", "line 2, column 3: unknown option 'Key_1'; did you mean 'key1'?"),
            ("[[account]]\nAAECAwQFBgcICQ = 1", "line 2, column 1: unknown option, expected key1"),
            ("[[account]]\n", "missing field `key1`"),
            ("store = \"é\"\nstore = \"s3cr3t\"", "line 2, column 1: duplicate key"),
            ("s3cr3t", "line 1"),
            ("é s3cr3t = 1", "line 1"),
            ("kind = s3cr3t", "line 1"),
        ] {
            let error = format!("{:#}", parse_toml::<Sample>(text, &[]).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
            let shown = ["s3cr3t", "5301", "AAEC"].iter().any(|secret| error.contains(secret));
            assert!(!shown && !error.contains("S3cr3t"), "{text}: {error}");
        }
        assert!(parse_toml::<Sample>("connections = 3", &[]).is_ok());
    }

    #[test]
    fn an_unknown_field_beside_flattened_ones_has_its_place() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only parsed")]
        struct Outer {
            listen: Option<String>,
            #[serde(flatten)]
            inner: Inner,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only parsed")]
        struct Inner {
            domain: Option<String>,
        }
        let error = parse_toml::<Outer>("listen = \"x\"\n# s3cr3t\n dommain = \"s3cr3t\"\n", &["listen", "domain"]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "line 3, column 2: unknown option 'dommain'; did you mean 'domain'?"
        );
    }
}
