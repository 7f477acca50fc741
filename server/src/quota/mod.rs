//! How much an account and a table may keep (`docs/throttling.md`).
//!
//! The number of tables is exact. Entities and bytes are counted now and then, and what is known for sure is added in
//! between (`usage.rs`), so a quota is kept within a margin and costs a write nothing but a look at a map.
//!
//! Invariants:
//!
//! 1. Reads and deletions are never refused.
//! 2. Without a quota nothing is counted and nobody waits.

mod count;
mod limits;
mod usage;

pub(crate) use count::run;
pub(crate) use limits::{Quota, QuotaArgs, QuotaSection};

use crate::accounts::Accounts;
use crate::call::Call;
use crate::failure::Failure;
use count::Count;
use model::{AccountName, Mutation};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use store::{Engine, TableKey, TablePages};
use usage::{AccountUsage, Growth, Verdict};
use wire::{ErrorCode, ServiceError};

/// The quotas of all accounts, and what is known of what they keep.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// What an account may keep that has no quota of its own.
    default: Quota,
    counted: Mutex<HashMap<AccountName, Counted>>,
    /// The counts that failed since the account was counted last, so that they are not repeated without a pause.
    failed: Mutex<HashMap<AccountName, Count>>,
    /// Whoever creates a table of an account with a quota on tables.
    creation: tokio::sync::Mutex<()>,
}

/// What is known of an account.
#[derive(Debug)]
struct Counted {
    usage: AccountUsage,
    count: Count,
    is_doubtful: bool,
}

/// The quota that a request is held to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    quotas: &'a Quotas,
    quota: Quota,
}

/// A transaction that may happen, until it has.
#[derive(Debug)]
#[must_use]
pub(crate) struct Planned<'a>(Option<(&'a Quotas, &'a TableKey, Growth)>);

impl Quotas {
    /// Nothing is known yet.
    pub(crate) fn new(default: Quota) -> Self {
        Self { default, counted: Mutex::default(), failed: Mutex::default(), creation: tokio::sync::Mutex::default() }
    }

    /// The quota of an account.
    fn of(&self, accounts: &Accounts, account: &AccountName) -> Quota {
        accounts.quota(account).or(self.default)
    }

    /// What a request to an account is held to; `None` if it may keep whatever it wants.
    pub(crate) fn hold(&self, accounts: &Accounts, account: &AccountName) -> Option<Held<'_>> {
        let quota = self.of(accounts, account);
        (!quota.is_none()).then_some(Held { quotas: self, quota })
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<AccountName, Counted>> {
        // Nothing that is done to it can panic half-way.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<AccountName, Count>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to count what an account keeps.
    fn is_due(&self, account: &AccountName, now: Instant) -> bool {
        if self.failed().get(account).is_some_and(|failed| !failed.is_due(false, now)) {
            return false;
        }
        self.counted().get(account).is_none_or(|counted| counted.count.is_due(counted.is_doubtful, now))
    }

    /// Takes what was counted; answers whether it is the first time.
    fn set(&self, account: &AccountName, usage: AccountUsage, count: Count) -> bool {
        self.failed().remove(account);
        self.counted().insert(account.clone(), Counted { usage, count, is_doubtful: false }).is_none()
    }

    /// Remembers that counting failed.
    fn set_failed(&self, account: &AccountName, count: Count) {
        self.failed().insert(account.clone(), count);
    }

    /// Forgets an account without a quota on what it keeps.
    fn forget(&self, account: &AccountName) {
        self.failed().remove(account);
        self.counted().remove(account);
    }

    /// Forgets the accounts that this server no longer has.
    fn forget_others(&self, accounts: &Accounts) {
        self.failed().retain(|account, _| accounts.keys(account).is_some());
        self.counted().retain(|account, _| accounts.keys(account).is_some());
    }

    /// Refuses a transaction that an account has no room for. Until it was counted for the first time there is room.
    fn check(&self, quota: Quota, table: &TableKey, growth: &Growth) -> Result<(), Failure> {
        let mut counted = self.counted();
        let Some(Counted { usage, is_doubtful, .. }) = counted.get_mut(&table.account) else { return Ok(()) };
        match usage.verdict(quota, table.name.folded(), growth) {
            Verdict::Allowed => Ok(()),
            Verdict::AllowedAndDoubtful => {
                *is_doubtful = true;
                Ok(())
            }
            Verdict::Refused => {
                *is_doubtful |= usage.may_be_less();
                Err(over_quota())
            }
        }
    }
}

impl Call<'_> {
    /// Makes sure that the account may have one more table, and that it stays so as long as the answer is kept. One that
    /// exists already is not one more.
    pub(crate) async fn admit_table(
        &self,
        engine: &impl Engine,
        table: &TableKey,
    ) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>, Failure> {
        let Some(Held { quotas, quota: Quota { tables: Some(max), .. } }) = self.quota else { return Ok(None) };
        let turn = quotas.creation.lock().await;
        let mut count = 0;
        let mut pages = TablePages::new(engine, &table.account, String::new());
        while count < max
            && let Some(listed) = pages.next().await?
        {
            count += listed.len() as u64;
        }
        if count >= max && engine.table(table).await?.is_none() {
            return Err(over_quota());
        }
        Ok(Some(turn))
    }

    /// Makes sure that there is room for what a transaction does.
    pub(crate) fn plan<'t>(&self, table: &'t TableKey, mutations: &[Mutation]) -> Result<Planned<'t>, Failure>
    where
        Self: 't,
    {
        let Some(Held { quotas, quota }) = self.quota else { return Ok(Planned(None)) };
        if !quota.is_of_content() || table.name.is_of_metrics() {
            return Ok(Planned(None));
        }
        let growth = Growth::of(mutations);
        quotas.check(quota, table, &growth)?;
        Ok(Planned(Some((quotas, table, growth))))
    }

    /// Says that a table is gone.
    pub(crate) fn table_is_gone(&self, table: &TableKey) {
        if let Some(Held { quotas, .. }) = self.quota
            && let Some(counted) = quotas.counted().get_mut(&table.account)
        {
            counted.usage.forget(table.name.folded());
        }
    }
}

impl Planned<'_> {
    /// Says that the transaction happened.
    pub(crate) fn happened(self) {
        if let Some((quotas, table, growth)) = self.0
            && let Some(counted) = quotas.counted().get_mut(&table.account)
        {
            counted.usage.grow(table.name.folded(), &growth);
        }
    }
}

/// UNVERIFIED: what the service answers when an account is full. This is how it refuses writes to an account that may
/// only be read (06 §3).
fn over_quota() -> Failure {
    let message = "Write operations are not allowed.";
    Failure::service(ServiceError::new(ErrorCode::InsufficientAccountPermissions, message))
}
