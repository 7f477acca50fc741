//! The service properties of all accounts. Every engine keeps them in memory, because each request needs them.
//!
//! This module must not know where the properties are stored.

use model::{AccountName, ServiceProperties};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The service properties of all accounts, and the defaults.
#[derive(Debug, Clone, Default)]
pub struct AccountProperties {
    accounts: HashMap<AccountName, Arc<ServiceProperties>>,
    defaults: Arc<ServiceProperties>,
}

impl AccountProperties {
    /// Returns the properties of an account, or the defaults if it has none.
    pub fn get(&self, account: &AccountName) -> Arc<ServiceProperties> {
        Arc::clone(self.accounts.get(account).unwrap_or(&self.defaults))
    }

    /// Sets the properties of accounts that have never set any.
    pub fn set_defaults(&mut self, defaults: Arc<ServiceProperties>) {
        self.defaults = defaults;
    }

    /// Returns the properties of accounts that have never set any.
    pub fn defaults(&self) -> Arc<ServiceProperties> {
        Arc::clone(&self.defaults)
    }

    /// Replaces the properties of all accounts, but not the defaults.
    pub fn replace_all(&mut self, other: Self) {
        self.accounts = other.accounts;
    }

    /// Returns the accounts that have set properties and the accounts in `others`, each once and in order.
    pub fn accounts_and<'a>(&'a self, others: impl Iterator<Item = &'a AccountName>) -> Vec<AccountName> {
        let accounts: BTreeSet<AccountName> = self.accounts.keys().chain(others).cloned().collect();
        accounts.into_iter().collect()
    }

    /// Returns the accounts that have set properties, each with its properties, ordered by account name.
    pub fn all(&self) -> Vec<(AccountName, ServiceProperties)> {
        let sorted: BTreeMap<_, _> = self.accounts.iter().collect();
        sorted.into_iter().map(|(account, properties)| (account.clone(), (**properties).clone())).collect()
    }

    /// Sets the properties of an account.
    pub fn insert(&mut self, account: &AccountName, properties: ServiceProperties) {
        self.accounts.insert(account.clone(), Arc::new(properties));
    }

    /// Removes the properties that an account has set.
    pub fn remove(&mut self, account: &AccountName) {
        self.accounts.remove(account);
    }
}
