//! The catalog of tables, held in memory so that finding a table never waits.
//!
//! This module must not know where the catalog is stored.

use crate::contract::TableKey;
use model::name::TABLE_NAMES_FROM;
use model::{AccountName, Retention, StoredAccessPolicies, TableName, TableSettings};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The tables of all accounts. Each has an engine-specific value.
#[derive(Debug, Clone)]
pub struct Catalog<T> {
    accounts: BTreeMap<AccountName, BTreeMap<Box<str>, CatalogTable<T>>>,
}

/// A table in the catalog.
#[derive(Debug, Clone)]
pub struct CatalogTable<T> {
    /// The name, in the letter case in which the table was created.
    pub name: TableName,
    /// The table's stored access policies.
    pub policies: StoredAccessPolicies,
    /// The table's settings, shared with the operations that are in progress.
    pub settings: Arc<TableSettings>,
    /// The engine's value for the table.
    pub table: T,
}

impl<T> Default for Catalog<T> {
    fn default() -> Self {
        Self { accounts: BTreeMap::new() }
    }
}

impl<T> Catalog<T> {
    /// Returns the table with the given name. Letter case is ignored.
    pub fn get(&self, key: &TableKey) -> Option<&CatalogTable<T>> {
        self.accounts.get(&key.account)?.get(key.name.folded())
    }

    /// Returns the table with the given name for modification.
    pub fn get_mut(&mut self, key: &TableKey) -> Option<&mut CatalogTable<T>> {
        self.accounts.get_mut(&key.account)?.get_mut(key.name.folded())
    }

    /// Adds a table without policies and with the default settings. The caller ensures that no table with the same name
    /// exists.
    pub fn insert(&mut self, key: &TableKey, table: T) {
        let tables = self.accounts.entry(key.account.clone()).or_default();
        let (policies, settings) = (StoredAccessPolicies::default(), Arc::default());
        tables.insert(Box::from(key.name.folded()), CatalogTable { name: key.name.clone(), policies, settings, table });
    }

    /// Replaces the policies of a table, if the table exists.
    pub fn set_policies(&mut self, key: &TableKey, policies: StoredAccessPolicies) -> Option<()> {
        self.get_mut(key)?.policies = policies;
        Some(())
    }

    /// Replaces the settings of a table, if the table exists.
    pub fn set_settings(&mut self, key: &TableKey, settings: TableSettings) -> Option<()> {
        self.get_mut(key)?.settings = Arc::new(settings);
        Some(())
    }

    /// Removes a table from the catalog, and returns it.
    pub fn remove(&mut self, key: &TableKey) -> Option<T> {
        let tables = self.accounts.get_mut(&key.account)?;
        let listed = tables.remove(key.name.folded())?;
        if tables.is_empty() {
            self.accounts.remove(&key.account);
        }
        Some(listed.table)
    }

    /// Removes all tables of an account and returns them.
    pub fn remove_account(&mut self, account: &AccountName) -> Vec<T> {
        self.accounts.remove(account).into_iter().flatten().map(|(_, listed)| listed.table).collect()
    }

    /// Returns the number of tables of all accounts.
    pub fn count(&self) -> usize {
        self.accounts.values().map(BTreeMap::len).sum()
    }

    /// Returns all tables, ordered by account and folded name.
    pub fn iter(&self) -> impl Iterator<Item = (&AccountName, &CatalogTable<T>)> {
        self.accounts.iter().flat_map(|(account, tables)| tables.values().map(move |listed| (account, listed)))
    }

    /// Returns the tables with a retention.
    pub fn with_retention(&self) -> Vec<(TableKey, Retention)> {
        let retained = self.iter().filter_map(|(account, listed)| {
            let retention = listed.settings.retention.clone()?;
            Some((TableKey { account: account.clone(), name: listed.name.clone() }, retention))
        });
        retained.collect()
    }

    /// Returns the accounts that have tables, ordered by name.
    pub fn accounts(&self) -> impl Iterator<Item = &AccountName> {
        self.accounts.keys()
    }

    /// Returns the number of tables of an account, without metrics tables, of which there are few.
    pub fn count_of(&self, account: &AccountName) -> usize {
        let Some(tables) = self.accounts.get(account) else { return 0 };
        tables.len() - tables.keys().take_while(|name| &***name < TABLE_NAMES_FROM).count()
    }

    /// Returns at most `limit` table names of an account, ordered by folded name, starting at `from` (folded,
    /// inclusive). Omits metrics tables.
    pub fn list(&self, account: &AccountName, from: &str, limit: usize) -> Vec<TableName> {
        let Some(tables) = self.accounts.get(account) else { return Vec::new() };
        let from = (Bound::Included(from.max(TABLE_NAMES_FROM)), Bound::Unbounded);
        tables.range::<str, _>(from).take(limit).map(|(_, listed)| listed.name.clone()).collect()
    }
}
