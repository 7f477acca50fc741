//! How many requests the server works on at one time.
//!
//! Requests beyond the limit wait a little, in the order of their arrival, and are then refused as "server busy".

use super::Usage;
use crate::request::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorCode;

/// How long a request waits for a permit before it is refused.
const WAIT: Duration = Duration::from_secs(1);

/// The permits for requests.
#[derive(Debug)]
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    requests_max: usize,
    refused: AtomicU64,
}

/// Permission for one request to be in work; released when dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(requests_max: usize) -> Self {
        let requests_max = requests_max.min(Semaphore::MAX_PERMITS);
        Self { requests: Arc::new(Semaphore::new(requests_max)), requests_max, refused: AtomicU64::new(0) }
    }

    /// The requests in work.
    pub(crate) fn figures(&self) -> Usage {
        let used = self.requests_max.saturating_sub(self.requests.available_permits());
        Usage { used: used as u64, limit: self.requests_max as u64, refused: self.refused.load(Ordering::Relaxed) }
    }

    /// A permit for a request.
    pub(crate) async fn request(&self) -> Result<RequestPermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned() {
            return Ok(RequestPermit { _permit: permit });
        }
        if let Ok(Ok(permit)) = tokio::time::timeout(WAIT, Arc::clone(&self.requests).acquire_owned()).await {
            return Ok(RequestPermit { _permit: permit });
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Failure::service(ErrorCode::ServerBusy).because("as many requests are in work as --max-requests allows"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_limit_wait_and_are_refused() {
        let admission = Admission::new(1);
        let permit = admission.request().await.unwrap();
        let refused = admission.request().await.unwrap_err();
        assert_eq!(refused.error.code, ErrorCode::ServerBusy);
        let (next, ()) = tokio::join!(admission.request(), async {
            tokio::time::sleep(WAIT / 2).await;
            drop(permit);
        });
        assert!(next.is_ok());
        assert_eq!(admission.figures(), Usage { used: 1, limit: 1, refused: 1 });
        drop(next);
        assert_eq!(admission.figures(), Usage { used: 0, limit: 1, refused: 1 });
    }
}
