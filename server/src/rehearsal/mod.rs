//! `--rehearse`: makes the server as awkward as the real service may be (`docs/rehearsing.md`).
//!
//! Invariants:
//!
//! 1. Without the option there is no `Rehearsal`, and nothing on the path of a request refers to one: the server is
//!    started with its own engine instead of a [`RehearsedEngine`], and without the layer around the service
//!    (`rehearsed_service.rs`).
//! 2. Stored data is not affected: once a condition has passed, everything that a program has written is visible.
//! 3. Every sequence of pages is finite and contains the same entities as without the option.
//! 4. All random decisions come from one seed, with a separate sequence for each condition. The same requests in the
//!    same order therefore meet the same conditions.
//! 5. Only calls to the engine from within [`Rehearsal::follow`] are affected. Background work, such as counting for
//!    quotas, is not.
//!
//! Code in this folder must not depend on HTTP, on formats, or on where its settings come from.

mod pages;
mod pending;
mod rehearsed_engine;
mod settings;

pub(crate) use rehearsed_engine::RehearsedEngine;
pub use settings::{RehearsalError, RehearsalSettings};

use crate::clock;
use engine::TableKey;
use fastrand::Rng;
use model::{AccountName, Clock, ServiceProperties, StoredAccessPolicies};
use parking_lot::Mutex;
use pending::PendingChanges;
use settings::Share;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use tracing::{debug, warn};

#[derive(Debug)]
pub(crate) struct Rehearsal {
    settings: RehearsalSettings,
    seed: u64,
    clock: Arc<dyn Clock>,
    busy: Chance,
    lost_responses: Chance,
    latency: Chance,
    empty_pages: Chance,
    short_pages: Chance,
    creations: PendingChanges<(AccountName, String), ()>,
    deletions: PendingChanges<(AccountName, String), ()>,
    properties: PendingChanges<AccountName, Arc<ServiceProperties>>,
    policies: PendingChanges<(AccountName, String), StoredAccessPolicies>,
}

#[derive(Debug)]
struct Chance(Mutex<Rng>);

impl Chance {
    fn hits(&self, share: Share) -> bool {
        !share.is_none() && share.includes(self.draw(|rng| rng.u32(..)))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.0.lock())
    }
}

impl Rehearsal {
    pub(crate) fn start(settings: RehearsalSettings, clock: Arc<dyn Clock>) -> Self {
        let seed = settings.seed();
        if settings.rehearses_anything() {
            warn!(
                "rehearsing the conditions of the cloud: requests fail, wait and get incomplete pages: {settings}, seed={seed} \
                 (use the same seed to repeat it)"
            );
        }
        let mut rng = Rng::with_seed(seed);
        let mut chance = || Chance(Mutex::new(rng.fork()));
        Self {
            seed,
            clock,
            busy: chance(),
            lost_responses: chance(),
            latency: chance(),
            empty_pages: chance(),
            short_pages: chance(),
            creations: PendingChanges::new(settings.creation),
            deletions: PendingChanges::new(settings.deletion),
            properties: PendingChanges::new(settings.properties),
            policies: PendingChanges::new(settings.policies),
            settings,
        }
    }

    /// Discards the changes of one account or of all accounts that are not in effect yet, because the data of these
    /// accounts has been replaced.
    pub(crate) fn forget_changes(&self, account: Option<&AccountName>) {
        let is_gone = |of: &AccountName| account.is_none_or(|account| account == of);
        self.creations.forget_where(|(of, _)| is_gone(of));
        self.deletions.forget_where(|(of, _)| is_gone(of));
        self.properties.forget_where(is_gone);
        self.policies.forget_where(|(of, _)| is_gone(of));
    }

    /// Simulates the latency of a request, and returns the instant at which it arrives.
    pub(crate) async fn delay(&self, sent: Instant) -> Instant {
        let Some((least, most)) = self.settings.latency else { return sent };
        let part = self.latency.draw(Rng::f64);
        tokio::time::sleep(least + most.saturating_sub(least).mul_f64(part)).await;
        clock::instant()
    }

    fn refuses_as_busy(&self) -> bool {
        let is_busy = self.busy.hits(self.settings.busy);
        if is_busy {
            debug!(target: LOG, "refused a request as busy");
        }
        is_busy
    }

    fn refuses_as_new(&self, table: &TableKey) -> bool {
        let is_new = self.creations.effective_before(&key(table), self.clock.now()).is_some();
        if is_new {
            debug!(target: LOG, table = %table.name, "refused a request as busy because the table is new");
        }
        is_new
    }

    fn loses_response(&self, change: &str) -> bool {
        let is_lost = self.lost_responses.hits(self.settings.lost_responses);
        if is_lost {
            debug!(target: LOG, change, "the write is committed, but its response is lost");
        }
        is_lost
    }
}

const LOG: &str = "rowhouse::rehearsal";

fn key(table: &TableKey) -> (AccountName, String) {
    (table.account.clone(), table.name.folded().to_owned())
}

// What the calls to the engine and the layer around the service know about the request that they belong to. Other tasks
// than the one that handles the request know nothing, so nothing is rehearsed in them.
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
    fn is_busy(&self) -> bool {
        let decide = |request: &RequestState| {
            let is_busy = request.is_busy.get().unwrap_or_else(|| self.refuses_as_busy());
            request.is_busy.set(Some(is_busy));
            is_busy
        };
        REQUEST.try_with(decide).unwrap_or(false)
    }
}

/// Returns true if the current task handles a request.
fn is_in_request() -> bool {
    REQUEST.try_with(|_| ()).is_ok()
}

/// Records that the current request changed something.
fn note_change(change: &'static str) {
    // Without a request, there is no response to lose.
    let _has_request = REQUEST.try_with(|request| request.change.set(Some(change)));
}
