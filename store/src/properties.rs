//! The service properties of all accounts. Every engine keeps them in memory, because each request needs them.
//!
//! This module must not know where the properties are stored.

use model::{AccountName, ServiceProperties};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub(crate) struct AccountProperties {
    accounts: HashMap<AccountName, Arc<ServiceProperties>>,
    defaults: Arc<ServiceProperties>,
}

impl AccountProperties {
    pub(crate) fn get(&self, account: &AccountName) -> Arc<ServiceProperties> {
        Arc::clone(self.accounts.get(account).unwrap_or(&self.defaults))
    }

    pub(crate) fn set_defaults(&mut self, defaults: Arc<ServiceProperties>) {
        self.defaults = defaults;
    }

    pub(crate) fn defaults(&self) -> Arc<ServiceProperties> {
        Arc::clone(&self.defaults)
    }

    pub(crate) fn replace_all(&mut self, other: Self) {
        self.accounts = other.accounts;
    }

    /// Returns the accounts that have set properties and the accounts in `others`, each once and in order.
    pub(crate) fn accounts_and<'a>(&'a self, others: impl Iterator<Item = &'a AccountName>) -> Vec<AccountName> {
        let accounts: BTreeSet<AccountName> = self.accounts.keys().chain(others).cloned().collect();
        accounts.into_iter().collect()
    }

    pub(crate) fn all(&self) -> Vec<(AccountName, ServiceProperties)> {
        let sorted: BTreeMap<_, _> = self.accounts.iter().collect();
        sorted.into_iter().map(|(account, properties)| (account.clone(), (**properties).clone())).collect()
    }

    pub(crate) fn insert(&mut self, account: &AccountName, properties: ServiceProperties) {
        self.accounts.insert(account.clone(), Arc::new(properties));
    }

    pub(crate) fn remove(&mut self, account: &AccountName) {
        self.accounts.remove(account);
    }
}
