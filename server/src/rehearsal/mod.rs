//! `--rehearse`: the server is as awkward as the real service may be (`docs/rehearsing.md`).
//!
//! The request path asks a [`Rehearsal`] at few places: before a request is looked at ([`Rehearsal::delay`]), before its operation
//! is run ([`Rehearsal::admit`]), after it was run ([`Rehearsal::loses_answer`]), and where tables, pages and settings are read and
//! written (`AccountTables`, and the credential of a stored access policy).
//!
//! Invariants:
//!
//! 1. Without the option there is no `Rehearsal`, and each of these places costs one look at an empty `Option`.
//! 2. Nothing that is stored differs: what a program has written is there once the condition has passed.
//! 3. Every sequence of pages ends, and has the entities that it would have without the option.
//! 4. All chances come from one seed, each condition with a sequence of its own, so the same requests in the same order meet the
//!    same conditions.
//!
//! This folder must not know HTTP, formats, or where its settings come from.

mod pages;
mod pending;
mod settings;

pub use settings::{RehearsalError, RehearsalSettings};

use crate::clock;
use crate::request::Failure;
use fastrand::Rng;
use model::{AccountName, Clock, ServiceProperties, StoredAccessPolicies};
use pending::PendingChanges;
use settings::Share;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store::TableKey;
use tracing::{debug, warn};
use wire::ErrorCode;

/// The conditions that are rehearsed, and what they have to remember.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    settings: RehearsalSettings,
    seed: u64,
    clock: Arc<dyn Clock>,
    busy: Chance,
    lost_answers: Chance,
    latency: Chance,
    empty_pages: Chance,
    short_pages: Chance,
    /// Tables that are being deleted.
    deletions: PendingChanges<(AccountName, String), ()>,
    /// Service properties, and those that are in effect until then.
    properties: PendingChanges<AccountName, Arc<ServiceProperties>>,
    /// Stored access policies, and those that are in effect until then.
    policies: PendingChanges<(AccountName, String), StoredAccessPolicies>,
}

/// The chances of one condition, in the order in which requests meet it.
#[derive(Debug)]
struct Chance(Mutex<Rng>);

impl Chance {
    fn hits(&self, share: Share) -> bool {
        !share.is_none() && share.includes(self.draw(|rng| rng.u32(..)))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        // No draw can panic half-way.
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rehearsal {
    /// Begins to rehearse, and says so in the log, with the seed that repeats it.
    pub(crate) fn start(settings: RehearsalSettings, clock: Arc<dyn Clock>) -> Self {
        let seed = settings.seed();
        warn!(
            "rehearsing the conditions of the cloud, so requests fail, wait and get less than a page: {settings}, seed={seed} \
             (the same seed repeats it)"
        );
        let mut rng = Rng::with_seed(seed);
        let mut chance = || Chance(Mutex::new(rng.fork()));
        Self {
            seed,
            clock,
            busy: chance(),
            lost_answers: chance(),
            latency: chance(),
            empty_pages: chance(),
            short_pages: chance(),
            deletions: PendingChanges::new(settings.deletion),
            properties: PendingChanges::new(settings.properties),
            policies: PendingChanges::new(settings.policies),
            settings,
        }
    }

    /// Forgets the changes that are not in effect yet, of one account or of all, because its data are those of another time.
    pub(crate) fn forget_changes(&self, account: Option<&AccountName>) {
        let is_gone = |of: &AccountName| account.is_none_or(|account| account == of);
        self.deletions.forget_where(|(of, _)| is_gone(of));
        self.properties.forget_where(is_gone);
        self.policies.forget_where(|(of, _)| is_gone(of));
    }

    /// Waits as long as the request is on its way, and returns when it arrives.
    pub(crate) async fn delay(&self, sent: Instant) -> Instant {
        let Some((least, most)) = self.settings.latency else { return sent };
        let part = self.latency.draw(Rng::f64);
        tokio::time::sleep(least + most.saturating_sub(least).mul_f64(part)).await;
        clock::instant()
    }

    /// Admits an operation, or refuses it as "server busy". Nothing of it was done.
    pub(crate) fn admit(&self) -> Result<(), Failure> {
        if self.busy.hits(self.settings.busy) {
            debug!(target: LOG, "a request is refused as busy");
            return Err(Failure::service(ErrorCode::ServerBusy));
        }
        Ok(())
    }

    /// Whether the response to a write that was committed is lost.
    pub(crate) fn loses_answer(&self, operation: &str) -> bool {
        let is_lost = self.lost_answers.hits(self.settings.lost_answers);
        if is_lost {
            debug!(target: LOG, operation, "the write is committed, and its response is lost");
        }
        is_lost
    }

    /// Remembers that a table was deleted.
    pub(crate) fn note_deletion(&self, table: &TableKey) {
        self.deletions.add(key(table), (), self.clock.now());
        // The policies go with the table, at once.
        self.policies.forget(&key(table));
    }

    /// Refuses to create a table whose name is still that of a deleted one.
    pub(crate) fn check_creation(&self, table: &TableKey) -> Result<(), Failure> {
        match self.deletions.until_effect(&key(table), self.clock.now()) {
            Some(()) => Err(Failure::service(ErrorCode::TableBeingDeleted)),
            None => Ok(()),
        }
    }

    /// Keeps the properties of an account in effect that are about to be replaced.
    pub(crate) fn note_properties(&self, account: &AccountName, current: Arc<ServiceProperties>) {
        self.properties.add(account.clone(), current, self.clock.now());
    }

    /// The properties of an account that are still in effect although others are stored; `None` if the stored ones are.
    pub(crate) fn earlier_properties(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        self.properties.until_effect(account, self.clock.now())
    }

    /// Whether policies take effect later than they are set.
    pub(crate) fn delays_policies(&self) -> bool {
        !self.settings.policies.is_zero()
    }

    /// Keeps the policies of a table in effect that are about to be replaced.
    pub(crate) fn note_policies(&self, table: &TableKey, current: StoredAccessPolicies) {
        self.policies.add(key(table), current, self.clock.now());
    }

    /// The policies of a table that are still in effect although others are stored; `None` if the stored ones are.
    pub(crate) fn earlier_policies(&self, table: &TableKey) -> Option<StoredAccessPolicies> {
        self.policies.until_effect(&key(table), self.clock.now())
    }
}

/// The target of the log events that say what was done to which request.
const LOG: &str = "rowhouse::rehearsal";

fn key(table: &TableKey) -> (AccountName, String) {
    (table.account.clone(), table.name.folded().to_owned())
}
