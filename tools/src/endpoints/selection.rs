//! The tables of an account that a command works on.

use super::endpoint::Source;
use crate::names::parse_table;
use model::{AccountName, TableName};

/// The selected tables; all tables if none is given.
#[derive(Debug, Default)]
pub(crate) struct TableSelection {
    names: Vec<TableName>,
    /// The prefixes of names, case-folded.
    prefixes: Vec<String>,
}

impl TableSelection {
    /// Parses names, and prefixes of names followed by an asterisk.
    pub(crate) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let mut selection = Self::default();
        for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            match text.strip_suffix('*') {
                Some(prefix) if prefix.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                    selection.prefixes.push(prefix.to_ascii_lowercase());
                }
                _ => selection.names.push(parse_table(text)?),
            }
        }
        Ok(selection)
    }

    /// Returns true if every selected table is given by its full name.
    fn has_names_only(&self) -> bool {
        !self.names.is_empty() && self.prefixes.is_empty()
    }

    /// Returns the tables that are given by their full names.
    pub(crate) fn names(&self) -> &[TableName] {
        &self.names
    }

    /// Returns the selected tables of an account. The result may include tables that do not exist.
    pub(crate) async fn find(&self, endpoint: &dyn Source, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = match endpoint.tables(account).await {
            // A signature for one table cannot list tables. A list is not needed if all tables are named.
            Err(error) if self.has_names_only() && is_forbidden(&error) => self.names.clone(),
            names => names?,
        };
        Ok(names.into_iter().filter(|name| self.includes(name)).collect())
    }

    pub(crate) fn includes(&self, table: &TableName) -> bool {
        let is_all = self.names.is_empty() && self.prefixes.is_empty();
        is_all
            || self.names.contains(table)
            || self.prefixes.iter().any(|prefix| table.folded().starts_with(prefix.as_str()))
    }
}

/// Returns true if a service refused a request because its credential does not allow it.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    error.downcast_ref::<client::Error>().is_some_and(|error| error.status() == Some(403))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes() {
        let parse =
            |texts: &[&str]| TableSelection::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let name = |text| TableName::new(text).unwrap();
        assert!(parse(&[]).unwrap().includes(&name("Cars")));
        let some = parse(&["cars", " LOG*", ""]).unwrap();
        assert!(some.includes(&name("CARS")) && some.includes(&name("logs1")) && !some.includes(&name("trucks")));
        assert!(!some.has_names_only() && parse(&["cars"]).unwrap().has_names_only());
        assert!(parse(&["a-b"]).is_err() && parse(&["a-*"]).is_err());
    }
}
