//! The quotas of accounts and tables (`docs/throttling.md`).
//!
//! The number of tables is exact. Entities and bytes are counted from time to time (`count.rs`), and certain changes
//! are added in between (`usage.rs`). A quota on entities or bytes is therefore enforced with a margin, and costs two
//! map lookups per write.
//!
//! Invariants:
//!
//! 1. Reads and deletions are never refused.
//! 2. Without a quota, nothing is counted, and no request waits.

mod count;
mod usage;

pub(crate) use count::run;

use crate::accounts::{Accounts, Quota};
use crate::failure::Failure;
use count::CountRecord;
use engine::{CommitError, Engine, TableKey};
use model::{AccountName, Mutation};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::OwnedMutexGuard;
use usage::{AccountUsage, QuotaDecision, TransactionOutcome, UsageChange};
use wire::{ErrorCode, ServiceError};

#[derive(Debug)]
pub(crate) struct Quotas {
    default: Quota,
    counted: Mutex<HashMap<AccountName, CountedUsage>>,
    next: AtomicU64,
    /// The counts that failed since the account was last counted successfully, so that they are not retried without a
    /// pause.
    failed: Mutex<HashMap<AccountName, CountRecord>>,
    /// Only accounts with a quota on tables have a lock.
    creation: Mutex<HashMap<AccountName, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Debug)]
struct CountedUsage {
    /// Changes whenever the usage is replaced, so that a reservation that was added to an earlier usage is not
    /// subtracted from this one.
    number: u64,
    usage: AccountUsage,
    count: CountRecord,
    needs_recount: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AccountQuota<'a> {
    quotas: &'a Quotas,
    quota: Quota,
}

/// The reservation is released only if the transaction certainly changed nothing. If that is not known, for example
/// because the client disconnected, it remains until the account is counted again.
#[derive(Debug)]
#[must_use]
pub(crate) struct QuotaReservation<'a>(Option<ReservedUsage<'a>>);

#[derive(Debug)]
struct ReservedUsage<'a> {
    quotas: &'a Quotas,
    table: &'a TableKey,
    change: UsageChange,
    /// The number of the usage to which the reservation was added; `None` if the account had not been counted yet.
    from: Option<u64>,
}

impl Quotas {
    pub(crate) fn new(default: Quota) -> Self {
        Self {
            default,
            counted: Mutex::default(),
            next: AtomicU64::new(0),
            failed: Mutex::default(),
            creation: Mutex::default(),
        }
    }

    fn quota(&self, accounts: &Accounts, account: &AccountName) -> Quota {
        accounts.quota(account).or(self.default)
    }

    /// Returns the quota of an account, or `None` if it has no limit.
    pub(crate) fn account_quota(&self, accounts: &Accounts, account: &AccountName) -> Option<AccountQuota<'_>> {
        let quota = self.quota(accounts, account);
        (!quota.is_unlimited()).then_some(AccountQuota { quotas: self, quota })
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn creation_lock(&self, account: &AccountName) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.creation.lock().entry(account.clone()).or_default())
    }

    fn is_due(&self, account: &AccountName, now: Instant) -> bool {
        if self.failed.lock().get(account).is_some_and(|failed| !failed.is_due(false, now)) {
            return false;
        }
        self.counted.lock().get(account).is_none_or(|counted| counted.count.is_due(counted.needs_recount, now))
    }

    /// Stores a count. Returns true if it is the account's first.
    fn set(&self, account: &AccountName, usage: AccountUsage, count: CountRecord) -> bool {
        self.failed.lock().remove(account);
        let counted = CountedUsage { number: self.next(), usage, count, needs_recount: false };
        self.counted.lock().insert(account.clone(), counted).is_none()
    }

    fn set_failed(&self, account: &AccountName, count: CountRecord) {
        self.failed.lock().insert(account.clone(), count);
    }

    /// Returns the accounts whose entities or bytes are limited, and discards the usage of all other accounts.
    fn retain_limited(&self, accounts: &Accounts) -> HashSet<AccountName> {
        let names = accounts.all().map(|(account, _)| account);
        let bounded: HashSet<_> = names.filter(|name| self.quota(accounts, name).limits_content()).cloned().collect();
        self.failed.lock().retain(|account, _| bounded.contains(account));
        self.counted.lock().retain(|account, _| bounded.contains(account));
        self.creation.lock().retain(|account, _| accounts.keys(account).is_some());
        bounded
    }

    /// Reserves what a transaction adds, or refuses the transaction. Nothing is refused before the first count of the
    /// account.
    fn reserve<'a>(
        &'a self,
        quota: Quota,
        table: &'a TableKey,
        change: UsageChange,
    ) -> Result<ReservedUsage<'a>, Failure> {
        let mut counted = self.counted.lock();
        let reserved = |from| ReservedUsage { quotas: self, table, change, from };
        let Some(CountedUsage { number, usage, needs_recount, .. }) = counted.get_mut(&table.account) else {
            return Ok(reserved(None));
        };
        match usage.decide(quota, table.name.folded(), &change) {
            QuotaDecision::Allowed => {}
            QuotaDecision::AllowedButRecount => *needs_recount = true,
            QuotaDecision::Refused => {
                *needs_recount |= usage.may_overstate();
                return Err(over_quota());
            }
        }
        usage.reserve(table.name.folded(), &change);
        Ok(reserved(Some(*number)))
    }

    /// Discards the usage of one account or of all accounts. Nothing is refused until they have been counted again.
    pub(crate) fn forget_usage(&self, account: Option<&AccountName>) {
        let is_kept = |of: &AccountName| account.is_some_and(|account| account != of);
        self.failed.lock().retain(|of, _| is_kept(of));
        self.counted.lock().retain(|of, _| is_kept(of));
    }

    fn forget_table(&self, table: &TableKey) {
        if let Some(counted) = self.counted.lock().get_mut(&table.account) {
            counted.usage.forget(table.name.folded());
            counted.number = self.next();
        }
    }
}

impl<'a> AccountQuota<'a> {
    /// Checks that the account may have one more table. The returned lock must be held until the table has been
    /// created. A table that already exists is not counted again.
    pub(crate) async fn admit_table(
        &self,
        engine: &dyn Engine,
        table: &TableKey,
    ) -> Result<Option<OwnedMutexGuard<()>>, Failure> {
        let Some(max) = self.quota.tables else { return Ok(None) };
        let lock = self.quotas.creation_lock(&table.account).lock_owned().await;
        if engine.count_tables(&table.account).await? >= max && engine.table(table).await?.is_none() {
            return Err(over_quota());
        }
        Ok(Some(lock))
    }

    /// Reserves what a transaction adds. Returns `None` if neither entities nor bytes are limited.
    pub(crate) fn reserve<'t>(
        &self,
        table: &'t TableKey,
        mutations: &[Mutation],
    ) -> Result<Option<QuotaReservation<'t>>, Failure>
    where
        'a: 't,
    {
        if !self.quota.limits_content() {
            return Ok(None);
        }
        let reserved = self.quotas.reserve(self.quota, table, UsageChange::from_mutations(mutations))?;
        Ok(Some(QuotaReservation(Some(reserved))))
    }

    pub(crate) fn forget_table(&self, table: &TableKey) {
        self.quotas.forget_table(table);
    }
}

impl QuotaReservation<'_> {
    pub(crate) fn settle<T>(mut self, result: &Result<T, CommitError>) {
        if let Some(reserved) = self.0.take() {
            reserved.settle(match result {
                Ok(_) => TransactionOutcome::Committed,
                Err(error) if error.is_without_effect() => TransactionOutcome::NoEffect,
                Err(_) => TransactionOutcome::Unknown,
            });
        }
    }
}

impl Drop for QuotaReservation<'_> {
    fn drop(&mut self) {
        if let Some(reserved) = self.0.take() {
            reserved.settle(TransactionOutcome::Unknown);
        }
    }
}

impl ReservedUsage<'_> {
    fn settle(self, outcome: TransactionOutcome) {
        let Self { quotas, table, change, from } = self;
        if let Some(counted) = quotas.counted.lock().get_mut(&table.account) {
            // If the account was counted in between, the count may or may not include the transaction.
            let outcome = if from == Some(counted.number) { outcome } else { TransactionOutcome::Unknown };
            counted.usage.settle(table.name.folded(), &change, outcome);
        }
    }
}

/// Returns the failure for an account that is full.
///
/// UNVERIFIED: the error code. This is how the service refuses writes to a read-only account (06 §3).
fn over_quota() -> Failure {
    let message = "Write operations are not allowed.";
    Failure::service(ServiceError::new(ErrorCode::InsufficientAccountPermissions, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::ContentLimit;
    use engine::Fault;
    use model::{Condition, EntityKey, KeyText, MutationError, RecordBuilder, TableName};
    use std::sync::Barrier;
    use std::time::Duration;

    fn table(name: &str) -> TableKey {
        TableKey { account: AccountName::new("orchard").unwrap(), name: TableName::new(name).unwrap() }
    }

    fn inserts(count: usize) -> UsageChange {
        let insert = |row: usize| {
            let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new(&row.to_string()).unwrap() };
            Mutation::Insert { key, properties: RecordBuilder::default() }
        };
        UsageChange::from_mutations(&(0..count).map(insert).collect::<Vec<_>>())
    }

    fn deletion() -> UsageChange {
        let key = EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() };
        UsageChange::from_mutations(&[Mutation::Delete { key, condition: Condition::Any }])
    }

    fn quota(entities: u64) -> Quota {
        Quota { account: ContentLimit { entities: Some(entities), bytes: None }, ..Quota::default() }
    }

    fn count_again(quotas: &Quotas, entities: u64) {
        let usage = AccountUsage::counted(vec![("harvest".into(), usage::ContentSize { entities, bytes: 0 })]);
        quotas.set(&table("harvest").account, usage, CountRecord { at: Instant::now(), took: Duration::ZERO });
    }

    fn counted(entities: u64) -> Quotas {
        let quotas = Quotas::new(Quota::default());
        count_again(&quotas, entities);
        quotas
    }

    fn take<'a>(quotas: &'a Quotas, table: &'a TableKey, change: UsageChange) -> Option<QuotaReservation<'a>> {
        quotas.reserve(quota(1000), table, change).ok().map(|taken| QuotaReservation(Some(taken)))
    }

    #[test]
    fn transactions_that_come_at_the_same_time_have_no_more_room_than_one_after_another() {
        const AT_ONCE: usize = 16;
        let (quotas, harvest, all_have_asked) = (counted(900), table("harvest"), Barrier::new(AT_ONCE));
        let admitted = std::thread::scope(|scope| {
            let ask = || {
                let room = take(&quotas, &harvest, inserts(40));
                // No transaction finishes before all have requested space.
                all_have_asked.wait();
                room.map(|room| room.settle(&Ok(()))).is_some()
            };
            let asking: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|asked| asked.join().unwrap()).filter(|admitted| *admitted).count()
        });
        assert_eq!(admitted, 2);
        assert!(take(&quotas, &harvest, inserts(21)).is_none() && take(&quotas, &harvest, inserts(20)).is_some());
    }

    #[test]
    fn a_reservation_is_released_only_if_the_transaction_changed_nothing() {
        let harvest = table("harvest");
        let refused = |error: CommitError| Err::<(), _>(error);
        for (result, is_given_back) in [
            (Some(Ok(())), false),
            (Some(refused(CommitError::Refused(0, MutationError::AlreadyExists))), true),
            (Some(refused(CommitError::TableNotFound)), true),
            (Some(refused(CommitError::Fault(Fault::Full))), true),
            (Some(refused(CommitError::Fault(Fault::Interrupted))), false),
            (Some(refused(CommitError::Fault(Fault::Unknown("no answer".into())))), false),
            // The client disconnected.
            (None, false),
        ] {
            let quotas = counted(900);
            let room = take(&quotas, &harvest, inserts(100)).unwrap();
            let shown = format!("{result:?}");
            match result {
                Some(result) => room.settle(&result),
                None => drop(room),
            }
            assert_eq!(take(&quotas, &harvest, inserts(100)).is_some(), is_given_back, "{shown}");
        }
    }

    #[test]
    fn accounts_do_not_wait_for_each_other_to_create_tables() {
        let quotas = Quotas::new(Quota::default());
        let lock = |name| quotas.creation_lock(&AccountName::new(name).unwrap()).try_lock_owned();
        let _creating = lock("orchard").unwrap();
        assert!(lock("orchard").is_err() && lock("meadow").is_ok());
    }

    #[test]
    fn the_usage_of_an_account_that_is_gone_refuses_nothing() {
        let (quotas, harvest) = (counted(1000), table("harvest"));
        let is_refused = || take(&quotas, &harvest, inserts(1)).is_none();
        quotas.forget_usage(Some(&AccountName::new("meadow").unwrap()));
        assert!(is_refused());
        quotas.forget_usage(Some(&harvest.account));
        assert!(!is_refused());
        count_again(&quotas, 1000);
        assert!(is_refused());
        quotas.forget_usage(None);
        assert!(!is_refused());
    }

    #[test]
    fn a_count_in_between_is_not_reduced() {
        let harvest = table("harvest");
        let nothing = Err::<(), _>(CommitError::TableNotFound);
        let quotas = counted(900);
        let (inserting, deleting) =
            (take(&quotas, &harvest, inserts(100)).unwrap(), take(&quotas, &harvest, deletion()).unwrap());
        count_again(&quotas, 1000);
        inserting.settle(&nothing);
        deleting.settle(&Ok(()));
        assert!(take(&quotas, &harvest, inserts(1)).is_none());
        assert!(
            quotas.is_due(&harvest.account, Instant::now() + Duration::from_millis(1)),
            "a new count would show the usage"
        );

        // The content of a deleted table is not subtracted twice.
        let (quotas, other) = (counted(900), table("other"));
        let room = take(&quotas, &other, inserts(100)).unwrap();
        quotas.forget_table(&other);
        room.settle(&nothing);
        drop(take(&quotas, &harvest, inserts(100)).unwrap());
        assert!(take(&quotas, &harvest, inserts(1)).is_none());
    }
}
