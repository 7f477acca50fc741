//! Quotas. The server's settings contain the default for all accounts. The account file can override it for individual
//! accounts.

use serde::Deserialize;

const MIB: u64 = 1024 * 1024;

/// The `[account.quota]` section of an account file. Options with the same names set the default.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub struct QuotaSection {
    /// Maximum number of tables.
    pub max_tables: Option<u64>,
    /// Maximum number of entities, across all tables.
    pub max_entities: Option<u64>,
    /// Maximum amount of data, across all tables, in MiB.
    pub max_data_mib: Option<u64>,
    /// Maximum number of entities in one table.
    pub max_table_entities: Option<u64>,
    /// Maximum amount of data in one table, in MiB.
    pub max_table_data_mib: Option<u64>,
}

/// The limits on what an account stores. `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    pub(crate) tables: Option<u64>,
    pub(crate) account: ContentLimit,
    pub(crate) table: ContentLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContentLimit {
    pub(crate) entities: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl ContentLimit {
    pub(crate) fn is_unlimited(self) -> bool {
        self.entities.is_none() && self.bytes.is_none()
    }

    fn or(self, other: Self) -> Self {
        Self { entities: self.entities.or(other.entities), bytes: self.bytes.or(other.bytes) }
    }
}

impl Quota {
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tables: self.tables.or(other.tables),
            account: self.account.or(other.account),
            table: self.table.or(other.table),
        }
    }

    pub(crate) fn is_unlimited(self) -> bool {
        self.tables.is_none() && !self.limits_content()
    }

    pub(crate) fn limits_content(self) -> bool {
        !(self.account.is_unlimited() && self.table.is_unlimited())
    }
}

impl QuotaSection {
    /// Returns the quota that the section describes.
    pub fn quota(self) -> Quota {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(MIB));
        Quota {
            tables: self.max_tables,
            account: ContentLimit { entities: self.max_entities, bytes: bytes(self.max_data_mib) },
            table: ContentLimit { entities: self.max_table_entities, bytes: bytes(self.max_table_data_mib) },
        }
    }
}
