//! The lines of the log as they are written to standard error or to a file.
//!
//! Invariant: an event is one line of bounded length without control characters, whatever its strings contain. Data
//! from a request can neither imitate an event nor control the terminal that shows the log.

use clap::ValueEnum;
use model::control_characters::is_control_character;
use model::limits::{LOG_LINE_BYTES_MAX, LOG_STRING_BYTES_MAX};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use tracing_subscriber::fmt::MakeWriter;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Debug, Clone)]
pub(super) struct LogLines {
    pub(super) format: LogFormat,
    /// Whether the library colors the lines. In that case, it escapes the escape character in strings itself.
    pub(super) is_coloured: bool,
    /// The file for the lines; `None` for standard error.
    pub(super) file: Option<Arc<File>>,
}

impl<'w> MakeWriter<'w> for LogLines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Write for LogLines {
    /// Writes an event. The library passes each event as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = self.line(text.strip_suffix('\n').unwrap_or(&text));
        let line = format!("{line}\n");
        match &self.file {
            None => io::stderr().lock().write_all(line.as_bytes())?,
            Some(file) => file.as_ref().write_all(line.as_bytes())?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.file {
            None => io::stderr().lock().flush(),
            Some(file) => file.as_ref().flush(),
        }
    }
}

impl LogLines {
    fn line<'e>(&self, event: &'e str) -> Cow<'e, str> {
        let line = if event.len() <= LOG_LINE_BYTES_MAX {
            Cow::Borrowed(event)
        } else {
            match self.format {
                LogFormat::Text => shortened(event, LOG_LINE_BYTES_MAX),
                LogFormat::Json => Cow::Owned(with_short_texts(event)),
            }
        };
        let is_escaped = |c| is_control_character(c) && !(self.is_coloured && c == '\u{1b}');
        if line.contains(is_escaped) { Cow::Owned(escaped(&line, is_escaped)) } else { line }
    }
}

/// Returns at most `bytes_max` bytes of a string, followed by the number of bytes that were left out, if any.
fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let kept = text.get(..end).unwrap_or_default();
    Cow::Owned(format!("{kept}… ({} bytes left out)", text.len() - kept.len()))
}

/// The members of the object are sorted by name.
fn with_short_texts(event: &str) -> String {
    let mut members: serde_json::Map<String, Value> = serde_json::from_str(event).unwrap_or_default();
    for value in members.values_mut() {
        if let Value::String(text) = value
            && text.len() > LOG_STRING_BYTES_MAX
        {
            *text = shortened(text, LOG_STRING_BYTES_MAX).into_owned();
        }
    }
    Value::Object(members).to_string()
}

/// Returns the string with escapes instead of the given characters. The escapes are readable in plain text and valid
/// in a JSON string.
fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: LogLines = LogLines { format: LogFormat::Text, is_coloured: false, file: None };
    const JSON: LogLines = LogLines { format: LogFormat::Json, is_coloured: false, file: None };

    #[test]
    fn an_event_is_one_line_that_controls_nothing() {
        let event =
            "INFO server: a\nERROR server: forged\r\t\u{1b}[2J\u{9b}1m\u{7f}\u{0}\u{85}\u{2028}x\u{2029}\u{202e}é漢";
        let line = r"INFO server: a\nERROR server: forged\r\t\u001b[2J\u009b1m\u007f\u0000\u0085\u2028x\u2029\u202eé漢";
        assert_eq!(TEXT.line(event), line);
        let coloured = LogLines { is_coloured: true, ..TEXT };
        assert_eq!(coloured.line("\u{1b}[32m INFO\u{1b}[0m a\nb"), "\u{1b}[32m INFO\u{1b}[0m a\\nb");
        assert!(matches!(TEXT.line("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_json() {
        let message = "\u{7f}\u{9b}\u{2028}\u{202e}\n";
        let event = serde_json::json!({ "level": "INFO", "message": message }).to_string();
        let line = JSON.line(&event);
        assert!(!line.contains(is_control_character), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["message"], message);
    }

    #[test]
    fn a_line_is_bounded_whatever_is_in_it() {
        for text in ["x".repeat(70_000), "é".repeat(35_000), "\u{1b}".repeat(70_000), "\n".repeat(70_000)] {
            let line = TEXT.line(&text).into_owned();
            assert!(line.len() <= 6 * LOG_LINE_BYTES_MAX + 40, "{}", line.len());
            assert!(line.ends_with("bytes left out)"), "{line}");
            let event = serde_json::json!({ "level": "INFO", "message": text, "code": 7, "path": text }).to_string();
            let line = JSON.line(&event).into_owned();
            assert!(line.len() <= 2 * 6 * LOG_STRING_BYTES_MAX + 200, "{}", line.len());
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&value["level"], &value["code"]), (&"INFO".into(), &7.into()));
            assert!(value["message"].as_str().unwrap().ends_with("bytes left out)"));
        }
        let longest = "x".repeat(LOG_LINE_BYTES_MAX);
        assert_eq!(TEXT.line(&longest), longest.as_str());
    }
}
