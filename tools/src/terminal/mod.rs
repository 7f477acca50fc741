//! The output of commands for people: results to standard output; notices, progress and errors to standard error.
//!
//! Invariant: text for people passes through [`escaped`] exactly once, here, so that nothing from a server or a file
//! can control the terminal. Data for programs (JSON Lines, CSV) is written unchanged. This module must not depend on
//! any command.

mod progress;

pub(crate) use indicatif::HumanCount;
pub(crate) use progress::Progress;

use anyhow::Context;
use model::control_characters::is_control_character;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Writes a result to standard output without escaping.
pub fn print(result: &impl Display) -> anyhow::Result<()> {
    write!(std::io::stdout().lock(), "{result}").context("writing to standard output")
}

pub(crate) fn print_line(line: impl Display) -> anyhow::Result<()> {
    print(&format_args!("{}\n", escaped(&line.to_string())))
}

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

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let source = error.chain().find_map(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == ErrorKind::BrokenPipe)
}

fn to_standard_error(text: &str) {
    // A missing reader is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes text unchanged to a file or pipe, but with each line [`escaped`] to a terminal.
#[derive(Debug)]
pub(crate) struct TerminalSafeWriter<W> {
    pub(crate) out: W,
    pub(crate) is_terminal: bool,
}

impl<W: Write> Write for TerminalSafeWriter<W> {
    /// The text must not end inside a character.
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(text);
        }
        for line in String::from_utf8_lossy(text).split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let line = line.strip_suffix('\r').unwrap_or(line);
            self.out.write_all(format!("{}{end}", escaped(line)).as_bytes())?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Replaces characters that control a terminal or reorder text with escapes such as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control_character) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control_character(c) {
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
            ("a\u{2028}b\u{2029}c\u{85}", "a\\u{2028}b\\u{2029}c\\u{85}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn lines_control_no_terminal_and_are_exact_elsewhere() {
        let text = "A,B\r\n\u{1b}[2J,\"\u{9b}x\ny\rz\"\r\n";
        for (is_terminal, expected) in [(true, "A,B\n\\u{1b}[2J,\"\\u{9b}x\ny\\rz\"\n"), (false, text)] {
            let mut lines = TerminalSafeWriter { out: Vec::new(), is_terminal };
            lines.write_all(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(lines.out).unwrap(), expected);
        }
    }
}
