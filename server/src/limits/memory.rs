//! Memory for the bodies of requests and responses. Memory is acquired as a body arrives and before a response is
//! written, and released when the response has been sent.
//!
//! A request that finds too little free memory waits for a short time, in the order of arrival, and is then refused as
//! "server busy". No account can hold more than half of the memory, and no signature or token more than a quarter. A
//! client whose bodies stall therefore cannot block others.
//!
//! Invariant: a request acquires memory before it uses it, and never after it has written, because "server busy"
//! implies that nothing was written.

use crate::failure::Failure;
use model::AccountName;
use model::limits::{PAGE_BODY_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorCode;

/// The maximum time that a request waits for memory, or for a permit, before it is refused.
pub(crate) const WAIT: Duration = Duration::from_secs(1);
/// Amounts up to this size are not counted, in bytes. A request has only a few of them.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// The memory that the largest request needs, in bytes: for its body and the records made from it. A page needs half
/// of it.
pub(crate) const REQUEST_MEMORY_BYTES_MAX: usize = 2 * PAGE_BODY_BYTES_MAX;
/// The minimum memory for bodies, in bytes: half of it is enough for the largest request.
pub const MEMORY_BYTES_MIN: usize = 2 * REQUEST_MEMORY_BYTES_MAX;
/// The unit in which memory is counted, in bytes. A semaphore has a limited number of permits.
const UNIT_BYTES: usize = 1024;
/// The number of accounts and credentials above which those that hold no memory are dropped from the map.
const HOLDERS_BEFORE_SWEEP: usize = 1024;

const _: () = assert!(2 * REQUEST_BODY_BYTES_MAX <= REQUEST_MEMORY_BYTES_MAX);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// The number of requests refused so far because the limit was reached.
    pub(crate) refused: u64,
}

#[derive(Debug)]
pub(crate) struct BodyMemory {
    all: Arc<Semaphore>,
    units: usize,
    /// What each account, and each credential other than an account key, can still acquire.
    holders: Mutex<HashMap<Holder, Arc<Semaphore>>>,
    hasher: RandomState,
    refused: AtomicU64,
}

/// An account, or one of its signatures or tokens, identified by a hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Holder {
    account: AccountName,
    credential: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct RequestMemory<'s> {
    memory: &'s BodyMemory,
    account: &'s AccountName,
    /// The signature or the principal of a token; `None` for the account's keys.
    credential: Option<&'s str>,
    permit: Mutex<MemoryPermit>,
}

/// Memory that is held; released when dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryPermit {
    /// The permits from the limits of the credential, of the account, and of all memory. Empty if nothing is held.
    permits: Vec<OwnedSemaphorePermit>,
    /// The maximum number of units to which the permit can grow.
    units_max: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(units)),
            units,
            holders: Mutex::default(),
            hasher: RandomState::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns the usage, in bytes.
    pub(crate) fn figures(&self) -> Usage {
        let used = self.units.saturating_sub(self.all.available_permits());
        let bytes = |units| (units * UNIT_BYTES) as u64;
        Usage { used: bytes(used), limit: bytes(self.units), refused: self.refused.load(Ordering::Relaxed) }
    }

    pub(crate) fn for_request<'s>(
        &'s self,
        account: &'s AccountName,
        credential: Option<&'s str>,
    ) -> RequestMemory<'s> {
        RequestMemory { memory: self, account, credential, permit: Mutex::default() }
    }

    fn empty_permit(&self, account: &AccountName, credential: Option<&str>) -> MemoryPermit {
        let least = (REQUEST_MEMORY_BYTES_MAX / UNIT_BYTES).min(self.units);
        let (of_account, of_credential) = ((self.units / 2).max(least), (self.units / 4).max(least));
        let mut holders = self.holders.lock();
        if holders.len() >= HOLDERS_BEFORE_SWEEP {
            // Every request that holds memory or waits for it also has a reference.
            holders.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let mut semaphore = |credential, units| {
            let holder = Holder { account: account.clone(), credential };
            Arc::clone(holders.entry(holder).or_insert_with(|| Arc::new(Semaphore::new(units))))
        };
        let mut semaphores = vec![semaphore(None, of_account), Arc::clone(&self.all)];
        if let Some(credential) = credential {
            // A plus sign in a signature may have arrived as a space.
            let hash = self.hasher.hash_one(credential.replace(' ', "+"));
            semaphores.insert(0, semaphore(Some(hash), of_credential));
        }
        let permits = semaphores.into_iter().filter_map(|semaphore| semaphore.try_acquire_many_owned(0).ok()).collect();
        MemoryPermit { permits, units_max: if credential.is_some() { of_credential } else { of_account } }
    }

    async fn grow(&self, permit: &mut MemoryPermit, units: usize) -> Result<(), Failure> {
        if permit.try_grow(units) {
            return Ok(());
        }
        if tokio::time::timeout(WAIT, permit.grow(units)).await.is_ok() {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Failure::service(ErrorCode::ServerBusy).with_cause(
            "all memory for bodies (--body-mib) is in use, or the share that one account or one credential can hold",
        ))
    }
}

impl RequestMemory<'_> {
    /// Acquires the given additional amount of memory. If the total would exceed the maximum, acquires the maximum.
    pub(crate) async fn acquire(&self, bytes: usize) -> Result<(), Failure> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let mut permit = self.take();
        if permit.permits.is_empty() {
            permit = self.memory.empty_permit(self.account, self.credential);
        }
        let units = permit.units() + bytes.div_ceil(UNIT_BYTES);
        let grown = self.memory.grow(&mut permit, units).await;
        *self.permit.lock() = permit;
        grown
    }

    pub(crate) fn take(&self) -> MemoryPermit {
        mem::take(&mut *self.permit.lock())
    }
}

impl MemoryPermit {
    fn units(&self) -> usize {
        self.permits.last().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Acquires memory up to a total of `units`, if it is free at the moment.
    fn try_grow(&mut self, units: usize) -> bool {
        let missing = self.missing(units);
        let more: Vec<_> = self.permits.iter().map_while(|permit| acquire_free(permit, missing)).collect();
        let is_complete = more.len() == self.permits.len();
        if is_complete {
            self.add(more);
        }
        is_complete
    }

    /// Waits until the permit has the given number of units.
    async fn grow(&mut self, units: usize) {
        let missing = u32::try_from(self.missing(units)).unwrap_or(u32::MAX);
        let mut more = Vec::with_capacity(self.permits.len());
        for permit in &self.permits {
            let acquired = Arc::clone(permit.semaphore()).acquire_many_owned(missing).await;
            more.push(acquired.expect("the semaphores are never closed"));
        }
        self.add(more);
    }

    fn missing(&self, units: usize) -> usize {
        units.min(self.units_max).saturating_sub(self.units())
    }

    fn add(&mut self, more: Vec<OwnedSemaphorePermit>) {
        for (permit, more) in self.permits.iter_mut().zip(more) {
            permit.merge(more);
        }
    }

    /// Releases everything beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.units().saturating_sub(bytes.div_ceil(UNIT_BYTES));
        for permit in &mut self.permits {
            drop(permit.split(excess));
        }
    }
}

fn acquire_free(permit: &OwnedSemaphorePermit, units: usize) -> Option<OwnedSemaphorePermit> {
    Arc::clone(permit.semaphore()).try_acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn account(name: &str) -> AccountName {
        AccountName::new(name).unwrap()
    }

    fn is_busy<T>(result: &Result<T, Failure>) -> bool {
        matches!(result, Err(failure) if failure.error.code == ErrorCode::ServerBusy)
    }

    fn held(memory: &BodyMemory) -> usize {
        usize::try_from(memory.figures().used).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_waited_for_and_then_refused() {
        let (memory, orchard) = (BodyMemory::new(16 * MIB), account("orchard"));
        let (first, second) = (memory.for_request(&orchard, None), memory.for_request(&orchard, None));
        first.acquire(UNCOUNTED_BYTES).await.unwrap();
        assert_eq!(held(&memory), 0, "small amounts are not counted");
        first.acquire(5 * MIB).await.unwrap();
        first.acquire(MIB).await.unwrap();
        assert_eq!(held(&memory), 6 * MIB);
        assert!(is_busy(&second.acquire(3 * MIB).await));
        assert_eq!((held(&memory), memory.figures().refused), (6 * MIB, 1), "a refused request holds nothing more");
        let (waited, permit) = tokio::join!(second.acquire(3 * MIB), async {
            tokio::time::sleep(WAIT / 2).await;
            let mut permit = first.take();
            permit.shrink_to(MIB);
            permit
        });
        waited.unwrap();
        assert_eq!(held(&memory), 4 * MIB);
        drop((permit, first, second));
        assert_eq!(held(&memory), 0);
        let large = memory.for_request(&orchard, None);
        large.acquire(100 * MIB).await.unwrap();
        assert_eq!(held(&memory), 8 * MIB, "more than an account can hold counts as the maximum");
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_and_a_credential_leave_memory_to_others() {
        let (memory, orchard, meadow) = (BodyMemory::new(64 * MIB), account("orchard"), account("meadow"));
        let hold = async |account, credential| {
            let mut all = Vec::new();
            loop {
                let request = memory.for_request(account, credential);
                if request.acquire(4 * MIB).await.is_err() {
                    return all;
                }
                all.push(request);
            }
        };
        let by_signature = hold(&orchard, Some("signature")).await;
        assert_eq!(by_signature.len(), 4, "a signature holds a quarter");
        let by_another = memory.for_request(&orchard, Some("another"));
        by_another.acquire(4 * MIB).await.unwrap();
        let by_key = hold(&orchard, None).await;
        assert_eq!(held(&memory), 32 * MIB, "an account holds half");
        let by_others = hold(&meadow, None).await;
        assert_eq!((by_key.len(), by_others.len()), (3, 8));
        drop((by_signature, by_another, by_key, by_others));
        assert_eq!(held(&memory), 0);
    }

    #[tokio::test]
    async fn holders_that_hold_nothing_are_forgotten() {
        let (memory, orchard) = (BodyMemory::new(64 * MIB), account("orchard"));
        let holder = memory.for_request(&orchard, Some("first"));
        holder.acquire(MIB).await.unwrap();
        for number in 0..3 * HOLDERS_BEFORE_SWEEP {
            memory.for_request(&orchard, Some(&number.to_string())).acquire(MIB).await.unwrap();
        }
        let known = memory.holders.lock();
        assert!(known.len() <= HOLDERS_BEFORE_SWEEP + 2, "{} are known", known.len());
        assert!(
            known.values().any(|semaphore| semaphore.available_permits() == 15 * 1024),
            "the first one must be among them"
        );
    }
}
