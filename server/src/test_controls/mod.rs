//! What a test may do to a server that keeps its data in memory: snapshots to which it returns, accounts of its own, a
//! clock that it moves.
//!
//! Invariants:
//!
//! 1. Nothing of this is there unless the settings have it.
//! 2. Changes come one after the other, so that a reset and a new account never mix.
//! 3. What a test can add is bounded: accounts and snapshots have a greatest number.
//!
//! This folder must not know HTTP: `admin/` reads the requests.

mod clock;
mod data;

pub use clock::TestClock;
pub use data::TestData;

use crate::accounts::{Accounts, random_key};
use crate::reload::Live;
use model::limits::{TEST_ACCOUNTS_MAX, TEST_SNAPSHOTS_MAX};
use model::{AccountName, DateTime};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{MemoryCheckpoint, MemoryCheckpoints};

/// What the controls for tests need of the program.
#[derive(Debug, Clone)]
pub struct TestControlSettings {
    /// The clock of the engine and the server.
    pub clock: TestClock,
    /// The states of the engine.
    pub engine: MemoryCheckpoints<TestClock>,
    /// Scheme, host and port of the service.
    pub endpoint: String,
}

/// Why a control did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlError {
    /// What the request says makes no sense.
    Invalid(String),
    /// What it names is not there.
    NotFound(String),
    /// It does not fit to what is there.
    Conflict(String),
}

/// An account that was made for a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestAccount {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) endpoint: String,
}

/// A change of the clock: what is given, in the order of the fields.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ClockChange {
    /// Back to the time of the operating system.
    pub(crate) is_system: bool,
    /// The time to be set, at which the clock then stands still.
    pub(crate) now: Option<DateTime>,
    pub(crate) advance: Option<Duration>,
    pub(crate) stopped: Option<bool>,
}

/// The controls of a running server.
pub(crate) struct TestControls {
    /// Scheme, host and port of the service.
    endpoint: String,
    data: TestData,
    accounts: Arc<Live<Accounts>>,
    /// What was there when the server became ready.
    initial: (MemoryCheckpoint, Arc<Accounts>),
    made: Mutex<Made>,
}

/// What tests have made.
#[derive(Debug, Default)]
struct Made {
    accounts: BTreeSet<AccountName>,
    snapshots: BTreeMap<u64, MemoryCheckpoint>,
    /// Names of accounts and snapshots are given once.
    last_account: u64,
    last_snapshot: u64,
}

impl fmt::Debug for TestControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestControls").field("data", &self.data).finish_non_exhaustive()
    }
}

impl TestControls {
    /// The controls of a server that is about to be ready, and will return to its present state.
    pub(crate) fn new(endpoint: String, data: TestData, accounts: Arc<Live<Accounts>>) -> Self {
        let initial = (data.take(), accounts.current());
        Self { endpoint, data, accounts, initial, made: Mutex::default() }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        // No change of it can panic half-way.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that the clock shows, and whether it stands still.
    pub(crate) fn clock(&self) -> (DateTime, bool) {
        let clock = &self.data.clock;
        (DateTime::from_system_time(clock.now()), clock.is_stopped())
    }

    /// Changes the clock.
    pub(crate) fn change_clock(&self, change: ClockChange) {
        let _one_by_one = self.made();
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

    /// Adds an account without data, by this name or one that no account had before.
    pub(crate) fn add_account(&self, name: Option<&str>) -> Result<TestAccount, ControlError> {
        let mut made = self.made();
        let accounts = self.accounts.current();
        if made.accounts.len() >= TEST_ACCOUNTS_MAX {
            let most =
                format!("there are {TEST_ACCOUNTS_MAX} accounts of tests, which is the most: delete some, or reset");
            return Err(ControlError::Conflict(most));
        }
        let name = match name {
            None => loop {
                made.last_account += 1;
                let name = account_name(&format!("test{}", made.last_account))?;
                if accounts.keys(&name).is_none() {
                    break name;
                }
            },
            Some(name) => account_name(name)?,
        };
        if accounts.keys(&name).is_some() {
            return Err(ControlError::Conflict(format!("there is an account '{name}' already")));
        }
        let key = random_key().ok_or_else(|| ControlError::Conflict("the system has no random numbers".to_owned()))?;
        // What a request may have written that was under way when an account of this name was deleted.
        self.clear_account(&mut made, &name);
        self.accounts.replace(accounts.with(name.clone(), &key));
        made.accounts.insert(name.clone());
        let endpoint = format!("{}/{name}", self.endpoint);
        Ok(TestAccount { name: name.to_string(), key, endpoint })
    }

    /// Removes an account that a test has added, with its data.
    pub(crate) fn delete_account(&self, name: &str) -> Result<(), ControlError> {
        let mut made = self.made();
        let accounts = self.accounts.current();
        let missing = || ControlError::NotFound(format!("there is no account '{name}'"));
        let name = AccountName::new(name).filter(|name| accounts.keys(name).is_some()).ok_or_else(missing)?;
        if !made.accounts.remove(&name) {
            let kept = format!("the account '{name}' was there from the start, so it stays: reset removes its data");
            return Err(ControlError::Conflict(kept));
        }
        self.accounts.replace(accounts.without(&name));
        self.clear_account(&mut made, &name);
        Ok(())
    }

    /// Removes what an account has, also from the snapshots, so that a later account of its name does not get it.
    fn clear_account(&self, made: &mut Made, account: &AccountName) {
        self.data.clear_account(account);
        made.snapshots.values_mut().for_each(|snapshot| snapshot.clear_account(account));
    }

    /// Keeps the present state of all accounts; returns the name of the snapshot.
    pub(crate) fn take_snapshot(&self) -> Result<String, ControlError> {
        let mut made = self.made();
        if made.snapshots.len() >= TEST_SNAPSHOTS_MAX {
            let most = format!("there are {TEST_SNAPSHOTS_MAX} snapshots, which is the most: delete some, or reset");
            return Err(ControlError::Conflict(most));
        }
        made.last_snapshot += 1;
        let number = made.last_snapshot;
        made.snapshots.insert(number, self.data.take());
        Ok(number.to_string())
    }

    /// The names of the snapshots, from the oldest to the newest.
    pub(crate) fn snapshots(&self) -> Vec<String> {
        self.made().snapshots.keys().map(u64::to_string).collect()
    }

    /// Returns to a snapshot, which stays.
    pub(crate) fn restore(&self, snapshot: &str) -> Result<(), ControlError> {
        let made = self.made();
        let kept = number_of(snapshot).and_then(|number| made.snapshots.get(&number));
        self.data.return_to(kept.ok_or_else(|| no_snapshot(snapshot))?);
        Ok(())
    }

    /// Forgets a snapshot.
    pub(crate) fn delete_snapshot(&self, snapshot: &str) -> Result<(), ControlError> {
        let removed = number_of(snapshot).and_then(|number| self.made().snapshots.remove(&number));
        removed.map(drop).ok_or_else(|| no_snapshot(snapshot))
    }

    /// Returns to what was there when the server became ready.
    pub(crate) fn reset(&self) {
        let mut made = self.made();
        let (state, accounts) = &self.initial;
        // The accounts come first: so no request writes into an account that is gone by then.
        self.accounts.replace(Accounts::clone(accounts));
        self.data.begin_again(state);
        made.accounts.clear();
        let snapshots = std::mem::take(&mut made.snapshots);
        drop(made);
        // Freeing many entities takes a while.
        drop(snapshots);
    }
}

fn account_name(text: &str) -> Result<AccountName, ControlError> {
    AccountName::new(text).ok_or_else(|| {
        ControlError::Invalid("the name of an account has 3 to 24 lower-case letters and digits".to_owned())
    })
}

/// The number of a snapshot in the one form that is given out.
fn number_of(snapshot: &str) -> Option<u64> {
    snapshot.parse().ok().filter(|number: &u64| number.to_string() == snapshot)
}

fn no_snapshot(snapshot: &str) -> ControlError {
    ControlError::NotFound(format!("there is no snapshot '{snapshot}'"))
}
