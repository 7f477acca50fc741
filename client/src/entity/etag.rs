//! The `ETag` of an entity.
//!
//! This module must not know how a service creates `ETag`s, because they are opaque to a client.

use std::fmt;

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
