//! What commands write for people: results to standard output; notices, progress and errors to standard error.
//!
//! Invariant: text for people passes [`escaped`] here, once, so that nothing from a server or a file can control the
//! terminal. Data for programs (JSON lines, CSV) are written as they are. This module must not know any command.

mod progress;

pub(crate) use indicatif::HumanCount;
pub(crate) use progress::Progress;

use anyhow::Context;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Writes a result to standard output as it is.
pub fn print(result: &impl Display) -> anyhow::Result<()> {
    write!(std::io::stdout().lock(), "{result}").context("writing to standard output")
}

/// Writes a line for people to standard output.
pub(crate) fn print_line(line: impl Display) -> anyhow::Result<()> {
    print(&format_args!("{}\n", escaped(&line.to_string())))
}

/// Writes a line for people to standard error.
pub(crate) fn notice(line: impl Display) {
    to_standard_error(&format!("{}\n", escaped(&line.to_string())));
}

/// Writes an error and its causes to standard error.
pub fn report_error(error: &anyhow::Error) {
    let message = format!("rowhouse: {error:#}");
    // Messages about configuration files have several lines.
    let lines: Vec<_> = message.split('\n').map(escaped).collect();
    to_standard_error(&format!("{}\n", lines.join("\n")));
}

/// Whether an error means that the output has no reader any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let source = error.chain().find_map(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == ErrorKind::BrokenPipe)
}

fn to_standard_error(text: &str) {
    // A reader that went away is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Text without the characters that control a terminal or reorder text: each is shown as its escape, such as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| {
        c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_controls_the_terminal() {
        for (text, expected) in [
            ("plain \\ é 漢", "plain \\ é 漢"),
            ("a\u{1b}[31mb\r\n\t", "a\\u{1b}[31mb\\r\\n\\t"),
            ("\u{9b}2J\u{7f}\0", "\\u{9b}2J\\u{7f}\\u{0}"),
            ("user\u{202e}txt.exe\u{2069}", "user\\u{202e}txt.exe\\u{2069}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
