//! What operations on entities take and return beside the entity: conditions, and what the service says about a version.
//!
//! This module must not know requests.

use crate::entity::{ETag, Entity, EntityError, PropertyBag};
use crate::error::Error;
use model::{DateTime, EntityKey};
use std::ops::{Deref, DerefMut};

/// An entity as the service has it: with its `ETag` and its Timestamp.
///
/// It dereferences to the entity, and stands for its own `ETag` wherever a condition is wanted.
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
/// // Only if nobody has changed it since it was read.
/// orders.replace(&order, &order).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Stored<E> {
    /// The entity.
    pub entity: E,
    /// Its version.
    pub etag: ETag,
    /// When it was written last; `None` if the service did not say so.
    pub timestamp: Option<DateTime>,
}

/// What the service says about an entity that was written.
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
    /// The version that was written; an empty text for an entity that was deleted.
    pub etag: ETag,
    /// When it was written; `None` if the `ETag` does not say so.
    pub timestamp: Option<DateTime>,
}

/// The condition of a change: which version the entity must have.
///
/// An `ETag` and everything that has one can stand for it: `&Stored<E>`, `&Written`, `&ETag`. That a change is to be made
/// whatever the version is, is said by [`IfMatch::Any`].
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
    /// The text of the `If-Match` header.
    ///
    /// An `ETag` without text, as of an entity that was deleted, and `*` are refused: a service would take both for no condition.
    pub(crate) fn header(&self) -> Result<&str, Error> {
        match self {
            Self::Any => Ok("*"),
            Self::ETag(etag) => match etag.as_str() {
                "" => Err(Error::Invalid("the condition is an ETag without text".to_owned())),
                "*" => {
                    Err(Error::Invalid("the condition is no ETag; IfMatch::Any stands for every version".to_owned()))
                }
                text if text.bytes().all(|b| matches!(b, b' '..=b'~')) => Ok(text),
                _ => Err(Error::Invalid("the condition is not an ETag".to_owned())),
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
    /// What an `ETag` header says. The time is part of the `ETag`s that the service and its emulators make (01 §8).
    pub(crate) fn of(etag: &str) -> Self {
        Self { etag: ETag::from(etag), timestamp: timestamp(etag) }
    }
}

/// The Timestamp that an `ETag` is made of.
pub(crate) fn timestamp(etag: &str) -> Option<DateTime> {
    let text = etag.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
    DateTime::parse(&wire::uri::percent_decode(text)?).ok()
}

/// An entity that the service sent, as a program wants it.
pub(crate) fn stored_as<T>(
    bag: PropertyBag,
    read: impl FnOnce(PropertyBag) -> Result<T, EntityError>,
) -> Result<Stored<T>, EntityError> {
    let (etag, timestamp) = (bag.etag.clone().unwrap_or_else(|| ETag::from("")), bag.timestamp);
    Ok(Stored { entity: read(bag)?, etag, timestamp })
}

impl<E> Stored<E> {
    /// The entity alone.
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

/// It is written as its entity is.
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
        assert_eq!(timestamp(&model::ETag::of(instant).to_string()), Some(instant));
        for other in ["", "*", "W/\"datetime'x'\"", "\"0x8D\"", "W/\"7\""] {
            assert_eq!(timestamp(other), None, "{other}");
        }
    }
}
