use anyhow::{Context, anyhow};
use model::{AccountName, EdmType, TableName};

/// Parses the name of an account from the command line.
pub fn parse_account(name: &str) -> anyhow::Result<AccountName> {
    AccountName::new(name)
        .with_context(|| format!("'{name}' is not a valid account name: use 3 to 24 lowercase letters and digits"))
}

pub(crate) fn parse_table(name: &str) -> anyhow::Result<TableName> {
    TableName::new(name).map_err(|_| {
        anyhow!("'{name}' is not a valid table name: use 3 to 63 letters and digits, beginning with a letter")
    })
}

/// `Edm.` is optional, because only some versions of Azure Storage Explorer write it.
pub(crate) fn parse_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}
