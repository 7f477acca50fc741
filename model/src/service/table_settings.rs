//! The settings of a table that the service of the cloud does not have.

use crate::index::IndexedProperty;
use crate::retention::Retention;

/// The settings of a table. The default is what a table has in the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSettings {
    /// How long entities exist; `None` until they are deleted.
    pub retention: Option<Retention>,
    /// The properties with an index, at most [`TABLE_INDEXES_MAX`](crate::limits::TABLE_INDEXES_MAX) different ones.
    pub indexes: Vec<IndexedProperty>,
}

/// A change to some of the settings of a table. `None` keeps a setting, so that changes to different settings do not
/// revert each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::option_option, reason = "the outer one is for the change, the inner one is the value")]
pub struct TableSettingsUpdate {
    /// The new retention, or `Some(None)` to keep entities until they are deleted.
    pub retention: Option<Option<Retention>>,
    /// The new list of properties with an index.
    pub indexes: Option<Vec<IndexedProperty>>,
}

impl TableSettings {
    /// Returns these settings with those that the update contains.
    #[must_use]
    pub fn updated(self, update: TableSettingsUpdate) -> Self {
        Self { retention: update.retention.unwrap_or(self.retention), indexes: update.indexes.unwrap_or(self.indexes) }
    }

    /// Returns the update that sets all settings to these.
    pub fn into_update(self) -> TableSettingsUpdate {
        TableSettingsUpdate { retention: Some(self.retention), indexes: Some(self.indexes) }
    }

    /// Returns whether the table has no settings that differ from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
