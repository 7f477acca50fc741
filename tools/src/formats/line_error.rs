//! What is wrong with a line of a file.

/// Why a line is not an entity, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineError {
    /// The position in the line in bytes, counted from one.
    pub(crate) column: usize,
    /// The message for people.
    pub(crate) reason: String,
}

impl LineError {
    /// An error at a column.
    pub(crate) fn at(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}
