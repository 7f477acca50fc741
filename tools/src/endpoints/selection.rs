use super::endpoint::Source;
use crate::option_values::parse_table;
use model::{AccountName, TableName};

/// If no table is given, all tables are selected.
#[derive(Debug, Default)]
pub(crate) struct TableSelection {
    names: Vec<TableName>,
    /// The prefixes, case-folded.
    prefixes: Vec<String>,
}

impl TableSelection {
    /// A prefix is followed by an asterisk.
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

    fn has_names_only(&self) -> bool {
        !self.names.is_empty() && self.prefixes.is_empty()
    }

    pub(crate) fn names(&self) -> &[TableName] {
        &self.names
    }

    /// The result may include tables that do not exist.
    pub(crate) async fn find(&self, endpoint: &dyn Source, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = match endpoint.tables(account).await {
            // A signature for one table cannot list tables. If all tables are named, the list is not needed.
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
