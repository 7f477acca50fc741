//! The options for quotas (`docs/throttling.md`).

use clap::Args;
use merge::Merge;
use serde::Deserialize;
use server::{Quota, QuotaSection};

/// The options as given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize, Merge)]
#[merge(strategy = merge::option::overwrite_none)]
#[serde(rename_all = "kebab-case", default)]
#[allow(clippy::struct_field_names, reason = "they are the names of the options")]
pub struct QuotaArgs {
    /// Maximum number of tables in an account [default: no limit]
    ///
    /// This and the other quotas apply to every account that does not have its own quota in the --accounts file. A
    /// request that would exceed a quota is refused with 403, unless it is a read or a deletion. Quotas of an account
    /// cover all its tables.
    #[arg(long, env = "ROWHOUSE_MAX_TABLES", value_name = "COUNT")]
    pub max_tables: Option<u64>,

    /// Maximum number of entities in an account [default: no limit]
    #[arg(long, env = "ROWHOUSE_MAX_ENTITIES", value_name = "COUNT")]
    pub max_entities: Option<u64>,

    /// Maximum amount of data in an account, in MiB [default: no limit]
    #[arg(long, env = "ROWHOUSE_MAX_DATA_MIB", value_name = "MIB")]
    pub max_data_mib: Option<u64>,

    /// Maximum number of entities in each table [default: no limit]
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_ENTITIES", value_name = "COUNT")]
    pub max_table_entities: Option<u64>,

    /// Maximum amount of data in each table, in MiB [default: no limit]
    #[arg(long, env = "ROWHOUSE_MAX_TABLE_DATA_MIB", value_name = "MIB")]
    pub max_table_data_mib: Option<u64>,
}

impl QuotaArgs {
    /// Returns the quota of an account that does not have its own quota.
    pub fn quota(self) -> Quota {
        let Self { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib } = self;
        QuotaSection { max_tables, max_entities, max_data_mib, max_table_entities, max_table_data_mib }.quota()
    }
}
