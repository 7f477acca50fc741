//! The service properties of all accounts: held in memory by every engine, because each request looks at them.
//!
//! This module must not know where they are kept durably.

use model::{AccountName, ServiceProperties};
use std::collections::HashMap;
use std::sync::Arc;

/// The service properties of the accounts that have set any.
#[derive(Debug, Default)]
pub(crate) struct PropertiesOfAccounts {
    accounts: HashMap<AccountName, Arc<ServiceProperties>>,
    /// What all other accounts have.
    fresh: Arc<ServiceProperties>,
}

impl PropertiesOfAccounts {
    /// The properties of an account.
    pub(crate) fn get(&self, account: &AccountName) -> Arc<ServiceProperties> {
        Arc::clone(self.accounts.get(account).unwrap_or(&self.fresh))
    }

    /// Replaces the properties of an account.
    pub(crate) fn insert(&mut self, account: &AccountName, properties: ServiceProperties) {
        self.accounts.insert(account.clone(), Arc::new(properties));
    }
}
