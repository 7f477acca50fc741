//! The tables of the change feed (`docs/change-feed.md`): `$Changes` with the changes of all tables of an account, and
//! `$Changes{Table}` with the changes of one table. Letter case is ignored.
//!
//! This module must not depend on which tables exist.

use crate::DateTime;
use crate::limits::COSMOS_TRANSACTION_OPERATIONS_MAX;
use crate::name::TableName;
use std::fmt;

/// The prefix of the properties that come from the changed entity.
pub const ENTITY_PREFIX: &str = "Entity_";
const PREFIX: &str = "$Changes";
const POSITION_DIGITS: usize = 20;
const INDEX_DIGITS: usize = 3;
const TEXT_BYTES: usize = POSITION_DIGITS + 1 + INDEX_DIGITS;
/// No transaction has a change with this index.
const INDEX_MAX: u32 = 999;

const _: () = assert!(COSMOS_TRANSACTION_OPERATIONS_MAX < INDEX_MAX as usize);

/// Returns the name of the table with the changes of one table.
pub fn name_of(table: &str) -> String {
    format!("{PREFIX}{table}")
}

/// A table of the change feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesTable {
    /// The changes of all tables.
    All,
    /// The changes of one table.
    Of(TableName),
}

impl ChangesTable {
    /// Returns the table with the given name, or `None` if the change feed has no such table.
    pub fn from_name(name: &str) -> Option<Self> {
        let (prefix, table) = name.split_at_checked(PREFIX.len())?;
        if !prefix.eq_ignore_ascii_case(PREFIX) {
            return None;
        }
        if table.is_empty() { Some(Self::All) } else { TableName::new(table).ok().map(Self::Of) }
    }
}

/// The position of a change. Its text has a fixed width, so positions and their texts have the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangePosition {
    /// The position of the transaction.
    pub transaction: u64,
    /// The index of the change in its transaction.
    pub index: u32,
}

impl ChangePosition {
    /// Returns the position before all changes of a transaction.
    pub fn start_of(transaction: u64) -> Self {
        Self { transaction, index: 0 }
    }

    /// Returns the position after all changes of a transaction, but before the next transaction.
    pub fn end_of(transaction: u64) -> Self {
        Self { transaction, index: INDEX_MAX }
    }

    /// Returns the next position at which there can be a change.
    #[must_use]
    pub fn next(self) -> Self {
        if self.index >= INDEX_MAX {
            return Self::start_of(self.transaction.saturating_add(1));
        }
        Self { index: self.index + 1, ..self }
    }

    /// Returns a position after all changes before this one. Its next position is this one or has no change before this
    /// one.
    #[must_use]
    pub fn previous(self) -> Self {
        match self.index.checked_sub(1) {
            Some(index) => Self { index, ..self },
            None => Self::end_of(self.transaction.saturating_sub(1)),
        }
    }

    /// Returns the text.
    pub fn text(self) -> [u8; TEXT_BYTES] {
        let mut text = [b'-'; TEXT_BYTES];
        let (transaction, index) = text.split_at_mut(POSITION_DIGITS);
        write_digits(transaction, self.transaction);
        write_digits(index.get_mut(1..).unwrap_or_default(), u64::from(self.index.min(INDEX_MAX)));
        text
    }

    /// Reads the text of a position. Returns `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (transaction, index) = text.split_once('-')?;
        let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(transaction, POSITION_DIGITS) || !is_number(index, INDEX_DIGITS) {
            return None;
        }
        Some(Self { transaction: transaction.parse().ok()?, index: index.parse().ok()? })
    }
}

/// Fills a buffer with the last digits of a number. This is faster than formatting the number with leading zeros.
fn write_digits(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).expect("only ASCII was written"))
    }
}

/// Returns the start of the year, month, day, hour or minute that a partition key of the change feed, or the beginning
/// of one, names. Returns `None` if it names none.
///
/// A partition key of the feed is at or after the string exactly if its time is at or after the result.
pub fn start_of(partition: &str) -> Option<DateTime> {
    const EARLIEST: &str = "00000101T0000";
    let is_complete = matches!(partition.len(), 4 | 6 | 8 | 11 | 13);
    let rest = EARLIEST.get(partition.len()..).filter(|_| is_complete)?;
    let text = [partition, rest].concat();
    let [y1, y2, y3, y4, m1, m2, d1, d2, b'T', h1, h2, n1, n2] = *text.as_bytes() else { return None };
    let text = [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', b'0', b'0', b'Z'];
    DateTime::parse(std::str::from_utf8(&text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |name| Some(ChangesTable::Of(TableName::new(name).unwrap()));
        for (name, expected) in [
            ("$Changes", Some(ChangesTable::All)),
            ("$CHANGES", Some(ChangesTable::All)),
            ("$ChangesOrders", of("orders")),
            ("$changesORDERS", of("orders")),
            ("$ChangesOr", None),
            ("$Changestables", None),
            ("$Changes$Changes", None),
            ("$Changes1", None),
            ("$Change", None),
            ("$Changeß", None),
            ("ChangesOrders", None),
            ("", None),
        ] {
            assert_eq!(ChangesTable::from_name(name), expected, "{name}");
        }
    }

    #[test]
    fn positions() {
        let position = ChangePosition { transaction: 4711, index: 2 };
        assert_eq!(position.to_string(), "00000000000000004711-002");
        assert_eq!(position.next().to_string(), "00000000000000004711-003");
        assert_eq!(ChangePosition::end_of(4711).next(), ChangePosition::start_of(4712));
        assert_eq!(position.previous().next(), position);
        assert_eq!(ChangePosition::start_of(4711).previous(), ChangePosition::end_of(4710));
        let last = ChangePosition::end_of(u64::MAX);
        for position in [position, ChangePosition::start_of(0), last] {
            assert_eq!(ChangePosition::parse(&position.to_string()), Some(position));
        }
        for malformed in [
            "",
            "4711-002",
            "00000000000000004711",
            "00000000000000004711-",
            "00000000000000004711-02",
            "00000000000000004711-0002",
            "+0000000000000004711-002",
            "00000000000000004711-+02",
            "99999999999999999999-000",
        ] {
            assert_eq!(ChangePosition::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn minutes() {
        let time = DateTime::parse("2026-11-28T05:10:59.9Z").unwrap();
        let minute = String::from_utf8(time.text().minute().to_vec()).unwrap();
        assert_eq!(minute, "20261128T0510");
        assert_eq!(start_of(&minute), DateTime::parse("2026-11-28T05:10:00Z").ok());
        for other in [
            "",
            "20261",
            "2026112",
            "20261128T",
            "20261128T2510",
            "20261328T0510",
            "20261128t0510",
            "20261128T051é",
            "2026-1-28T0510",
        ] {
            assert_eq!(start_of(other), None, "{other}");
        }
        for (beginning, start) in [
            ("2026", "2026-01-01T00:00:00Z"),
            ("202611", "2026-11-01T00:00:00Z"),
            ("20261128", "2026-11-28T00:00:00Z"),
            ("20261128T05", "2026-11-28T05:00:00Z"),
        ] {
            assert_eq!(start_of(beginning), DateTime::parse(start).ok(), "{beginning}");
        }
    }
}
