//! Counters for each account and each table, bounded in number.
//!
//! Accounts and tables beyond the bounds are counted under [`OTHER`]; for tables, only successful requests are counted
//! there. A table gets its counters with its first successful request, and loses them when it is deleted or has not
//! been used for a day. Nonexistent tables, and accounts that this server does not have, get no counters, so no client
//! can fill the page with made-up names.
//!
//! Each thread has a small cache of counters. Only tables that are not in the cache are looked up under a lock.

use crate::request::OperationKind;
use crate::telemetry::summary::{Outcome, RequestSummary};
use model::AccountName;
use model::limits::{METRICS_ACCOUNTS_MAX, METRICS_TABLE_IDLE_SECONDS_MAX, METRICS_TABLES_MAX};
use parking_lot::RwLock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::ErrorCode;

/// The label of everything beyond the bounds. No account and no table can have this name.
pub(super) const OTHER: &str = "(other)";
pub(super) const OUTCOMES: [&str; 5] = ["success", "client_error", "throttled", "server_error", "aborted"];
const CACHED: usize = 32;

#[derive(Debug, Default)]
pub(super) struct RequestCounters {
    pub(super) outcomes: [AtomicU64; OUTCOMES.len()],
    pub(super) request_bytes: AtomicU64,
    pub(super) response_bytes: AtomicU64,
}

impl RequestCounters {
    fn count(&self, summary: &RequestSummary<'_>) {
        super::add(self.outcomes.get(outcome(summary.outcome)), 1);
        super::add(Some(&self.request_bytes), summary.request_bytes);
        super::add(Some(&self.response_bytes), summary.response_bytes);
    }
}

/// The counters of a table of an account, or, with an empty name, of the account itself.
#[derive(Debug)]
pub(super) struct TableCounters {
    owner: u64,
    pub(super) account: AccountName,
    /// The name in lower case, because table names are case-insensitive.
    pub(super) table: Box<str>,
    pub(super) counters: RequestCounters,
    account_counters: Arc<RequestCounters>,
    is_gone: AtomicBool,
    used_at: AtomicU64,
}

#[derive(Debug)]
pub(super) struct ByTable {
    /// Distinguishes servers in one process, as in tests.
    id: u64,
    has_tables: bool,
    known: RwLock<CountersByName>,
    other_tables: RequestCounters,
}

#[derive(Debug, Default)]
struct CountersByName {
    accounts: BTreeMap<AccountName, Arc<RequestCounters>>,
    other_accounts: Arc<RequestCounters>,
    entries: BTreeMap<AccountName, BTreeMap<Box<str>, Arc<TableCounters>>>,
    tables: usize,
}

thread_local! {
    static CACHE: RefCell<[Option<Arc<TableCounters>>; CACHED]> = const { RefCell::new([const { None }; CACHED]) };
}

impl ByTable {
    pub(super) fn new(has_tables: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, has_tables, known: RwLock::default(), other_tables: RequestCounters::default() }
    }

    pub(super) fn count(&self, summary: &RequestSummary<'_>) {
        let Some(account) = summary.account else { return };
        let table = summary.table.filter(|_| self.has_tables).unwrap_or_default();
        let now = seconds(summary.began_at);
        let slot = slot(account, table);
        let is_counted = CACHE.with_borrow(|cache| {
            let cached = cache.get(slot).and_then(Option::as_ref).filter(|entry| entry.is(self.id, account, table));
            cached.inspect(|entry| entry.count(summary, now)).is_some()
        });
        if !is_counted {
            self.count_slowly(summary, account, table, now, slot);
        }
        let is_gone = summary.operation == OperationKind::DeleteTable && summary.outcome.code().is_none()
            || summary.outcome.code() == Some(ErrorCode::TableNotFound);
        if is_gone && !table.is_empty() {
            self.forget(account, table);
        }
    }

    #[cold]
    fn count_slowly(&self, summary: &RequestSummary<'_>, account: &AccountName, table: &str, now: u64, slot: usize) {
        let folded = table.to_ascii_lowercase();
        let (mut found, has_room) = {
            let known = self.known.read();
            (known.find(account, &folded), known.has_room(&folded))
        };
        // A name without counters may be made up; a success shows that the table exists.
        if found.is_none() && (table.is_empty() || is_success(summary.outcome)) {
            if has_room {
                found = self.known.write().add(self.id, account, &folded, now);
            }
            if found.is_none() {
                self.other_tables.count(summary);
            }
        }
        let Some(entry) = found else {
            // There is always room for the account.
            return self.count_slowly(summary, account, "", now, self::slot(account, ""));
        };
        entry.count(summary, now);
        CACHE.with_borrow_mut(|cache| {
            if let Some(cached) = cache.get_mut(slot) {
                *cached = Some(entry);
            }
        });
    }

    fn forget(&self, account: &AccountName, table: &str) {
        let folded = table.to_ascii_lowercase();
        if self.known.read().find(account, &folded).is_some() {
            self.known.write().remove(account, &folded);
        }
    }

    pub(super) fn evict_idle(&self, now: SystemTime) {
        let oldest = seconds(now).saturating_sub(METRICS_TABLE_IDLE_SECONDS_MAX);
        let mut known = self.known.write();
        let idle: Vec<_> = known
            .entries
            .values()
            .flat_map(BTreeMap::values)
            .filter(|entry| !entry.table.is_empty() && entry.used_at.load(Ordering::Relaxed) < oldest)
            .cloned()
            .collect();
        for entry in idle {
            known.remove(&entry.account, &entry.table);
        }
    }

    /// The last entry combines the accounts beyond the bound.
    pub(super) fn accounts(&self) -> Vec<(String, Arc<RequestCounters>)> {
        let known = self.known.read();
        let named = known.accounts.iter().map(|(name, counters)| (name.to_string(), Arc::clone(counters)));
        let other = (OTHER.to_owned(), Arc::clone(&known.other_accounts));
        named.chain(Some(other).filter(|(_, counters)| !counters.are_zero())).collect()
    }

    pub(super) fn tables(&self) -> Vec<Arc<TableCounters>> {
        let known = self.known.read();
        let entries = known.entries.values().flat_map(BTreeMap::values);
        entries.filter(|entry| !entry.table.is_empty()).cloned().collect()
    }

    pub(super) fn other_tables(&self) -> Option<&RequestCounters> {
        Some(&self.other_tables).filter(|counters| !counters.are_zero())
    }
}

impl RequestCounters {
    fn are_zero(&self) -> bool {
        self.outcomes.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

impl TableCounters {
    fn is(&self, owner: u64, account: &AccountName, table: &str) -> bool {
        self.owner == owner
            && self.account == *account
            && self.table.eq_ignore_ascii_case(table)
            && !self.is_gone.load(Ordering::Relaxed)
    }

    fn count(&self, summary: &RequestSummary<'_>, now: u64) {
        self.account_counters.count(summary);
        if !self.table.is_empty() {
            self.counters.count(summary);
        }
        if self.used_at.load(Ordering::Relaxed) != now {
            self.used_at.store(now, Ordering::Relaxed);
        }
    }
}

impl CountersByName {
    fn find(&self, account: &AccountName, folded: &str) -> Option<Arc<TableCounters>> {
        self.entries.get(account)?.get(folded).cloned()
    }

    /// Returns true if there is room for one more table. There is always room for an account.
    fn has_room(&self, folded: &str) -> bool {
        folded.is_empty() || self.tables < METRICS_TABLES_MAX
    }

    /// Adds a table, or an account if the name is empty. Returns `None` if there is no room for another table.
    fn add(&mut self, owner: u64, account: &AccountName, folded: &str, now: u64) -> Option<Arc<TableCounters>> {
        if let Some(entry) = self.find(account, folded) {
            return Some(entry);
        }
        if !self.has_room(folded) {
            return None;
        }
        let account_counters = match self.accounts.get(account) {
            Some(counters) => Arc::clone(counters),
            None if self.accounts.len() >= METRICS_ACCOUNTS_MAX => Arc::clone(&self.other_accounts),
            None => Arc::clone(self.accounts.entry(account.clone()).or_default()),
        };
        let entry = Arc::new(TableCounters {
            owner,
            account: account.clone(),
            table: folded.into(),
            counters: RequestCounters::default(),
            account_counters,
            is_gone: AtomicBool::new(false),
            used_at: AtomicU64::new(now),
        });
        self.tables += usize::from(!folded.is_empty());
        self.entries.entry(account.clone()).or_default().insert(folded.into(), Arc::clone(&entry));
        Some(entry)
    }

    fn remove(&mut self, account: &AccountName, folded: &str) {
        if let Some(entry) = self.entries.get_mut(account).and_then(|tables| tables.remove(folded)) {
            // Threads may still have it in their caches.
            entry.is_gone.store(true, Ordering::Relaxed);
            self.tables -= 1;
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn is_success(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Responded { code: None, .. })
}

fn outcome(outcome: Outcome) -> usize {
    match outcome {
        // Clients create a table to be sure that it exists. If it does, nothing went wrong.
        Outcome::Responded { code: None | Some(ErrorCode::TableAlreadyExists), .. } => 0,
        Outcome::Responded { code: Some(ErrorCode::ServerBusy), .. } => 2,
        Outcome::Responded { code: Some(code), .. } if code.status() < 500 => 1,
        Outcome::Responded { code: Some(_), .. } => 3,
        Outcome::Aborted => 4,
    }
}

/// Returns the index in the cache of a thread (FNV-1a over the names).
fn slot(account: &AccountName, table: &str) -> usize {
    let bytes = account.as_str().bytes().chain([b'/']).chain(table.bytes().map(|byte| byte.to_ascii_lowercase()));
    let hash = bytes
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    usize::try_from(hash >> 32).unwrap_or(0) % CACHED
}
