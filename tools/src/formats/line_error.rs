#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineError {
    /// The position of the error in bytes, starting at 1.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

impl LineError {
    pub(crate) fn at_column(column: usize, reason: impl Into<String>) -> Self {
        Self { column, reason: reason.into() }
    }
}
