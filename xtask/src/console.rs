//! Writes to standard output and standard error; no other module does.

use std::io::{self, Write};

/// Writes a line. A reader that has gone away is no reason to stop the tests.
pub(crate) fn line(text: &str) {
    raw(format!("{text}\n").as_bytes());
}

/// Writes a line to standard error.
pub(crate) fn error(text: &str) {
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// Writes the output of a command.
pub(crate) fn raw(bytes: &[u8]) {
    let mut output = io::stdout().lock();
    let _ = output.write_all(bytes).and_then(|()| output.flush());
}
