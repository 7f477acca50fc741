//! The options of quotas (`docs/throttling.md`).

use clap::Args;
use serde::Deserialize;
use server::{Quota, QuotaSection};

/// The options as they were given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub struct QuotaArgs {
    /// Most tables of an account; no limit unless given. This and the other quotas apply to every account that has none of its
    /// own in the file of --accounts; requests beyond a quota get 403, except reads and deletions
    #[arg(long, env = "ROWHOUSE_MAX_TABLES", value_name = "COUNT")]
    pub max_tables: Option<u64>,

    /// Most entities of an account, all tables together
    #[arg(long, env = "ROWHOUSE_MAX_ENTITIES", value_name = "COUNT")]
    pub max_entities: Option<u64>,

    /// Most data of an account, all tables together, in MiB
    #[arg(long, env = "ROWHOUSE_MAX_DATA_MIB", value_name = "MIB")]
    pub max_data_mib: Option<u64>,

    /// Most entities of one table
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_ENTITIES", value_name = "COUNT")]
    pub max_table_entities: Option<u64>,

    /// Most data of one table, in MiB
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_DATA_MIB", value_name = "MIB")]
    pub max_table_data_mib: Option<u64>,
}

impl QuotaArgs {
    /// Fills options that are not given from another source.
    pub fn or(self, file: Self) -> Self {
        Self {
            max_tables: self.max_tables.or(file.max_tables),
            max_entities: self.max_entities.or(file.max_entities),
            max_data_mib: self.max_data_mib.or(file.max_data_mib),
            max_table_entities: self.max_table_entities.or(file.max_table_entities),
            max_table_data_mib: self.max_table_data_mib.or(file.max_table_data_mib),
        }
    }

    /// The quota of an account that has none of its own.
    pub fn quota(self) -> Quota {
        let Self { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib } = self;
        QuotaSection { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib }.quota()
    }
}
