//! The custom properties of an entity.
//!
//! Invariants: names are valid and distinct, there are at most 252 of them, and no value is larger than 64 KiB.
//! Properties received from a service are not checked.
//!
//! This module must not depend on entity types.

use super::error::EntityError;
use super::value::{PropertyField, PropertyValue, SetValue};
use model::limits::{BINARY_BYTES_MAX, CUSTOM_PROPERTIES_MAX};
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use model::{EdmValue, RecordBuilder};
use std::fmt;

/// Custom properties by name: everything in an entity except its keys and its Timestamp.
///
/// Two `Properties` are equal if they contain the same properties, in any order.
///
/// ```
/// use rowhouse_client::entity::{EdmValue, Properties};
///
/// let mut properties = Properties::default();
/// properties.set("Name", &"Ada".to_owned())?;
/// properties.set("Visits", &5_i64)?;
/// assert_eq!(properties.len(), 2);
/// assert_eq!(properties.get("Visits"), Some(EdmValue::Int64(5)));
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
#[derive(Clone, Default)]
pub struct Properties(RecordBuilder);

impl Properties {
    /// Returns the number of properties.
    ///
    /// ```
    /// assert_eq!(rowhouse_client::entity::Properties::default().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no properties.
    ///
    /// ```
    /// assert!(rowhouse_client::entity::Properties::default().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names and values, in the order in which they were set or received.
    ///
    /// ```
    /// # use rowhouse_client::entity::{EdmValue, Properties};
    /// let mut properties = Properties::default();
    /// properties.set("B", &true)?;
    /// properties.set("A", &1)?;
    /// let all: Vec<_> = properties.iter().collect();
    /// assert_eq!(all, [("B", EdmValue::Boolean(true)), ("A", EdmValue::Int32(1))]);
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, EdmValue<'_>)> {
        self.0.properties().filter_map(|property| {
            let property = property.ok()?;
            Some((property.name().ok()?, property.value().ok()?))
        })
    }

    /// Returns the value of a property; `None` if there is no such property.
    ///
    /// ```
    /// # let properties = rowhouse_client::entity::Properties::default();
    /// assert_eq!(properties.get("Name"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<EdmValue<'_>> {
        self.iter().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// Sets a property; `None` removes it. An existing property keeps its position.
    ///
    /// Fails if the name is invalid, if the value has no encoded form or is larger than 64 KiB, or if there would be
    /// more than 252 properties.
    ///
    /// ```
    /// # use rowhouse_client::entity::{EdmValue, EntityError, Properties};
    /// let mut properties = Properties::default();
    /// properties.set("Level", &1)?;
    /// properties.set("Level", &Some(2))?;
    /// assert_eq!(properties.get("Level"), Some(EdmValue::Int32(2)));
    /// properties.set("Level", &None::<i32>)?;
    /// assert!(properties.is_empty());
    /// assert!(matches!(properties.set("not a name", &1), Err(EntityError::PropertyName { .. })));
    /// # Ok::<(), EntityError>(())
    /// ```
    pub fn set<T: SetValue>(&mut self, name: &str, value: &T) -> Result<(), EntityError> {
        check_name(name)?;
        if let Some(value) = value.encode_value().map_err(|error| EntityError::of_value(name, error))? {
            return self.put(name, value.as_edm());
        }
        self.remove(name);
        Ok(())
    }

    /// Removes a property and returns whether it existed.
    ///
    /// ```
    /// # let mut properties = rowhouse_client::entity::Properties::default();
    /// properties.set("Level", &1)?;
    /// assert!(properties.remove("Level"));
    /// assert!(!properties.remove("Level"));
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn remove(&mut self, name: &str) -> bool {
        if self.get(name).is_none() {
            return false;
        }
        let mut kept = self.0.emptied();
        self.iter().filter(|(other, _)| *other != name).for_each(|(other, value)| kept.push(other, value));
        self.0 = kept;
        true
    }

    /// Does not check the name, which must be valid.
    pub(super) fn put(&mut self, name: &str, value: EdmValue<'_>) -> Result<(), EntityError> {
        if self.get(name).is_none() {
            return self.append(name, value);
        }
        check_size(name, value)?;
        let mut changed = self.0.emptied();
        for (other, old) in self.iter() {
            changed.push(other, if other == name { value } else { old });
        }
        self.0 = changed;
        Ok(())
    }

    /// Does not check the name, which must be valid and unused.
    pub(super) fn append(&mut self, name: &str, value: EdmValue<'_>) -> Result<(), EntityError> {
        check_size(name, value)?;
        if self.len() >= CUSTOM_PROPERTIES_MAX {
            return Err(EntityError::TooManyProperties);
        }
        self.0.push(name, value);
        Ok(())
    }

    /// Hidden: used by parts of this workspace that write entities.
    #[doc(hidden)]
    pub fn as_record_builder(&self) -> &RecordBuilder {
        &self.0
    }

    /// Hidden: used by parts of this workspace that write entities.
    #[doc(hidden)]
    pub fn into_record_builder(self) -> RecordBuilder {
        self.0
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), EntityError> {
    let is_system = [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name);
    if is_system || check_property_name(name).is_err() {
        return Err(EntityError::PropertyName { property: Box::from(name) });
    }
    Ok(())
}

fn check_size(name: &str, value: EdmValue<'_>) -> Result<(), EntityError> {
    if value.is_larger_than(BINARY_BYTES_MAX) {
        Err(EntityError::TooLarge { property: Box::from(name) })
    } else {
        Ok(())
    }
}

#[doc(hidden)]
impl From<RecordBuilder> for Properties {
    fn from(properties: RecordBuilder) -> Self {
        Self(properties)
    }
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

pub(super) fn read<T: PropertyField>(properties: &Properties, name: &str) -> Result<T, EntityError> {
    decode(name, properties.get(name))
}

/// `None` represents a missing property.
pub(super) fn decode<T: PropertyField>(name: &str, value: Option<EdmValue<'_>>) -> Result<T, EntityError> {
    match value {
        Some(value) => T::decode(value).map_err(|error| EntityError::of_value(name, error)),
        None => {
            T::missing().ok_or_else(|| EntityError::Missing { property: Box::from(name), expected: T::Value::EDM_TYPE })
        }
    }
}
