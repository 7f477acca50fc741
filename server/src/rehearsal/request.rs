//! What the calls to the engine and the layer around the service must know about the request that they belong to.
//!
//! The state is local to the task that handles the request. Other tasks have none, so nothing is rehearsed in them.

use super::Rehearsal;
use std::cell::Cell;

tokio::task_local! {
    static REQUEST: RequestState;
}

#[derive(Debug, Default)]
struct RequestState {
    /// Whether the request is refused as busy. Its first call to the engine decides that for all calls, so a batch
    /// counts as one operation.
    is_busy: Cell<Option<bool>>,
    /// The last change that the request made; `None` if it changed nothing.
    change: Cell<Option<&'static str>>,
}

impl Rehearsal {
    /// Handles a request, and returns its response, or `None` if it changed something and its response is lost.
    pub(crate) async fn follow<T>(&self, handling: impl Future<Output = T>) -> Option<T> {
        let work = async {
            let response = handling.await;
            (response, REQUEST.with(|request| request.change.get()))
        };
        let (response, change) = REQUEST.scope(RequestState::default(), work).await;
        let is_lost = change.is_some_and(|change| self.loses_response(change));
        (!is_lost).then_some(response)
    }

    /// Returns true if the current request is refused as busy.
    pub(super) fn is_busy(&self) -> bool {
        let decide = |request: &RequestState| {
            let is_busy = request.is_busy.get().unwrap_or_else(|| self.refuses_as_busy());
            request.is_busy.set(Some(is_busy));
            is_busy
        };
        REQUEST.try_with(decide).unwrap_or(false)
    }
}

/// Returns true if the current task handles a request.
pub(super) fn is_in_request() -> bool {
    REQUEST.try_with(|_| ()).is_ok()
}

/// Records that the current request changed something.
pub(super) fn note_change(change: &'static str) {
    // Without a request, there is no response to lose.
    let _has_request = REQUEST.try_with(|request| request.change.set(Some(change)));
}
