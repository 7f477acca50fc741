//! Filters: the syntax tree of `$filter` (04 §2) and its evaluation (04 §3).
//!
//! This module must not depend on the text syntax of filters: parsing and writing it belong to the wire format.
//! Evaluation reads the stored record in place and allocates nothing.

mod evaluate;
mod types;

use crate::DateTime;
use crate::edm::{EdmType, Guid};
use crate::name;

pub use evaluate::Matcher;
pub use types::TypeDependence;

/// The only property of a table in Query Tables (04 §7).
pub const TABLE_NAME: &str = "TableName";

/// A filter expression. `And` and `Or` have flat lists of operands, so even a filter with thousands of comparisons
/// needs only one level of nesting.
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
    /// A property without a comparison. True if the property exists, is Boolean and is true.
    IsTrue(PropertyName),
    /// The literal `true` or `false` without a comparison.
    Constant(bool),
    /// A string function, which the service does not have (`docs/extensions.md`).
    Call(Call),
}

/// A comparison of a property with a literal. The parser mirrors comparisons that have the literal on the left.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The left side.
    pub property: PropertyName,
    /// The comparison operator.
    pub operator: Operator,
    /// The right side.
    pub literal: Literal,
}

/// A comparison operator.
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
    /// Returns the equivalent operator after swapping the sides: `3 lt Age` is `Age gt 3`.
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

    /// Returns the negated operator. Valid only for values of one totally ordered type.
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

/// A string function of a property and a literal. True if the property exists, is a string and contains the literal
/// where the function requires it. Strings are compared ordinally: by UTF-8 bytes, which is the same as by UTF-16 code
/// unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: StringFunction,
    /// The property.
    pub property: PropertyName,
    /// The literal; every string contains the empty string everywhere.
    pub text: Box<str>,
}

/// A function that looks for a literal in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringFunction {
    /// `startswith`
    StartsWith,
    /// `endswith`
    EndsWith,
    /// `contains`, or `substringof` with the arguments in the other order.
    Contains,
}

/// The name of a property in a filter. System properties are recognized once, when the filter is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyName {
    /// The partition key.
    PartitionKey,
    /// The row key.
    RowKey,
    /// The time of the last write.
    Timestamp,
    /// A custom property.
    Custom(Box<str>),
}

impl PropertyName {
    /// Recognizes system properties. A name in a different letter case is a custom property (04 §3.6).
    pub fn new(name: &str) -> Self {
        match name {
            name::PARTITION_KEY => Self::PartitionKey,
            name::ROW_KEY => Self::RowKey,
            name::TIMESTAMP => Self::Timestamp,
            custom => Self::Custom(Box::from(custom)),
        }
    }

    /// Returns the type of a system property. The type of a custom property depends on the entity.
    pub fn declared_type(&self) -> Option<EdmType> {
        match self {
            Self::PartitionKey | Self::RowKey => Some(EdmType::String),
            Self::Timestamp => Some(EdmType::DateTime),
            Self::Custom(_) => None,
        }
    }

    /// Returns the name as written in a filter.
    pub fn as_str(&self) -> &str {
        match self {
            Self::PartitionKey => name::PARTITION_KEY,
            Self::RowKey => name::ROW_KEY,
            Self::Timestamp => name::TIMESTAMP,
            Self::Custom(custom) => custom,
        }
    }
}

/// A literal in a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A string, such as `'text'`.
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
    /// Returns the type implied by the form of the literal.
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
