//! What requests cost the database.

/// The estimated processor time of the nodes, in seconds, for each read, each write and each row, without the rows
/// themselves. `docs/lab/citus.md` contains the measurements. The time until a response is not suitable as a measure,
/// because it includes waiting: a node that is busy would seem to have more work than it would give to another one.
const READ_SECONDS: f64 = 100e-6;
const WRITE_SECONDS: f64 = 350e-6;
const ROW_SECONDS: f64 = 2.5e-6;

/// An amount of work, or an amount of work per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Requests that read, such as a page of a query.
    pub reads: f64,
    /// Requests that write: transactions.
    pub writes: f64,
    /// Rows that were read or written.
    pub rows: f64,
    /// The time until the database responded, in seconds.
    pub seconds: f64,
}

impl Load {
    /// Returns the estimated processor time of the nodes in seconds.
    pub fn cost(&self) -> f64 {
        self.reads * READ_SECONDS + self.writes * WRITE_SECONDS + self.rows * ROW_SECONDS
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.rows += other.rows;
        self.seconds += other.seconds;
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            reads: self.reads * factor,
            writes: self.writes * factor,
            rows: self.rows * factor,
            seconds: self.seconds * factor,
        }
    }
}
