//! The error for a malformed line of a file.

/// The reason why a line is not a valid entity, and the position of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineError {
    /// The offset in the line, in bytes, starting at 1.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

impl LineError {
    pub(crate) fn at_column(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}
