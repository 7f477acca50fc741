//! What requests cost the database.

/// The estimated processor time of the nodes, in seconds, for each read and each write without its rows, and for each
/// row that is read or written. `docs/lab/citus.md` contains the measurements. The time until a response is not
/// suitable as a measure, because it includes waiting: a node that is busy would seem to have more work than it would
/// give to another one.
const READ_SECONDS: f64 = 80e-6;
const WRITE_SECONDS: f64 = 250e-6;
const READ_ROW_SECONDS: f64 = 2.5e-6;
const WRITTEN_ROW_SECONDS: f64 = 24e-6;

/// An amount of work, or an amount of work per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    /// Requests that read, such as a page of a query.
    pub(crate) reads: f64,
    /// Requests that write: transactions.
    pub(crate) writes: f64,
    /// Rows that were read or written.
    pub(crate) rows: f64,
    /// How many of the rows were written.
    pub(crate) written: f64,
    /// The time until the database responded, in seconds.
    pub(crate) seconds: f64,
}

impl Load {
    /// Returns the estimated processor time of the nodes in seconds.
    pub(crate) fn cost(&self) -> f64 {
        let requests = self.reads * READ_SECONDS + self.writes * WRITE_SECONDS;
        requests + (self.rows - self.written) * READ_ROW_SECONDS + self.written * WRITTEN_ROW_SECONDS
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.rows += other.rows;
        self.written += other.written;
        self.seconds += other.seconds;
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            reads: self.reads * factor,
            writes: self.writes * factor,
            rows: self.rows * factor,
            written: self.written * factor,
            seconds: self.seconds * factor,
        }
    }
}
