//! A model of confirmations, promotions and fencing, all of whose states are visited.
//!
//! Three folders begin as a primary that waits for its standby, a standby, and an empty folder. Messages arrive late or
//! never, processes crash and lose what they have not synced, and standbys are promoted at any time. The numbers of
//! epochs, transactions and crashes are limited.
//!
//! In every state, the primary with the highest epoch has every transaction that any primary ever acknowledged. It
//! follows that no two primaries acknowledge different transactions at the same position of the log.

use std::collections::{HashSet, VecDeque};

const FOLDERS: usize = 3;
const EPOCHS_MAX: u8 = 3;
const TRANSACTIONS_MAX: usize = 2;
const CRASHES_MAX: u8 = 1;
/// The maximum number of confirmations in transit.
const CONFIRMATIONS_MAX: usize = 2;

/// A mistake that the search must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The confirmations of each standby count.
    AnyStandbyCounts,
    /// A standby confirms what it has received but not synced.
    ConfirmsUnsynced,
    /// A primary whose epoch has ended serves a standby of a later epoch.
    IgnoresEpochs,
    /// A standby is promoted whose confirmations do not count.
    PromotesAnyStandby,
    /// The primary waits for a standby that lacks what was acknowledged before.
    ChoosesEarly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    Empty,
    Primary,
    Standby,
    Fenced,
}

/// Adds the state that a change leads to.
type AddState<'a> = dyn FnMut(&dyn Fn(&mut State)) + 'a;

/// A transaction: the epoch in which it was written. Different transactions at one position have different epochs,
/// because an epoch has one writer.
type Log = Vec<u8>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Folder {
    role: Role,
    /// The first transaction of each epoch, by its number.
    epochs: Vec<usize>,
    log: Log,
    synced: usize,
    /// The standby whose confirmations count.
    confirming: Option<usize>,
    /// How many transactions are confirmed; lost in a crash.
    confirmed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    folders: [Folder; FOLDERS],
    /// Confirmations in transit: the primary, its epoch, the standby, and the number of transactions.
    confirmations: Vec<(usize, usize, usize, usize)>,
    /// What was acknowledged.
    acknowledged: Log,
    crashes: u8,
}

impl Folder {
    fn epoch(&self) -> usize {
        self.epochs.len()
    }

    /// Whether a log that ends in an epoch is the beginning of this log.
    fn continues(&self, epoch: usize, last: usize) -> bool {
        epoch <= self.epoch() && self.epochs.get(epoch).is_none_or(|first| last <= *first)
    }
}

impl State {
    fn first() -> Self {
        let folder =
            |role| Folder { role, epochs: vec![0], log: Log::new(), synced: 0, confirming: None, confirmed: 0 };
        let folders = [folder(Role::Primary), folder(Role::Standby), folder(Role::Empty)];
        Self { folders, confirmations: Vec::new(), acknowledged: Log::new(), crashes: 0 }
    }

    /// Returns the states that can follow.
    fn next(&self, mistake: Mistake) -> Vec<Self> {
        let mut next = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut state = self.clone();
            change(&mut state);
            state.confirmations.sort_unstable();
            state.confirmations.dedup();
            if state.confirmations.len() <= CONFIRMATIONS_MAX {
                next.push(state);
            }
        };
        for (here, folder) in self.folders.iter().enumerate() {
            if folder.synced < folder.log.len() {
                add(&|state| state.folders[here].synced += 1);
            }
            if folder.role == Role::Primary {
                if folder.log.len() < TRANSACTIONS_MAX {
                    add(&|state| state.folders[here].log.push(u8::try_from(folder.epoch()).unwrap()));
                }
                let known = self.acknowledged.len();
                if folder.confirmed.min(folder.synced) > known && folder.log[..known] == self.acknowledged[..] {
                    add(&|state| state.acknowledged.push(folder.log[known]));
                } else if folder.confirmed.min(folder.synced) >= known.max(1)
                    && !folder.log.starts_with(&self.acknowledged)
                {
                    // It acknowledges something else at a position that was acknowledged before.
                    add(&|state| state.acknowledged.clone_from(&folder.log));
                }
            }
            if self.crashes < CRASHES_MAX && (folder.synced < folder.log.len() || folder.confirmed > 0) {
                add(&|state| {
                    state.crashes += 1;
                    state.folders[here].log.truncate(folder.synced);
                    state.folders[here].confirmed = 0;
                });
            }
            let is_promotable = folder.role == Role::Standby
                && folder.epoch() < usize::from(EPOCHS_MAX)
                && (mistake == Mistake::PromotesAnyStandby || self.counts(here));
            if is_promotable {
                add(&|state| {
                    let promoted = &mut state.folders[here];
                    promoted.log.truncate(promoted.synced);
                    promoted.role = Role::Primary;
                    promoted.epochs.push(promoted.synced);
                    (promoted.confirming, promoted.confirmed) = (None, 0);
                });
            }
            for there in (0..FOLDERS).filter(|there| *there != here) {
                self.exchange(mistake, (here, there), &mut add);
            }
        }
        for (index, &(primary, epoch, standby, count)) in self.confirmations.iter().enumerate() {
            add(&|state| {
                state.confirmations.remove(index);
                let primary = &mut state.folders[primary];
                let counts = primary.confirming == Some(standby) || mistake == Mistake::AnyStandbyCounts;
                if primary.role == Role::Primary && primary.epoch() == epoch && counts {
                    primary.confirmed = primary.confirmed.max(count);
                }
            });
        }
        next
    }

    /// Whether a standby is the one whose confirmations count for the primary with the highest epoch. An operator
    /// promotes only this one.
    fn counts(&self, standby: usize) -> bool {
        let newest = self.folders.iter().filter(|folder| folder.role == Role::Primary).map(Folder::epoch).max();
        let folder = &self.folders[standby];
        let is_newest = newest.is_none_or(|newest| folder.epoch() >= newest);
        let is_chosen = |primary: &Folder| primary.role == Role::Primary && primary.confirming == Some(standby);
        is_newest && self.folders.iter().any(|primary| is_chosen(primary) && primary.epoch() == folder.epoch())
    }

    /// A standby asks a primary for a transaction, or a promoted one tells a former primary.
    fn exchange(&self, mistake: Mistake, (here, there): (usize, usize), add: &mut AddState<'_>) {
        let (primary, other) = (&self.folders[here], &self.folders[there]);
        if primary.role != Role::Primary {
            return;
        }
        if other.epoch() > primary.epoch() && mistake != Mistake::IgnoresEpochs {
            return add(&|state| state.folders[here].role = Role::Fenced);
        }
        let admits = mistake == Mistake::AnyStandbyCounts
            || mistake == Mistake::PromotesAnyStandby
            || primary.confirming.is_none_or(|confirming| confirming == there);
        if !admits {
            return;
        }
        // A base copy goes into an empty folder, or into one that was emptied.
        match other.role {
            Role::Standby if mistake == Mistake::IgnoresEpochs || primary.continues(other.epoch(), other.log.len()) => {
            }
            Role::Empty | Role::Fenced => {
                let copied = primary.synced;
                return add(&|state| {
                    let copy = Folder {
                        role: Role::Standby,
                        epochs: primary.epochs.clone(),
                        log: primary.log[..copied].to_vec(),
                        synced: copied,
                        confirming: None,
                        confirmed: 0,
                    };
                    state.folders[there] = copy;
                });
            }
            Role::Standby | Role::Primary => return,
        }
        let sent = primary.synced;
        let has = if mistake == Mistake::ConfirmsUnsynced { other.log.len() } else { other.synced };
        add(&|state| {
            let standby = &mut state.folders[there];
            standby.epochs.clone_from(&primary.epochs);
            if standby.log.len() < sent {
                standby.log.push(primary.log[standby.log.len()]);
            }
            // A primary that waits for no standby has acknowledged nothing in its epoch.
            if other.synced >= *primary.epochs.last().unwrap() || mistake == Mistake::ChoosesEarly {
                state.folders[here].confirming.get_or_insert(there);
            }
            state.confirmations.push((here, primary.epoch(), there, has));
        });
    }

    fn is_good(&self) -> bool {
        let primaries = self.folders.iter().filter(|folder| folder.role == Role::Primary);
        let newest = primaries.max_by_key(|folder| folder.epoch());
        newest.is_none_or(|newest| newest.log.starts_with(&self.acknowledged))
    }
}

/// Visits all states. Returns their number, or the first state that is not good.
fn search(mistake: Mistake) -> Result<usize, Box<State>> {
    let mut seen = HashSet::from([State::first()]);
    // The shortest histories come first.
    let mut waiting = VecDeque::from([State::first()]);
    while let Some(state) = waiting.pop_front() {
        if !state.is_good() {
            return Err(Box::new(state));
        }
        for next in state.next(mistake) {
            if seen.insert(next.clone()) {
                waiting.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_promotion_loses_what_was_acknowledged() {
    let states = search(Mistake::None).unwrap_or_else(|state| panic!("{state:#?}"));
    println!("{states} states");
    assert!(states > 1000, "only {states} states");
}

#[test]
fn each_planted_mistake_is_found() {
    for mistake in [
        Mistake::AnyStandbyCounts,
        Mistake::ConfirmsUnsynced,
        Mistake::IgnoresEpochs,
        Mistake::PromotesAnyStandby,
        Mistake::ChoosesEarly,
    ] {
        assert!(search(mistake).is_err(), "{mistake:?} is not found");
    }
}
