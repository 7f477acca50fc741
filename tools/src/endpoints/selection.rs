//! Which tables of an account a command works on.

use super::Place;
use anyhow::bail;
use model::{AccountName, TableName};

/// Which tables are wanted: all if nothing is given.
#[derive(Debug, Default)]
pub(crate) struct TableSelection {
    names: Vec<TableName>,
    /// Folded.
    prefixes: Vec<String>,
}

impl TableSelection {
    /// Reads names, and beginnings of names with an asterisk behind them.
    pub(crate) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let mut selection = Self::default();
        for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            match text.strip_suffix('*') {
                Some(prefix) if prefix.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                    selection.prefixes.push(prefix.to_ascii_lowercase());
                }
                _ => match TableName::new(text) {
                    Ok(name) => selection.names.push(name),
                    Err(_) => bail!("'{text}' is not a table name: that has 3 to 63 letters and digits"),
                },
            }
        }
        Ok(selection)
    }

    /// Whether every table that is wanted is given by its name.
    fn are_named(&self) -> bool {
        !self.names.is_empty() && self.prefixes.is_empty()
    }

    /// The tables that are given by their names.
    pub(crate) fn names(&self) -> &[TableName] {
        &self.names
    }

    /// The tables of an account that are wanted. Those that are missing are not looked for.
    pub(crate) async fn of(&self, place: &dyn Place, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = match place.tables(account).await {
            // Who may read some tables alone may not list them, and need not if he names them.
            Err(error) if self.are_named() && is_forbidden(&error) => self.names.clone(),
            names => names?,
        };
        Ok(names.into_iter().filter(|name| self.wants(name)).collect())
    }

    /// Whether a table is wanted.
    pub(crate) fn wants(&self, table: &TableName) -> bool {
        let is_all = self.names.is_empty() && self.prefixes.is_empty();
        is_all
            || self.names.contains(table)
            || self.prefixes.iter().any(|prefix| table.folded().starts_with(prefix.as_str()))
    }
}

/// Whether a service refused because the credential does not allow it.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    let refusal = error.downcast_ref::<client::Error>().and_then(client::Error::refusal);
    refusal.is_some_and(|(status, _)| status == 403)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_of_names() {
        let parse =
            |texts: &[&str]| TableSelection::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let name = |text| TableName::new(text).unwrap();
        assert!(parse(&[]).unwrap().wants(&name("Cars")));
        let some = parse(&["cars", " LOG*", ""]).unwrap();
        assert!(some.wants(&name("CARS")) && some.wants(&name("logs1")) && !some.wants(&name("trucks")));
        assert!(!some.are_named() && parse(&["cars"]).unwrap().are_named());
        assert!(parse(&["a-b"]).is_err() && parse(&["a-*"]).is_err());
    }
}
