//! Iterates over all tables of an account page by page, so that no engine needs to return all of them at once.

use crate::contract::{Engine, Fault};
use model::limits::PAGE_RESULTS_MAX;
use model::{AccountName, TableName};

/// Pages of the tables of an account, in the order of their folded names.
pub struct TablePages<'a, E> {
    engine: &'a E,
    account: &'a AccountName,
    /// The start of the next page; `None` after the last page.
    from: Option<String>,
}

impl<'a, E: Engine> TablePages<'a, E> {
    /// Creates pages that start at the given folded name, inclusive. With an empty name, they contain all tables.
    pub fn new(engine: &'a E, account: &'a AccountName, from: String) -> Self {
        Self { engine, account, from: Some(from) }
    }

    /// Returns the next page of tables, or `None` after the last page.
    pub async fn next(&mut self) -> Result<Option<Vec<TableName>>, Fault> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let listed = self.engine.list_tables(self.account, &from, PAGE_RESULTS_MAX).await?;
        if let Some(last) = listed.last().filter(|_| listed.len() == PAGE_RESULTS_MAX) {
            // The smallest string greater than the last name.
            self.from = Some(format!("{}\0", last.folded()));
        }
        Ok(Some(listed))
    }
}
