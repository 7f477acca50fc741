//! Compile-time checked filters for queries, and projections.
//!
//! [`Entity::PROPERTIES`](crate::entity::Entity::PROPERTIES) contains the properties of an entity type, each with its
//! name and type. Comparing a property returns a [`Filter`]; filters are combined with `&`, `|` and `!`, or with
//! [`and`](Filter::and), [`or`](Filter::or) and [`not`](Filter::not). A [`Projection`] is a property or a tuple of
//! properties whose values a query returns instead of entities.
//!
//! Invariants:
//!
//! 1. A literal in a filter has the EDM type of the property, whatever the type of the operand.
//! 2. Comparisons of a key field use the order of its values, whatever the format of the key.
//!
//! This module must not depend on requests or responses.

mod key_property;
mod operand;
mod projection;
mod property;

use crate::entity::derive_support::TimestampField;
use crate::entity::{DateTime, EntityError};
use model::filter::{Call, Comparison, Literal, Operator, PropertyName, StringFunction};
use model::name::TIMESTAMP;
use model::prefix::successor;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, Bound, Not};

pub use key_property::KeyProperty;
pub use operand::{Operand, OrderedValue, TextValue};
pub use projection::BagProperties;
pub use projection::Projection;
pub use property::{OpaqueProperty, Property};

/// Hidden: for the derive macro.
#[doc(hidden)]
pub const fn timestamp<E>() -> Property<E, DateTime> {
    Property::named(TIMESTAMP, |bag, _| <DateTime as TimestampField>::read(bag))
}

/// A filter for entities of one type.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
///
/// let p = PropertyBag::PROPERTIES;
/// let (name, visits) = (p.property::<String>("Name"), p.property::<i64>("Visits"));
/// let filter = visits.gt(5) & !name.eq("O'Hara") | name.starts_with("A");
/// assert_eq!(
///     filter.to_string(),
///     "Visits gt 5L and not (Name eq 'O''Hara') or Name ge 'A' and Name lt 'B'",
/// );
/// ```
///
/// Building a filter never fails, even if a value has no literal, such as an instant before 1601. A query with such a
/// filter fails before anything is sent, and [`text`](Self::text) returns the reason.
pub struct Filter<E> {
    filter: Result<model::Filter, Box<EntityError>>,
    entity: PhantomData<fn() -> E>,
}

impl<E> Filter<E> {
    /// Returns the filter in the protocol's filter language. Fails if a value has no literal, or if a property name is
    /// invalid.
    ///
    /// ```
    /// use rowhouse_client::entity::{Entity, PropertyBag};
    ///
    /// let p = PropertyBag::PROPERTIES;
    /// assert_eq!(p.row_key.ge("0042").text()?, "RowKey ge '0042'");
    /// assert!(p.property::<i32>("not a name").eq(1).text().is_err());
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn text(&self) -> Result<String, EntityError> {
        self.filter.as_ref().map(wire::filter::print).map_err(|error| error.as_ref().clone())
    }

    /// Selects entities that match both filters, like the operator `&`.
    ///
    /// A method call applies to everything before it, so `a.or(b).and(c)` means `(a | b) & c`.
    ///
    /// ```
    /// use rowhouse_client::entity::{Entity, PropertyBag};
    ///
    /// let level = PropertyBag::PROPERTIES.property::<i32>("Level");
    /// let filter = level.eq(1).or(level.eq(2)).and(PropertyBag::PROPERTIES.partition_key.eq("Turin"));
    /// assert_eq!(filter.to_string(), "(Level eq 1 or Level eq 2) and PartitionKey eq 'Turin'");
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let and = |a, b| model::Filter::And([conjuncts(a), conjuncts(b)].concat());
        Self::from_result(self.filter.and_then(|a| other.filter.map(|b| and(a, b))))
    }

    /// Selects entities that match at least one of the filters, like the operator `|`.
    ///
    /// ```
    /// use rowhouse_client::entity::{Entity, PropertyBag};
    ///
    /// let level = PropertyBag::PROPERTIES.property::<i32>("Level");
    /// assert_eq!(level.lt(1).or(level.gt(5)).to_string(), "Level lt 1 or Level gt 5");
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let or = |a, b| model::Filter::Or([disjuncts(a), disjuncts(b)].concat());
        Self::from_result(self.filter.and_then(|a| other.filter.map(|b| or(a, b))))
    }

    /// Selects entities that do not match the filter, like the operator `!`. These include entities without the
    /// compared property.
    ///
    /// ```
    /// use rowhouse_client::entity::{Entity, PropertyBag};
    ///
    /// let filter = PropertyBag::PROPERTIES.property::<String>("State").eq("paid").not();
    /// assert_eq!(filter.to_string(), "not (State eq 'paid')");
    /// ```
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it does; the method needs no import")]
    pub fn not(self) -> Self {
        Self::from_result(self.filter.map(|filter| match filter {
            model::Filter::Not(operand) => *operand,
            filter => model::Filter::Not(Box::new(filter)),
        }))
    }

    /// Returns the same filter for a query of another type, for tables that contain several kinds of entities.
    ///
    /// ```
    /// use rowhouse_client::entity::{Entity, PropertyBag};
    /// use rowhouse_client::filter::Filter;
    /// # struct Customer;
    ///
    /// let filter: Filter<Customer> = PropertyBag::PROPERTIES.property::<i32>("Level").eq(1).for_type();
    /// assert_eq!(filter.to_string(), "Level eq 1");
    /// ```
    pub fn for_type<F>(self) -> Filter<F> {
        Filter::from_result(self.filter)
    }

    /// Hidden.
    #[doc(hidden)]
    pub fn into_model(self) -> Result<model::Filter, EntityError> {
        self.filter.map_err(|error| *error)
    }

    /// Hidden.
    #[doc(hidden)]
    pub fn from_model(filter: model::Filter) -> Self {
        Self::from_result(Ok(filter))
    }

    fn from_result(filter: Result<model::Filter, Box<EntityError>>) -> Self {
        Self { filter, entity: PhantomData }
    }

    fn compare(property: PropertyName, operator: Operator, literal: Result<Literal, EntityError>) -> Self {
        let compare = |literal| model::Filter::Compare(Comparison { property, operator, literal });
        Self::from_result(literal.map(compare).map_err(Box::new))
    }

    fn between(
        property: &PropertyName,
        from: Bound<Result<Literal, EntityError>>,
        to: Bound<Result<Literal, EntityError>>,
    ) -> Self {
        let compare = |operator, literal| Self::compare(property.clone(), operator, literal);
        let from = match from {
            Bound::Included(literal) => Some(compare(Operator::GreaterThanOrEqual, literal)),
            Bound::Excluded(literal) => Some(compare(Operator::GreaterThan, literal)),
            Bound::Unbounded => None,
        };
        let to = match to {
            Bound::Included(literal) => Some(compare(Operator::LessThanOrEqual, literal)),
            Bound::Excluded(literal) => Some(compare(Operator::LessThan, literal)),
            Bound::Unbounded => None,
        };
        match (from, to) {
            (Some(from), Some(to)) => from & to,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Self::from_model(model::Filter::Constant(true)),
        }
    }

    fn call(function: StringFunction, property: PropertyName, text: &str) -> Self {
        Self::from_model(model::Filter::Call(Call { function, property, text: Box::from(text) }))
    }

    fn prefix(property: &PropertyName, prefix: &str) -> Self {
        let literal = |text: &str| Ok(Literal::String(Box::from(text)));
        let end = successor(prefix);
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(literal(&end)));
        Self::between(property, Bound::Included(literal(prefix)), end)
    }
}

/// Returns the operands of a chain of `and`. Any other filter counts as a chain of one.
fn conjuncts(filter: model::Filter) -> Vec<model::Filter> {
    if let model::Filter::And(operands) = filter { operands } else { vec![filter] }
}

/// Returns the operands of a chain of `or`. Any other filter counts as a chain of one.
fn disjuncts(filter: model::Filter) -> Vec<model::Filter> {
    if let model::Filter::Or(operands) = filter { operands } else { vec![filter] }
}

impl<E> BitAnd for Filter<E> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl<E> BitOr for Filter<E> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl<E> Not for Filter<E> {
    type Output = Self;

    fn not(self) -> Self {
        Self::not(self)
    }
}

impl<E> Clone for Filter<E> {
    fn clone(&self) -> Self {
        Self::from_result(self.filter.clone())
    }
}

impl<E> PartialEq for Filter<E> {
    fn eq(&self, other: &Self) -> bool {
        self.filter == other.filter
    }
}

impl<E> fmt::Debug for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.filter).finish()
    }
}

/// Writes the filter in the protocol's filter language. An invalid filter is written as an exclamation mark and the
/// reason in parentheses, which no service accepts as a filter.
impl<E> fmt::Display for Filter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.filter {
            Ok(filter) => f.write_str(&wire::filter::print(filter)),
            Err(error) => write!(f, "!({error})"),
        }
    }
}
