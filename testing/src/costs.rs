//! What requests cost.

use server::RequestTotals;
use std::fmt;
use std::ops::{Add, Sub};

/// What requests cost a server: how many there were, what they moved, and how many entities the server worked on.
///
/// These are counts, so they are the same in every run. What a program costs is the difference of two of them:
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// let server = rowhouse_testing::TestServer::start_blocking()?;
/// let before = server.costs();
/// // … the program that is tested …
/// let costs = server.costs() - before;
/// assert_eq!((costs.requests, costs.entities_examined), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// Requests that the server responded to, whatever their result. A transaction is one.
    pub requests: u64,
    /// Entities that the server looked at: one for a get that finds its entity; for a query all entities in the ranges
    /// of keys that its filter allows, whether they match the rest of the filter or not.
    pub entities_examined: u64,
    /// Entities in the responses to gets and queries.
    pub entities_returned: u64,
    /// Entities that were inserted, changed or deleted.
    pub entities_written: u64,
    /// Bytes of the bodies of requests.
    pub request_bytes: u64,
    /// Bytes of the bodies of responses.
    pub response_bytes: u64,
}

impl Costs {
    pub(crate) fn of(totals: RequestTotals) -> Self {
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

/// The costs since an earlier moment; a count that is smaller than before gives zero.
impl Sub for Costs {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.combined(earlier, u64::saturating_sub)
    }
}

/// The costs of both.
impl Add for Costs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combined(other, u64::saturating_add)
    }
}

/// One line for people: the requests and the entities.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, entities_examined, entities_returned, entities_written, .. } = self;
        write!(
            f,
            "{requests} requests; entities: {entities_examined} examined, {entities_returned} returned, {entities_written} written"
        )
    }
}
