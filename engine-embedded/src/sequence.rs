//! Numbers of transactions.

use std::fmt;

/// The position of a transaction in the serial order. Numbers begin at 1, and can be skipped where a log begins
/// and after a promotion; 0 stands for the state before the first transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    pub(crate) const fn next(self) -> Self {
        self.plus(1)
    }

    pub(crate) const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
