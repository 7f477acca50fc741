//! The catalog of tables, held in memory so that finding a table never waits.
//!
//! This module must not know where the catalog is stored.

use crate::engine::TableKey;
use model::name::TABLE_NAMES_FROM;
use model::{AccountName, StoredAccessPolicies, TableName};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Debug, Clone)]
pub(crate) struct Catalog<T> {
    accounts: BTreeMap<AccountName, BTreeMap<Box<str>, CatalogTable<T>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct CatalogTable<T> {
    pub(crate) name: TableName,
    pub(crate) policies: StoredAccessPolicies,
    pub(crate) table: T,
}

impl<T> Default for Catalog<T> {
    fn default() -> Self {
        Self { accounts: BTreeMap::new() }
    }
}

impl<T> Catalog<T> {
    /// Letter case is ignored.
    pub(crate) fn get(&self, key: &TableKey) -> Option<&CatalogTable<T>> {
        self.accounts.get(&key.account)?.get(key.name.folded())
    }

    pub(crate) fn get_mut(&mut self, key: &TableKey) -> Option<&mut CatalogTable<T>> {
        self.accounts.get_mut(&key.account)?.get_mut(key.name.folded())
    }

    /// The caller ensures that no table with the same name exists.
    pub(crate) fn insert(&mut self, key: &TableKey, table: T) {
        let tables = self.accounts.entry(key.account.clone()).or_default();
        let policies = StoredAccessPolicies::default();
        tables.insert(Box::from(key.name.folded()), CatalogTable { name: key.name.clone(), policies, table });
    }

    pub(crate) fn set_policies(&mut self, key: &TableKey, policies: StoredAccessPolicies) -> Option<()> {
        self.get_mut(key)?.policies = policies;
        Some(())
    }

    pub(crate) fn remove(&mut self, key: &TableKey) -> Option<T> {
        let tables = self.accounts.get_mut(&key.account)?;
        let listed = tables.remove(key.name.folded())?;
        if tables.is_empty() {
            self.accounts.remove(&key.account);
        }
        Some(listed.table)
    }

    pub(crate) fn remove_account(&mut self, account: &AccountName) -> Vec<T> {
        self.accounts.remove(account).into_iter().flatten().map(|(_, listed)| listed.table).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.accounts.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AccountName, &CatalogTable<T>)> {
        self.accounts.iter().flat_map(|(account, tables)| tables.values().map(move |listed| (account, listed)))
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &AccountName> {
        self.accounts.keys()
    }

    /// Returns at most `limit` table names of an account, ordered by folded name, starting at `from` (folded,
    /// inclusive). Omits metrics tables.
    pub(crate) fn list(&self, account: &AccountName, from: &str, limit: usize) -> Vec<TableName> {
        let Some(tables) = self.accounts.get(account) else { return Vec::new() };
        let from = (Bound::Included(from.max(TABLE_NAMES_FROM)), Bound::Unbounded);
        tables.range::<str, _>(from).take(limit).map(|(_, listed)| listed.name.clone()).collect()
    }
}
