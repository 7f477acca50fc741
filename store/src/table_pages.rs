//! All tables of an account, page by page, so that no engine has to return all of them at once.

use crate::engine::{Engine, Fault};
use model::limits::PAGE_RESULTS_MAX;
use model::{AccountName, TableName};

/// Pages of the tables of an account, in the order of their folded names.
pub struct TablePages<'a, E> {
    engine: &'a E,
    account: &'a AccountName,
    /// Where the next page begins; `None` after the last one.
    from: Option<String>,
}

impl<'a, E: Engine> TablePages<'a, E> {
    /// The pages from a folded name on, inclusive; the empty name gives all.
    pub fn new(engine: &'a E, account: &'a AccountName, from: String) -> Self {
        Self { engine, account, from: Some(from) }
    }

    /// The next tables; `None` when there are no more.
    pub async fn next(&mut self) -> Result<Option<Vec<TableName>>, Fault> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let listed = self.engine.list_tables(self.account, &from, PAGE_RESULTS_MAX).await?;
        if let Some(last) = listed.last().filter(|_| listed.len() == PAGE_RESULTS_MAX) {
            // The smallest text after the last name.
            self.from = Some(format!("{}\0", last.folded()));
        }
        Ok(Some(listed))
    }
}
