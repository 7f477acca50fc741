//! The inputs and results of entity operations other than the entity itself: conditions, ETags and timestamps.
//!
//! This module must not depend on requests.

use crate::entity::{ETag, Entity, EntityError, PropertyBag};
use crate::error::Error;
use http::Method;
use model::{DateTime, EntityKey};
use std::ops::{Deref, DerefMut};

/// A stored entity with its `ETag` and its Timestamp.
///
/// It dereferences to the entity. A reference to it can be the condition of a change.
///
/// ```
/// use rowhouse_client::{PropertyBag, Stored};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// # orders.create().await?;
/// # orders.insert(&PropertyBag::new("2031", "0001")?).await?;
/// let mut order: Stored<PropertyBag> = orders.get("2031", "0001").await?;
/// order.set("State", "paid")?;
/// // Replace the entity only if it has not changed since it was read.
/// orders.replace(&order, &order).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Stored<E> {
    /// The entity.
    pub entity: E,
    /// The version of the entity.
    pub etag: ETag,
    /// The time of the last write; `None` if the response does not contain it.
    pub timestamp: Option<DateTime>,
}

/// The service's response to a successful write.
///
/// ```
/// # use rowhouse_client::PropertyBag;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// # orders.create().await?;
/// let mut order = PropertyBag::new("2031", "0001")?;
/// let first = orders.insert(&order).await?;
/// order.set("State", "paid")?;
/// let second = orders.replace(&order, &first).await?;
/// assert!(second.timestamp > first.timestamp);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The written version, or an empty string if the entity was deleted.
    pub etag: ETag,
    /// The time of the write; `None` if the `ETag` does not contain it.
    pub timestamp: Option<DateTime>,
    /// The HTTP status of the operation, such as 204. Each operation of a transaction has its own.
    pub status: u16,
}

/// The condition of a change, on the version of the entity.
///
/// It can be converted from anything with an `ETag`: `&Stored<E>`, `&Written`, `&ETag`. Use [`IfMatch::Any`] for a
/// change that does not depend on the version.
///
/// ```
/// use rowhouse_client::{ETag, IfMatch};
///
/// let known = ETag::from("W/\"datetime'2031-04-01T06%3A30%3A00.1234567Z'\"");
/// assert_eq!(IfMatch::from(&known), IfMatch::ETag(known));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// The entity must exist, in any version.
    Any,
    /// The entity must exist in this version.
    ETag(ETag),
}

impl IfMatch {
    /// Returns the value of the `If-Match` header.
    ///
    /// Fails for `*` and for an empty `ETag`, which a deleted entity has, because neither makes a service compare the
    /// version.
    pub(crate) fn header(&self) -> Result<&str, Error> {
        match self {
            Self::Any => Ok("*"),
            Self::ETag(etag) => match etag.as_str() {
                "" => Err(Error::Invalid("the condition is an empty ETag".to_owned())),
                "*" => Err(Error::Invalid("'*' is not an ETag; use IfMatch::Any to match every version".to_owned())),
                text if text.bytes().all(|b| matches!(b, b' '..=b'~')) => Ok(text),
                _ => Err(Error::Invalid("an ETag must contain only printable ASCII characters".to_owned())),
            },
        }
    }
}

impl From<&ETag> for IfMatch {
    fn from(etag: &ETag) -> Self {
        Self::ETag(etag.clone())
    }
}

impl From<ETag> for IfMatch {
    fn from(etag: ETag) -> Self {
        Self::ETag(etag)
    }
}

impl<E> From<&Stored<E>> for IfMatch {
    fn from(stored: &Stored<E>) -> Self {
        Self::ETag(stored.etag.clone())
    }
}

impl From<&Written> for IfMatch {
    fn from(written: &Written) -> Self {
        Self::ETag(written.etag.clone())
    }
}

impl Written {
    /// Creates the result of an operation with this status and `ETag` header. The `ETag`s of the service and its
    /// emulators contain the time of the write (01 §8).
    pub(crate) fn new(status: u16, etag: Option<&str>) -> Self {
        let etag = etag.unwrap_or_default();
        Self { etag: ETag::from(etag), timestamp: timestamp(etag), status }
    }
}

pub(crate) fn timestamp(etag: &str) -> Option<DateTime> {
    let text = etag.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
    DateTime::parse(&wire::uri::percent_decode(text)?).ok()
}

pub(crate) fn stored_as<T>(
    bag: PropertyBag,
    read: impl FnOnce(PropertyBag) -> Result<T, EntityError>,
) -> Result<Stored<T>, EntityError> {
    let (etag, timestamp) = (bag.etag.clone().unwrap_or_else(|| ETag::from("")), bag.timestamp);
    Ok(Stored { entity: read(bag)?, etag, timestamp })
}

impl<E> Stored<E> {
    /// Returns the entity without its version.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Stored};
    /// fn forget_the_version(stored: Stored<PropertyBag>) -> PropertyBag {
    ///     stored.into_entity()
    /// }
    /// # let _ = forget_the_version;
    /// ```
    pub fn into_entity(self) -> E {
        self.entity
    }
}

impl<E: Entity> Entity for Stored<E> {
    type Properties = E::Properties;

    const PROPERTIES: E::Properties = E::PROPERTIES;
    const SELECT: Option<&'static [&'static str]> = E::SELECT;
    const ENCRYPTED: &'static [&'static str] = E::ENCRYPTED;

    fn key(&self) -> Result<EntityKey, EntityError> {
        self.entity.key()
    }

    fn to_bag(&self) -> Result<PropertyBag, EntityError> {
        self.entity.to_bag()
    }

    fn from_bag(bag: PropertyBag) -> Result<Self, EntityError> {
        stored_as(bag, E::from_bag)
    }
}

impl<E> Deref for Stored<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.entity
    }
}

impl<E> DerefMut for Stored<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.entity
    }
}

/// The kind of a write, which decides what happens if the entity exists or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
}

impl Write {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Insert => Method::POST,
            Self::Replace | Self::InsertOrReplace => Method::PUT,
            Self::Merge | Self::InsertOrMerge => Method::PATCH,
        }
    }

    /// Returns the method for a part of a batch. All services support MERGE there.
    pub(crate) fn batch_method(self) -> &'static str {
        match self {
            Self::Insert => "POST",
            Self::Replace | Self::InsertOrReplace => "PUT",
            Self::Merge | Self::InsertOrMerge => "MERGE",
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Insert => "inserting an entity into the table",
            Self::Replace => "replacing an entity in the table",
            Self::Merge => "merging into an entity in the table",
            Self::InsertOrReplace => "inserting or replacing an entity in the table",
            Self::InsertOrMerge => "inserting or merging an entity in the table",
        }
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::InsertOrMerge)
    }

    /// Returns true if repeating the write changes nothing and cannot fail because of the first attempt.
    pub(crate) fn is_idempotent(self, condition: Option<&IfMatch>) -> bool {
        self != Self::Insert && !matches!(condition, Some(IfMatch::ETag(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_never_an_unconditional_change_by_accident() {
        assert_eq!(IfMatch::Any.header().unwrap(), "*");
        assert_eq!(IfMatch::from(ETag::from("W/\"x\"")).header().unwrap(), "W/\"x\"");
        for text in ["", "*", "x\r\nX-Other: 1", "\u{e9}"] {
            assert!(matches!(IfMatch::from(ETag::from(text)).header(), Err(Error::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn an_etag_tells_the_timestamp() {
        let instant = DateTime::parse("2031-04-01T06:30:00.1234567Z").unwrap();
        assert_eq!(timestamp(&model::ETag::from_timestamp(instant).to_string()), Some(instant));
        for other in ["", "*", "W/\"datetime'x'\"", "\"0x8D\"", "W/\"7\""] {
            assert_eq!(timestamp(other), None, "{other}");
        }
    }
}
