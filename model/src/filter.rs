//! Filters: the syntax tree of `$filter` (specification 04 §2).

use crate::DateTime;
use crate::edm::Guid;

/// A filter expression. `And` and `Or` hold their operands flat, so thousands of comparisons nest one deep.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All operands hold.
    And(Vec<Filter>),
    /// At least one operand holds.
    Or(Vec<Filter>),
    /// The operand does not hold.
    Not(Box<Filter>),
    /// A property compared with a literal.
    Compare(Comparison),
    /// A property alone: it exists, is Boolean and is true.
    IsTrue(PropertyName),
    /// A literal `true` or `false` alone.
    Constant(bool),
}

/// A property compared with a literal. A literal on the left was mirrored when it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The left side.
    pub property: PropertyName,
    /// How the sides are compared.
    pub operator: Operator,
    /// The right side.
    pub literal: Literal,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `eq`
    Equal,
    /// `ne`
    NotEqual,
    /// `lt`
    LessThan,
    /// `le`
    LessThanOrEqual,
    /// `gt`
    GreaterThan,
    /// `ge`
    GreaterThanOrEqual,
}

/// The name of a property in a filter; system properties are told apart once, when the filter is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyName {
    /// The partition key.
    PartitionKey,
    /// The row key.
    RowKey,
    /// The instant of the last write.
    Timestamp,
    /// A custom property.
    Custom(Box<str>),
}

/// A literal of a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `'text'`
    String(Box<str>),
    /// `X'0aff'`
    Binary(Box<[u8]>),
    /// `true`
    Boolean(bool),
    /// `datetime'2024-01-02T03:04:05Z'`
    DateTime(DateTime),
    /// `1.5`
    Double(f64),
    /// `guid'…'`
    Guid(Guid),
    /// `42`
    Int32(i32),
    /// `42L`
    Int64(i64),
}
