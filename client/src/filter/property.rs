//! Custom properties and the Timestamp in filters.
//!
//! This module must not depend on keys.
#![expect(clippy::needless_pass_by_value, reason = "a literal is compared without a reference before it")]

use super::Filter;
use super::operand::{Operand, OrderedValue, TextValue, literal};
use crate::entity::{EntityError, PropertyBag, PropertyField};
use model::filter::{Literal, Operator, PropertyName, StringFunction};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

type Read<T> = fn(&PropertyBag, &str) -> Result<T, EntityError>;

/// A property of the entity type `E` whose field has the type `T`, in filters and projections.
///
/// If `T` is an `Option`, the property is compared with values of the inner type. An entity without the property
/// matches no comparison, not even [`ne`](Self::ne), so it matches every negated comparison.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
///
/// let visits = PropertyBag::PROPERTIES.property::<Option<i64>>("Visits");
/// assert_eq!(visits.eq(5).to_string(), "Visits eq 5L");
/// assert_eq!((!visits.ne(5)).to_string(), "not (Visits ne 5L)");
/// ```
pub struct Property<E, T, N = &'static str> {
    name: N,
    read: Read<T>,
    entity: PhantomData<fn() -> E>,
}

impl<E, T, N> Property<E, T, N> {
    /// Hidden: for the derive macro.
    #[doc(hidden)]
    pub const fn named(name: N, read: Read<T>) -> Self {
        Self { name, read, entity: PhantomData }
    }
}

impl<E, T: PropertyField, N: AsRef<str>> Property<E, T, N> {
    /// Selects entities whose value equals the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<String>("Name").eq("O'Hara");
    /// assert_eq!(filter.to_string(), "Name eq 'O''Hara'");
    /// ```
    pub fn eq(&self, value: impl Operand<T::Value>) -> Filter<E> {
        self.compare(Operator::Equal, &value)
    }

    /// Selects entities that have the property with a value different from the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<bool>("IsActive").ne(true);
    /// assert_eq!(filter.to_string(), "IsActive ne true");
    /// ```
    pub fn ne(&self, value: impl Operand<T::Value>) -> Filter<E> {
        self.compare(Operator::NotEqual, &value)
    }

    /// Selects entities whose value is less than the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<f64>("Score").lt(0.5);
    /// assert_eq!(filter.to_string(), "Score lt 0.5");
    /// ```
    pub fn lt(&self, value: impl Operand<T::Value>) -> Filter<E>
    where
        T::Value: OrderedValue,
    {
        self.compare(Operator::LessThan, &value)
    }

    /// Selects entities whose value is less than or equal to the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<i32>("Level").le(3);
    /// assert_eq!(filter.to_string(), "Level le 3");
    /// ```
    pub fn le(&self, value: impl Operand<T::Value>) -> Filter<E>
    where
        T::Value: OrderedValue,
    {
        self.compare(Operator::LessThanOrEqual, &value)
    }

    /// Selects entities whose value is greater than the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<Vec<u8>>("Hash").gt(&[0xFF, 0]);
    /// assert_eq!(filter.to_string(), "Hash gt X'ff00'");
    /// ```
    pub fn gt(&self, value: impl Operand<T::Value>) -> Filter<E>
    where
        T::Value: OrderedValue,
    {
        self.compare(Operator::GreaterThan, &value)
    }

    /// Selects entities whose value is greater than or equal to the operand.
    ///
    /// ```
    /// # use rowhouse_client::entity::{DateTime, Entity, PropertyBag};
    /// let day = DateTime::parse("2026-01-02T00:00:00Z").unwrap();
    /// let filter = PropertyBag::PROPERTIES.timestamp.ge(day);
    /// assert_eq!(filter.to_string(), "Timestamp ge datetime'2026-01-02T00:00:00Z'");
    /// ```
    pub fn ge(&self, value: impl Operand<T::Value>) -> Filter<E>
    where
        T::Value: OrderedValue,
    {
        self.compare(Operator::GreaterThanOrEqual, &value)
    }

    /// Selects entities whose value is in a range. The range `..` contains no comparison, so it selects every entity.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let level = PropertyBag::PROPERTIES.property::<i32>("Level");
    /// assert_eq!(level.in_range(1..=5).to_string(), "Level ge 1 and Level le 5");
    /// assert_eq!(level.in_range(..5).to_string(), "Level lt 5");
    /// ```
    pub fn in_range<O: Operand<T::Value>>(&self, range: impl RangeBounds<O>) -> Filter<E>
    where
        T::Value: OrderedValue,
    {
        let literal = |bound: Bound<&O>| bound.map(|value| self.literal(value));
        Filter::between(&self.property_name(), literal(range.start_bound()), literal(range.end_bound()))
    }

    /// Selects entities whose value starts with a prefix. The comparison is case-sensitive.
    ///
    /// The filter is a range of strings, which every service supports, unlike the functions that
    /// [`ends_with`](Self::ends_with) and [`contains`](Self::contains) need.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<String>("Name").starts_with("Ad");
    /// assert_eq!(filter.to_string(), "Name ge 'Ad' and Name lt 'Ae'");
    /// ```
    pub fn starts_with(&self, prefix: impl AsRef<str>) -> Filter<E>
    where
        T::Value: TextValue,
    {
        match self.check() {
            Ok(()) => Filter::prefix(&self.property_name(), prefix.as_ref()),
            Err(error) => Filter::from_result(Err(Box::new(error))),
        }
    }

    /// Selects entities whose value ends with a suffix. The comparison is case-sensitive.
    ///
    /// An extension of Rowhouse, for servers that run with `--extensions`. The cloud service refuses the filter with
    /// status 501.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<String>("Mail").ends_with("@example.org");
    /// assert_eq!(filter.to_string(), "endswith(Mail,'@example.org')");
    /// ```
    pub fn ends_with(&self, suffix: impl AsRef<str>) -> Filter<E>
    where
        T::Value: TextValue,
    {
        self.call(StringFunction::EndsWith, suffix.as_ref())
    }

    /// Selects entities whose value contains a string. The comparison is case-sensitive.
    ///
    /// An extension of Rowhouse, for servers that run with `--extensions`. The cloud service refuses the filter with
    /// status 501.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<String>("Name").contains("Hara");
    /// assert_eq!(filter.to_string(), "contains(Name,'Hara')");
    /// ```
    pub fn contains(&self, text: impl AsRef<str>) -> Filter<E>
    where
        T::Value: TextValue,
    {
        self.call(StringFunction::Contains, text.as_ref())
    }

    /// Selects entities in which the property is true.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.property::<bool>("IsActive").is_true();
    /// assert_eq!(filter.to_string(), "IsActive eq true");
    /// ```
    pub fn is_true(&self) -> Filter<E>
    where
        T: PropertyField<Value = bool>,
    {
        self.eq(true)
    }

    fn call(&self, function: StringFunction, text: &str) -> Filter<E> {
        match self.check() {
            Ok(()) => Filter::call(function, self.property_name(), text),
            Err(error) => Filter::from_result(Err(Box::new(error))),
        }
    }

    fn property_name(&self) -> PropertyName {
        PropertyName::new(self.name.as_ref())
    }

    /// Checks a name that was built at run time, because it could change the meaning of the filter.
    fn check(&self) -> Result<(), EntityError> {
        match self.property_name() {
            PropertyName::Custom(name) => crate::entity::check_property_name(&name),
            _ => Ok(()),
        }
    }

    fn literal(&self, value: &impl Operand<T::Value>) -> Result<Literal, EntityError> {
        self.check()?;
        let encoded = value.encode().map_err(|error| EntityError::of_value(self.name.as_ref(), error))?;
        Ok(literal(&encoded))
    }

    fn compare(&self, operator: Operator, value: &impl Operand<T::Value>) -> Filter<E> {
        Filter::compare(self.property_name(), operator, self.literal(value))
    }
}

/// A property that queries can read but filters cannot compare, because it is encrypted or contains JSON.
///
/// ```
/// # use rowhouse_client::entity::{Entity, PropertyBag, Properties};
/// # use rowhouse_client::filter::{OpaqueProperty, Projection};
/// # let secret: OpaqueProperty<PropertyBag, String> = OpaqueProperty::named("Secret", |bag, name| bag.get(name));
/// // `secret` is the member of `PROPERTIES` for a field with `#[entity(encrypt)]`.
/// let bag = PropertyBag::new("Berlin", "0042")?.with("Secret", "text")?;
/// assert_eq!(secret.read(&bag)?, "text");
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
pub struct OpaqueProperty<E, T>(Property<E, T>);

impl<E, T> OpaqueProperty<E, T> {
    /// Hidden: for the derive macro.
    #[doc(hidden)]
    pub const fn named(name: &'static str, read: Read<T>) -> Self {
        Self(Property::named(name, read))
    }

    pub(super) fn as_property(&self) -> &Property<E, T> {
        &self.0
    }
}

/// Implemented for no type: a call of an operator of an [`OpaqueProperty`] does not compile, and says why.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "filters cannot compare an encrypted property or a JSON property",
    label = "the service stores this property in a form that it cannot compare",
    note = "filter by other properties, and check this one in the program, or store what to compare in a separate property"
)]
pub trait Comparable {}

macro_rules! refused_operators {
    ($($operator:ident($($operand:ident)?)),* $(,)?) => {
        // Without these methods, the compiler would find the methods of `Iterator`, and report a missing iterator.
        #[doc(hidden)]
        impl<E, T> OpaqueProperty<E, T> {
            $(pub fn $operator$(<$operand>)?(&self $(, _: $operand)?) -> Filter<E>
            where
                Self: Comparable,
            {
                unreachable!("no type implements `Comparable`")
            })*
        }
    };
}

refused_operators! {
    eq(V),
    ne(V),
    lt(V),
    le(V),
    gt(V),
    ge(V),
    in_range(R),
    starts_with(S),
    ends_with(S),
    contains(S),
    is_true(),
}

impl<E, T, N: AsRef<str>> Property<E, T, N> {
    pub(crate) fn name(&self) -> &str {
        self.name.as_ref()
    }

    pub(super) fn read(&self, bag: &PropertyBag) -> Result<T, EntityError> {
        (self.read)(bag, self.name.as_ref())
    }
}

impl<E, T, N: Clone> Clone for Property<E, T, N> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), ..*self }
    }
}

impl<E, T, N: Copy> Copy for Property<E, T, N> {}

impl<E, T> Clone for OpaqueProperty<E, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, T> Copy for OpaqueProperty<E, T> {}

impl<E, T, N: fmt::Debug> fmt::Debug for Property<E, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Property").field(&self.name).finish()
    }
}

impl<E, T> fmt::Debug for OpaqueProperty<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpaqueProperty").field(&self.0.name).finish()
    }
}
