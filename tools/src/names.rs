//! Parses names that people give: of accounts, of tables and of types.

use anyhow::{Context, anyhow};
use model::{AccountName, EdmType, TableName};

/// Parses the name of an account.
pub(crate) fn parse_account(name: &str) -> anyhow::Result<AccountName> {
    AccountName::new(name)
        .with_context(|| format!("'{name}' is not an account name: that has 3 to 24 lower-case letters and digits"))
}

/// Parses the name of a table.
pub(crate) fn parse_table(name: &str) -> anyhow::Result<TableName> {
    TableName::new(name).map_err(|_| {
        anyhow!("'{name}' is not a table name: that has 3 to 63 letters and digits, and begins with a letter")
    })
}

/// Parses the name of a type with or without `Edm.`: versions of Azure Storage Explorer write both.
pub(crate) fn parse_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}
