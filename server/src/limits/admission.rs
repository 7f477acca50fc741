//! Limits the number of requests in flight.
//!
//! Requests beyond the limit wait for a short time, in the order of their arrival, and are then refused as "server
//! busy". Long requests (queries and batches) of one account can hold at most half of the permits, so slow queries of
//! one account do not block other accounts.

use crate::failure::Failure;
use crate::limits::memory::{Usage, WAIT};
use model::AccountName;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorCode;

/// The number of groups of accounts. Counting by group instead of by account avoids a lock. Two accounts in the same
/// group share half of the permits.
const GROUPS: usize = 256;

#[derive(Debug)]
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    groups: Vec<Arc<Semaphore>>,
    hasher: RandomState,
    requests_max: usize,
    refused: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct RequestPermit {
    _of_group: Option<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(requests_max: usize) -> Self {
        let requests_max = requests_max.min(Semaphore::MAX_PERMITS);
        let of_group = requests_max.div_ceil(2);
        Self {
            requests: Arc::new(Semaphore::new(requests_max)),
            groups: (0..GROUPS).map(|_| Arc::new(Semaphore::new(of_group))).collect(),
            hasher: RandomState::new(),
            requests_max,
            refused: AtomicU64::new(0),
        }
    }

    pub(crate) fn figures(&self) -> Usage {
        let used = self.requests_max.saturating_sub(self.requests.available_permits());
        Usage { used: used as u64, limit: self.requests_max as u64, refused: self.refused.load(Ordering::Relaxed) }
    }

    /// Only long requests pass their account.
    pub(crate) async fn request(&self, account: Option<&AccountName>) -> Result<RequestPermit, Failure> {
        let group = account.and_then(|account| self.group(account));
        if group.is_none()
            && let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned()
        {
            return Ok(RequestPermit { _of_group: None, _permit: permit });
        }
        let permit = async {
            let of_group = match group {
                Some(group) => Some(acquire(group).await),
                None => None,
            };
            RequestPermit { _of_group: of_group, _permit: acquire(&self.requests).await }
        };
        if let Ok(permit) = tokio::time::timeout(WAIT, permit).await {
            return Ok(permit);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Failure::service(ErrorCode::ServerBusy).with_cause(
            "too many requests are in flight (--max-requests), or too many queries and batches of the account (half of that limit)",
        ))
    }

    fn group(&self, account: &AccountName) -> Option<&Arc<Semaphore>> {
        let group = usize::try_from(self.hasher.hash_one(account) % GROUPS as u64).unwrap_or_default();
        self.groups.get(group)
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore).acquire_owned().await.expect("the semaphores are never closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_limit_wait_and_are_refused() {
        let admission = Admission::new(1);
        let permit = admission.request(None).await.unwrap();
        let refused = admission.request(None).await.unwrap_err();
        assert_eq!(refused.error.code, ErrorCode::ServerBusy);
        let (next, ()) = tokio::join!(admission.request(None), async {
            tokio::time::sleep(WAIT / 2).await;
            drop(permit);
        });
        assert!(next.is_ok());
        assert_eq!(admission.figures(), Usage { used: 1, limit: 1, refused: 1 });
        drop(next);
        assert_eq!(admission.figures(), Usage { used: 0, limit: 1, refused: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn long_requests_of_an_account_leave_half_to_others() {
        let admission = Admission::new(4);
        let [one, other] = ["account1", "account2"].map(|name| AccountName::new(name).unwrap());
        let held = [admission.request(Some(&one)).await.unwrap(), admission.request(Some(&one)).await.unwrap()];
        assert!(admission.request(Some(&one)).await.is_err());
        let is_same_group = Arc::ptr_eq(admission.group(&one).unwrap(), admission.group(&other).unwrap());
        assert_eq!(admission.request(Some(&other)).await.is_ok(), !is_same_group);
        assert!(admission.request(None).await.is_ok());
        drop(held);
        assert!(admission.request(Some(&one)).await.is_ok());
    }
}
