//! Filters: the syntax tree of `$filter` (specification 04 §2), and its evaluation (04 §3).
//!
//! This module must not know the text of a filter: writing and parsing it belong to the wire format.
//! Evaluation works on the stored record in place and allocates nothing.

mod evaluate;

use crate::DateTime;
use crate::edm::{EdmType, Guid};
use crate::name;

/// The only property of a table in Query Tables (04 §7).
pub const TABLE_NAME: &str = "TableName";

/// A filter expression. `And` and `Or` have flat lists of operands, so that thousands of comparisons nest one deep.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All operands are true.
    And(Vec<Filter>),
    /// At least one operand is true.
    Or(Vec<Filter>),
    /// The operand is false.
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

impl Operator {
    /// The equivalent operator for exchanged sides: `3 lt Age` is `Age gt 3`.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::NotEqual => Self::NotEqual,
            Self::LessThan => Self::GreaterThan,
            Self::LessThanOrEqual => Self::GreaterThanOrEqual,
            Self::GreaterThan => Self::LessThan,
            Self::GreaterThanOrEqual => Self::LessThanOrEqual,
        }
    }

    /// The opposite operator, for values of one totally ordered type.
    pub fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::LessThan => Self::GreaterThanOrEqual,
            Self::LessThanOrEqual => Self::GreaterThan,
            Self::GreaterThan => Self::LessThanOrEqual,
            Self::GreaterThanOrEqual => Self::LessThan,
        }
    }
}

/// The name of a property in a filter; system properties are recognized once, when the filter is parsed.
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

impl PropertyName {
    /// Recognizes system properties. A name in another letter case is a custom property (04 §3.6).
    pub fn new(name: &str) -> Self {
        match name {
            name::PARTITION_KEY => Self::PartitionKey,
            name::ROW_KEY => Self::RowKey,
            name::TIMESTAMP => Self::Timestamp,
            custom => Self::Custom(Box::from(custom)),
        }
    }

    /// The type of a system property; that of a custom one is not known before there is an entity.
    pub fn declared_type(&self) -> Option<EdmType> {
        match self {
            Self::PartitionKey | Self::RowKey => Some(EdmType::String),
            Self::Timestamp => Some(EdmType::DateTime),
            Self::Custom(_) => None,
        }
    }

    /// The name as it is written in a filter.
    pub fn as_str(&self) -> &str {
        match self {
            Self::PartitionKey => name::PARTITION_KEY,
            Self::RowKey => name::ROW_KEY,
            Self::Timestamp => name::TIMESTAMP,
            Self::Custom(custom) => custom,
        }
    }
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

impl Literal {
    /// The type that the form of the literal gives it.
    pub fn edm_type(&self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Binary(_) => EdmType::Binary,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Double(_) => EdmType::Double,
            Self::Guid(_) => EdmType::Guid,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
