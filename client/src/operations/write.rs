//! The kinds of writes.

use super::stored::IfMatch;
use http::Method;

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
