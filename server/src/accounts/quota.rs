//! How much accounts may keep: one quota in the settings of the server for every account, and one in the account file for a
//! single account.

use serde::Deserialize;

/// Bytes of a MiB, the unit of sizes in settings.
const MIB: u64 = 1024 * 1024;

/// The section `[account.quota]` of an account, and the options of the same names.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub struct QuotaSection {
    /// Most tables.
    pub max_tables: Option<u64>,
    /// Most entities, all tables together.
    pub max_entities: Option<u64>,
    /// Most data, all tables together, in MiB.
    pub max_data_mib: Option<u64>,
    /// Most entities of one table.
    pub max_table_entities: Option<u64>,
    /// Most data of one table, in MiB.
    pub max_table_data_mib: Option<u64>,
}

/// What an account may keep; `None` for any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    pub(crate) tables: Option<u64>,
    /// Of all tables together.
    pub(crate) account: ContentLimit,
    /// Of each table.
    pub(crate) table: ContentLimit,
}

/// Most entities and bytes of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContentLimit {
    pub(crate) entities: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl ContentLimit {
    pub(crate) fn is_none(self) -> bool {
        self.entities.is_none() && self.bytes.is_none()
    }

    fn or(self, other: Self) -> Self {
        Self { entities: self.entities.or(other.entities), bytes: self.bytes.or(other.bytes) }
    }
}

impl Quota {
    /// Fills limits that are not set from another quota.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tables: self.tables.or(other.tables),
            account: self.account.or(other.account),
            table: self.table.or(other.table),
        }
    }

    /// Whether there is no limit at all.
    pub(crate) fn is_none(self) -> bool {
        self.tables.is_none() && !self.is_of_content()
    }

    /// Whether entities or bytes are limited, so that they must be counted.
    pub(crate) fn is_of_content(self) -> bool {
        !(self.account.is_none() && self.table.is_none())
    }
}

impl QuotaSection {
    /// The quota that the section describes.
    pub fn quota(self) -> Quota {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(MIB));
        Quota {
            tables: self.max_tables,
            account: ContentLimit { entities: self.max_entities, bytes: bytes(self.max_data_mib) },
            table: ContentLimit { entities: self.max_table_entities, bytes: bytes(self.max_table_data_mib) },
        }
    }
}
