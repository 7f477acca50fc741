//! Request costs.

use server::RequestTotals;
use std::fmt;
use std::ops::{Add, Sub};

/// The cost of requests: their number, the bytes transferred, and the number of entities processed.
///
/// All values are counts, so they are the same in every run. The cost of a program is the difference between two of
/// these values:
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// let server = rowhouse_testing::TestServer::start_blocking()?;
/// let before = server.costs();
/// // … the program under test …
/// let costs = server.costs() - before;
/// assert_eq!((costs.requests, costs.entities_examined), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// The number of requests to which the server responded, whatever their result. A transaction counts as one
    /// request.
    pub requests: u64,
    /// Entities that the server examined. A get that finds its entity examines one. A query examines all entities in
    /// the key ranges that its filter allows, whether or not they match the rest of the filter.
    pub entities_examined: u64,
    /// Entities in the responses to gets and queries.
    pub entities_returned: u64,
    /// Entities that were inserted, changed or deleted.
    pub entities_written: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of response bodies.
    pub response_bytes: u64,
}

impl Costs {
    pub(crate) fn from_totals(totals: RequestTotals) -> Self {
        Self {
            requests: totals.requests,
            entities_examined: totals.entities_examined,
            entities_returned: totals.entities_returned,
            entities_written: totals.entities_written,
            request_bytes: totals.request_bytes,
            response_bytes: totals.response_bytes,
        }
    }

    fn combined(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: combine(self.requests, other.requests),
            entities_examined: combine(self.entities_examined, other.entities_examined),
            entities_returned: combine(self.entities_returned, other.entities_returned),
            entities_written: combine(self.entities_written, other.entities_written),
            request_bytes: combine(self.request_bytes, other.request_bytes),
            response_bytes: combine(self.response_bytes, other.response_bytes),
        }
    }
}

/// Returns the costs since an earlier value. A count that has decreased yields zero.
impl Sub for Costs {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.combined(earlier, u64::saturating_sub)
    }
}

/// Returns the sum of both costs.
impl Add for Costs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combined(other, u64::saturating_add)
    }
}

/// Writes the numbers of requests and entities as one readable line.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, entities_examined, entities_returned, entities_written, .. } = self;
        write!(
            f,
            "{requests} requests; entities: {entities_examined} examined, {entities_returned} returned, {entities_written} written"
        )
    }
}
