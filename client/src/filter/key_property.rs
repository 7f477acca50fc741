//! Keys in filters.
//!
//! This module must not depend on custom properties.
#![expect(clippy::needless_pass_by_value, reason = "a literal is compared without a reference before it")]

use super::Filter;
use crate::entity::{EntityError, KeyFormat, KeyName, KeyOperand, OrderedKeyFormat, Plain, ValueError};
use model::filter::{Literal, Operator, PropertyName, StringFunction};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A key of the entity type `E` in filters and projections. Its value has type `T` and is written in the format `F`.
///
/// Comparisons use the order of the values. In the format [`Inverted`](crate::entity::Inverted), the string of the
/// greater value sorts first, so the filter contains the opposite operator.
///
/// ```
/// use rowhouse_client::entity::{Entity, PropertyBag};
///
/// let row_key = PropertyBag::PROPERTIES.row_key;
/// assert_eq!(row_key.in_range("a".."c").to_string(), "RowKey ge 'a' and RowKey lt 'c'");
/// ```
pub struct KeyProperty<E, T, F = Plain> {
    key: KeyName,
    #[expect(clippy::type_complexity, reason = "three types of which there is no value")]
    types: PhantomData<fn() -> (E, T, F)>,
}

impl<E, T, F> KeyProperty<E, T, F> {
    /// Hidden: for the derive macro.
    #[doc(hidden)]
    pub const fn new(key: KeyName) -> Self {
        Self { key, types: PhantomData }
    }

    pub(super) fn key(self) -> KeyName {
        self.key
    }

    fn property_name(self) -> PropertyName {
        match self.key {
            KeyName::Partition => PropertyName::PartitionKey,
            KeyName::Row => PropertyName::RowKey,
        }
    }
}

impl<E, T, F: KeyFormat<T>> KeyProperty<E, T, F> {
    /// Selects entities whose key equals the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.partition_key.eq("Berlin");
    /// assert_eq!(filter.to_string(), "PartitionKey eq 'Berlin'");
    /// ```
    pub fn eq(&self, value: impl KeyOperand<T>) -> Filter<E> {
        self.compare(Operator::Equal, &value)
    }

    /// Selects entities whose key does not equal the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.partition_key.ne("Berlin");
    /// assert_eq!(filter.to_string(), "PartitionKey ne 'Berlin'");
    /// ```
    pub fn ne(&self, value: impl KeyOperand<T>) -> Filter<E> {
        self.compare(Operator::NotEqual, &value)
    }

    /// Selects entities whose key is less than the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.lt("b");
    /// assert_eq!(filter.to_string(), "RowKey lt 'b'");
    /// ```
    pub fn lt(&self, value: impl KeyOperand<T>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        self.compare_order(Operator::LessThan, &value)
    }

    /// Selects entities whose key is less than or equal to the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.le("b");
    /// assert_eq!(filter.to_string(), "RowKey le 'b'");
    /// ```
    pub fn le(&self, value: impl KeyOperand<T>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        self.compare_order(Operator::LessThanOrEqual, &value)
    }

    /// Selects entities whose key is greater than the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.gt("b");
    /// assert_eq!(filter.to_string(), "RowKey gt 'b'");
    /// ```
    pub fn gt(&self, value: impl KeyOperand<T>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        self.compare_order(Operator::GreaterThan, &value)
    }

    /// Selects entities whose key is greater than or equal to the value.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.ge("b");
    /// assert_eq!(filter.to_string(), "RowKey ge 'b'");
    /// ```
    pub fn ge(&self, value: impl KeyOperand<T>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        self.compare_order(Operator::GreaterThanOrEqual, &value)
    }

    /// Selects entities whose key is in a range. The range `..` selects every entity.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.partition_key.in_range("a"..="b");
    /// assert_eq!(filter.to_string(), "PartitionKey ge 'a' and PartitionKey le 'b'");
    /// ```
    pub fn in_range<O: KeyOperand<T>>(&self, range: impl RangeBounds<O>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        let literal = |bound: Bound<&O>| bound.map(|value| self.literal(value));
        let (start, end) = (literal(range.start_bound()), literal(range.end_bound()));
        let (from, to) = if F::IS_REVERSED { (end, start) } else { (start, end) };
        Filter::between(&self.property_name(), from, to)
    }

    fn compare_order(self, operator: Operator, value: &impl KeyOperand<T>) -> Filter<E>
    where
        F: OrderedKeyFormat<T>,
    {
        self.compare(if F::IS_REVERSED { operator.mirrored() } else { operator }, value)
    }

    fn literal(self, value: &impl KeyOperand<T>) -> Result<Literal, EntityError> {
        let mut text = String::new();
        value.write_as::<F>(&mut text).map_err(|error| {
            let reason = match error {
                ValueError::Invalid(reason) => reason,
                error => error.to_string().into(),
            };
            let property = Box::from(self.property_name().as_str());
            EntityError::Value { property, reason }
        })?;
        Ok(Literal::String(text.into_boxed_str()))
    }

    fn compare(self, operator: Operator, value: &impl KeyOperand<T>) -> Filter<E> {
        Filter::compare(self.property_name(), operator, self.literal(value))
    }
}

impl<E> KeyProperty<E, String, Plain> {
    /// Selects entities whose key starts with a prefix. The comparison is case-sensitive.
    ///
    /// The filter is a range of strings, which every service supports, unlike the functions that
    /// [`ends_with`](Self::ends_with) and [`contains`](Self::contains) need.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.starts_with("order_");
    /// assert_eq!(filter.to_string(), "RowKey ge 'order_' and RowKey lt 'order`'");
    /// ```
    pub fn starts_with(&self, prefix: impl AsRef<str>) -> Filter<E> {
        Filter::prefix(&self.property_name(), prefix.as_ref())
    }

    /// Selects entities whose key ends with a suffix. The comparison is case-sensitive.
    ///
    /// An extension of Rowhouse, for servers that run with `--extensions`. The cloud service refuses the filter with
    /// status 501.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.ends_with("_draft");
    /// assert_eq!(filter.to_string(), "endswith(RowKey,'_draft')");
    /// ```
    pub fn ends_with(&self, suffix: impl AsRef<str>) -> Filter<E> {
        Filter::call(StringFunction::EndsWith, self.property_name(), suffix.as_ref())
    }

    /// Selects entities whose key contains a string. The comparison is case-sensitive.
    ///
    /// An extension of Rowhouse, for servers that run with `--extensions`. The cloud service refuses the filter with
    /// status 501.
    ///
    /// ```
    /// # use rowhouse_client::entity::{Entity, PropertyBag};
    /// let filter = PropertyBag::PROPERTIES.row_key.contains("_2031_");
    /// assert_eq!(filter.to_string(), "contains(RowKey,'_2031_')");
    /// ```
    pub fn contains(&self, text: impl AsRef<str>) -> Filter<E> {
        Filter::call(StringFunction::Contains, self.property_name(), text.as_ref())
    }
}

impl<E, T, F> Clone for KeyProperty<E, T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, T, F> Copy for KeyProperty<E, T, F> {}

impl<E, T, F> fmt::Debug for KeyProperty<E, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyProperty").field(&self.key).finish()
    }
}
