//! What accounts may keep: as options of the server for every account, and in the file of the accounts for one.

use clap::Args;
use serde::Deserialize;

/// The bytes of a MiB, in which sizes are given.
const MIB: u64 = 1024 * 1024;

/// The options as they were given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub(crate) struct QuotaArgs {
    /// Most tables of an account; any number unless it is given. This and the other quotas are for every account that has none of
    /// its own in the file of --accounts; what is beyond gets 403, and reads and deletions go on
    #[arg(long, env = "ROWHOUSE_MAX_TABLES", value_name = "COUNT")]
    pub(crate) max_tables: Option<u64>,

    /// Most entities of an account, all tables together
    #[arg(long, env = "ROWHOUSE_MAX_ENTITIES", value_name = "COUNT")]
    pub(crate) max_entities: Option<u64>,

    /// Most data of an account, all tables together, in MiB
    #[arg(long, env = "ROWHOUSE_MAX_DATA_MIB", value_name = "MIB")]
    pub(crate) max_data_mib: Option<u64>,

    /// Most entities of one table
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_ENTITIES", value_name = "COUNT")]
    pub(crate) max_table_entities: Option<u64>,

    /// Most data of one table, in MiB
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_DATA_MIB", value_name = "MIB")]
    pub(crate) max_table_data_mib: Option<u64>,
}

/// The section `[account.quota]` of an account.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub(crate) struct QuotaSection {
    max_tables: Option<u64>,
    max_entities: Option<u64>,
    max_data_mib: Option<u64>,
    max_table_entities: Option<u64>,
    max_table_data_mib: Option<u64>,
}

/// What an account may keep; `None` for any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(super) tables: Option<u64>,
    /// Of all tables together.
    pub(super) account: Ceiling,
    /// Of each table.
    pub(super) table: Ceiling,
}

/// Most entities and bytes of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ceiling {
    pub(super) entities: Option<u64>,
    pub(super) bytes: Option<u64>,
}

impl Ceiling {
    pub(super) fn is_none(self) -> bool {
        self.entities.is_none() && self.bytes.is_none()
    }

    fn or(self, other: Self) -> Self {
        Self { entities: self.entities.or(other.entities), bytes: self.bytes.or(other.bytes) }
    }
}

impl Quota {
    /// Fills what is not said from another one.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tables: self.tables.or(other.tables),
            account: self.account.or(other.account),
            table: self.table.or(other.table),
        }
    }

    /// Whether nothing is bounded.
    pub(crate) fn is_none(self) -> bool {
        self.tables.is_none() && !self.is_of_content()
    }

    /// Whether entities or bytes are bounded, so that they must be counted.
    pub(super) fn is_of_content(self) -> bool {
        !(self.account.is_none() && self.table.is_none())
    }
}

impl QuotaArgs {
    /// Fills what is not given from another source.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            max_tables: self.max_tables.or(file.max_tables),
            max_entities: self.max_entities.or(file.max_entities),
            max_data_mib: self.max_data_mib.or(file.max_data_mib),
            max_table_entities: self.max_table_entities.or(file.max_table_entities),
            max_table_data_mib: self.max_table_data_mib.or(file.max_table_data_mib),
        }
    }

    /// The quota of an account that has none of its own.
    pub(crate) fn quota(self) -> Quota {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(MIB));
        Quota {
            tables: self.max_tables,
            account: Ceiling { entities: self.max_entities, bytes: bytes(self.max_data_mib) },
            table: Ceiling { entities: self.max_table_entities, bytes: bytes(self.max_table_data_mib) },
        }
    }
}

impl QuotaSection {
    /// What the section says.
    pub(crate) fn quota(self) -> Quota {
        let Self { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib } = self;
        QuotaArgs { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib }.quota()
    }
}
