//! The controls with which a test changes a server that keeps its data in memory: snapshots that it can restore,
//! its own accounts, and a clock that it can move.
//!
//! Invariants:
//!
//! 1. The controls exist only if the settings enable them.
//! 2. Changes are serialized, so a reset and a new account never interleave.
//! 3. What a test can add is bounded: there is a maximum number of accounts and of snapshots.
//!
//! Code in this folder must not depend on HTTP: `admin/` reads the requests.

mod clock;
mod data;

pub use clock::TestClock;
pub use data::TestData;

use crate::accounts::{Accounts, random_key};
use crate::reload::Live;
use engine::{MemoryCheckpoint, MemoryCheckpoints};
use model::limits::{TEST_ACCOUNTS_MAX, TEST_SNAPSHOTS_MAX};
use model::{AccountName, DateTime};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The parts of the program that the test controls need.
#[derive(Debug, Clone)]
pub struct TestControlSettings {
    /// The checkpoints of the engine.
    pub engine: MemoryCheckpoints,
    /// Scheme, host and port of the service.
    pub endpoint: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlError {
    Invalid(String),
    NotFound(String),
    Conflict(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestAccount {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) endpoint: String,
}

/// A change of the clock. The fields that are set are applied in order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ClockChange {
    pub(crate) is_system: bool,
    /// The time to set. The clock then stops at this time.
    pub(crate) now: Option<DateTime>,
    pub(crate) advance: Option<Duration>,
    pub(crate) stopped: Option<bool>,
}

pub(crate) struct TestControls {
    endpoint: String,
    data: TestData,
    accounts: Arc<Live<Accounts>>,
    initial: (MemoryCheckpoint, Arc<Accounts>),
    state: Mutex<TestState>,
}

#[derive(Debug, Default)]
struct TestState {
    accounts: BTreeSet<AccountName>,
    snapshots: BTreeMap<u64, MemoryCheckpoint>,
    /// Names of accounts and snapshots are not reused.
    last_account: u64,
    last_snapshot: u64,
}

impl fmt::Debug for TestControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestControls").field("data", &self.data).finish_non_exhaustive()
    }
}

impl TestControls {
    /// Creates the controls of a server that is about to become ready. A reset returns the server to the state that it
    /// has now.
    pub(crate) fn new(endpoint: String, data: TestData, accounts: Arc<Live<Accounts>>) -> Self {
        let initial = (data.take(), accounts.current());
        Self { endpoint, data, accounts, initial, state: Mutex::default() }
    }

    pub(crate) fn clock(&self) -> (DateTime, bool) {
        let clock = &self.data.clock;
        (DateTime::from_system_time(clock.now()), clock.is_stopped())
    }

    pub(crate) fn change_clock(&self, change: ClockChange) {
        let _one_by_one = self.state.lock();
        let clock = &self.data.clock;
        if change.is_system {
            clock.reset();
        }
        if let Some(now) = change.now {
            clock.set(now.to_system_time());
        }
        if let Some(duration) = change.advance {
            clock.advance(duration);
        }
        match change.stopped {
            Some(true) => clock.pause(),
            Some(false) => clock.resume(),
            None => {}
        }
    }

    /// Adds an account without data, with the given name or with a name that no account has had before.
    pub(crate) fn add_account(&self, name: Option<&str>) -> Result<TestAccount, ControlError> {
        let mut state = self.state.lock();
        let accounts = self.accounts.current();
        if state.accounts.len() >= TEST_ACCOUNTS_MAX {
            let most = format!("there are {TEST_ACCOUNTS_MAX} test accounts, the maximum: delete some, or reset");
            return Err(ControlError::Conflict(most));
        }
        let name = match name {
            None => loop {
                state.last_account += 1;
                let name = account_name(&format!("test{}", state.last_account))?;
                if accounts.keys(&name).is_none() {
                    break name;
                }
            },
            Some(name) => account_name(name)?,
        };
        if accounts.keys(&name).is_some() {
            return Err(ControlError::Conflict(format!("the account '{name}' already exists")));
        }
        let key = random_key()
            .ok_or_else(|| ControlError::Conflict("the system's random number generator failed".to_owned()))?;
        // Removes data that a request may have written while an account with this name was being deleted.
        self.clear_account(&mut state, &name);
        self.accounts.replace(accounts.with(name.clone(), &key));
        state.accounts.insert(name.clone());
        let endpoint = format!("{}/{name}", self.endpoint);
        Ok(TestAccount { name: name.to_string(), key, endpoint })
    }

    pub(crate) fn delete_account(&self, name: &str) -> Result<(), ControlError> {
        let mut state = self.state.lock();
        let accounts = self.accounts.current();
        let missing = || ControlError::NotFound(format!("there is no account '{name}'"));
        let name = AccountName::new(name).filter(|name| accounts.keys(name).is_some()).ok_or_else(missing)?;
        if !state.accounts.remove(&name) {
            let kept = format!(
                "the account '{name}' existed from the start, so it cannot be deleted: use reset to remove its data"
            );
            return Err(ControlError::Conflict(kept));
        }
        self.accounts.replace(accounts.without(&name));
        self.clear_account(&mut state, &name);
        Ok(())
    }

    /// Removes the data of an account, even from the snapshots, so that a later account with the same name does not
    /// get it.
    fn clear_account(&self, state: &mut TestState, account: &AccountName) {
        self.data.clear_account(account);
        state.snapshots.values_mut().for_each(|snapshot| snapshot.clear_account(account));
    }

    pub(crate) fn take_snapshot(&self) -> Result<String, ControlError> {
        let mut state = self.state.lock();
        if state.snapshots.len() >= TEST_SNAPSHOTS_MAX {
            let most = format!("there are {TEST_SNAPSHOTS_MAX} snapshots, the maximum: delete some, or reset");
            return Err(ControlError::Conflict(most));
        }
        state.last_snapshot += 1;
        let number = state.last_snapshot;
        state.snapshots.insert(number, self.data.take());
        Ok(number.to_string())
    }

    pub(crate) fn snapshots(&self) -> Vec<String> {
        self.state.lock().snapshots.keys().map(u64::to_string).collect()
    }

    /// Restores a snapshot, which is kept.
    pub(crate) fn restore(&self, snapshot: &str) -> Result<(), ControlError> {
        let state = self.state.lock();
        let kept = number_of(snapshot).and_then(|number| state.snapshots.get(&number));
        self.data.restore(kept.ok_or_else(|| no_snapshot(snapshot))?);
        Ok(())
    }

    pub(crate) fn delete_snapshot(&self, snapshot: &str) -> Result<(), ControlError> {
        let removed = number_of(snapshot).and_then(|number| self.state.lock().snapshots.remove(&number));
        removed.map(drop).ok_or_else(|| no_snapshot(snapshot))
    }

    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        let (checkpoint, accounts) = &self.initial;
        // The accounts are reset first, so that no request writes to an account that no longer exists.
        self.accounts.replace(Accounts::clone(accounts));
        self.data.reset_to(checkpoint);
        state.accounts.clear();
        let snapshots = std::mem::take(&mut state.snapshots);
        drop(state);
        // Freeing many entities takes a while.
        drop(snapshots);
    }
}

fn account_name(text: &str) -> Result<AccountName, ControlError> {
    AccountName::new(text).ok_or_else(|| {
        ControlError::Invalid("an account name must consist of 3 to 24 lowercase letters and digits".to_owned())
    })
}

/// Accepts only the form that is returned to clients.
fn number_of(snapshot: &str) -> Option<u64> {
    snapshot.parse().ok().filter(|number: &u64| number.to_string() == snapshot)
}

fn no_snapshot(snapshot: &str) -> ControlError {
    ControlError::NotFound(format!("there is no snapshot '{snapshot}'"))
}
