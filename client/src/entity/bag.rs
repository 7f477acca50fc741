//! Untyped entities.
//!
//! This module must not depend on entity types.

use crate::entity::error::EntityError;
use crate::entity::key::key;
use crate::entity::properties::{self, Properties};
use crate::entity::value::{PropertyField, SetValue};
use model::{DateTime, EntityKey};
use std::fmt;

/// An untyped entity: its key and its properties by name. Every typed entity is encoded to a bag and decoded from one.
///
/// ```
/// use rowhouse_client::entity::PropertyBag;
///
/// let mut bag = PropertyBag::new("Berlin", "0042")?.with("Name", "Ada")?.with("Visits", 5_i64)?;
/// bag.set("Visits", bag.get::<i64>("Visits")? + 1)?;
/// assert_eq!(bag.get::<i64>("Visits")?, 6);
/// assert_eq!(bag.get::<Option<bool>>("IsActive")?, None);
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PropertyBag {
    /// The partition key and the row key.
    pub key: EntityKey,
    /// The custom properties.
    pub properties: Properties,
    /// The time of the last write, if known. It is not sent, because the service sets it.
    pub timestamp: Option<DateTime>,
    /// The `ETag`, if known. It is sent only when used as the condition of an operation.
    pub etag: Option<ETag>,
}

impl PropertyBag {
    /// Creates an entity that has only a key. Fails if a string cannot be a key.
    ///
    /// ```
    /// use rowhouse_client::entity::{EntityError, PropertyBag};
    ///
    /// assert_eq!(PropertyBag::new("Berlin", "0042")?.key.partition.as_str(), "Berlin");
    /// assert!(matches!(PropertyBag::new("Berlin", "a/b"), Err(EntityError::Key { .. })));
    /// # Ok::<(), EntityError>(())
    /// ```
    pub fn new(partition_key: &str, row_key: &str) -> Result<Self, EntityError> {
        key(partition_key, row_key).map(Self::from_key)
    }

    /// Creates an entity that has only this key.
    ///
    /// ```
    /// use rowhouse_client::entity::{EntityKey, PropertyBag};
    ///
    /// let key = EntityKey::new("Berlin", "0042")?;
    /// assert!(PropertyBag::from_key(key).properties.is_empty());
    /// # Ok::<(), rowhouse_client::entity::KeyError>(())
    /// ```
    pub fn from_key(key: EntityKey) -> Self {
        Self { key, properties: Properties::default(), timestamp: None, etag: None }
    }

    /// Creates an entity from a key and properties, for example from another entity's properties.
    ///
    /// ```
    /// use rowhouse_client::entity::{EntityKey, PropertyBag};
    ///
    /// let bag = PropertyBag::new("Berlin", "0042")?.with("Name", "Ada")?;
    /// let copy = PropertyBag::of_properties(EntityKey::new("Turin", "0042")?, bag.properties);
    /// assert_eq!(copy.get::<String>("Name")?, "Ada");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_properties(key: EntityKey, properties: impl Into<Properties>) -> Self {
        Self { properties: properties.into(), ..Self::from_key(key) }
    }

    /// Adds or changes a property, and returns the entity. Fails like [`Properties::set`].
    ///
    /// ```
    /// # use rowhouse_client::entity::PropertyBag;
    /// let bag = PropertyBag::new("Berlin", "0042")?.with("IsActive", true)?;
    /// assert!(bag.get::<bool>("IsActive")?);
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn with<T: SetValue>(mut self, name: &str, value: T) -> Result<Self, EntityError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Reads a property as a Rust type, or as an `Option` of it if the property may be missing.
    ///
    /// Fails if the property is missing or has a different type.
    ///
    /// ```
    /// # use rowhouse_client::entity::PropertyBag;
    /// let bag = PropertyBag::new("Berlin", "0042")?.with("Visits", 5)?;
    /// assert_eq!(bag.get::<i32>("Visits")?, 5);
    /// assert_eq!(bag.get::<i64>("Visits")?, 5);
    /// assert!(bag.get::<String>("Visits").is_err());
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn get<T: PropertyField>(&self, name: &str) -> Result<T, EntityError> {
        properties::read(&self.properties, name)
    }

    /// Sets a property; `None` removes it. Fails like [`Properties::set`].
    ///
    /// ```
    /// # use rowhouse_client::entity::PropertyBag;
    /// let mut bag = PropertyBag::new("Berlin", "0042")?;
    /// bag.set("Score", 1.5)?;
    /// assert_eq!(bag.get::<f64>("Score")?, 1.5);
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "a literal is set without a reference before it")]
    pub fn set<T: SetValue>(&mut self, name: &str, value: T) -> Result<(), EntityError> {
        self.properties.set(name, &value)
    }

    /// Removes a property and returns whether it existed.
    ///
    /// ```
    /// # use rowhouse_client::entity::PropertyBag;
    /// let mut bag = PropertyBag::new("Berlin", "0042")?.with("Score", 1.5)?;
    /// assert!(bag.remove("Score"));
    /// # Ok::<(), rowhouse_client::entity::EntityError>(())
    /// ```
    pub fn remove(&mut self, name: &str) -> bool {
        self.properties.remove(name)
    }
}

// The `ETag` of an entity.
//
// This module must not know how a service creates `ETag`s, because they are opaque to a client.

/// The version of an entity: the string that the service sent. Later requests send it back unchanged.
///
/// ```
/// use rowhouse_client::entity::ETag;
///
/// let etag = ETag::from("W/\"datetime'2026-01-02T03%3A04%3A05Z'\"");
/// assert_eq!(etag.as_str(), "W/\"datetime'2026-01-02T03%3A04%3A05Z'\"");
/// assert_eq!(etag.to_string(), etag.as_str());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag(Box<str>);

impl ETag {
    /// Returns the string, as sent in `If-Match`.
    ///
    /// ```
    /// # use rowhouse_client::entity::ETag;
    /// assert_eq!(ETag::from("W/\"1\"".to_owned()).as_str(), "W/\"1\"");
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Box<str>> for ETag {
    fn from(text: Box<str>) -> Self {
        Self(text)
    }
}

impl From<String> for ETag {
    fn from(text: String) -> Self {
        Self(text.into_boxed_str())
    }
}

impl From<&str> for ETag {
    fn from(text: &str) -> Self {
        Self(Box::from(text))
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
