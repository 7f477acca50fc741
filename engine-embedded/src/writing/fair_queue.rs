//! The committer's queue. It has one lane per account, and the accounts take turns.
//!
//! Turns are measured in bytes (deficit round robin). With each turn, an account earns credit, and requests leave its
//! lane as long as they cost no more than its credit. An account with large transactions therefore gets no larger share
//! of the committer than an account with small ones. A request waits for only a bounded amount of work from each other
//! account, however much these accounts send.
//!
//! Invariants:
//!
//! 1. Requests of one account leave the queue in the order in which they arrived.
//! 2. While several accounts wait, a group contains at most one turn of each. A small request is therefore in the next
//!    group, and the large requests of other accounts do not fill that group.
//! 3. Once a request is the first in its account's lane, it waits for a bounded amount of work from every other
//!    account: the credit of as many turns as the request needs, plus the other account's largest request.
//! 4. Every accepted request is delivered exactly once, even after the queue is closed. Requests that are put back
//!    precede all later requests of their account.
//!
//! This module must not depend on what a request is or how it is stored.

use crate::sync::{Condvar, Mutex, MutexGuard, now};
use model::AccountName;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    /// The credit that an account earns per turn, in bytes.
    pub(crate) turn_bytes: usize,
    /// The size at which a group accepts no more requests, in bytes.
    pub(crate) group_bytes: usize,
    pub(crate) group_requests: usize,
}

pub(crate) trait QueuedRequest {
    fn account(&self) -> &AccountName;
    fn cost_bytes(&self) -> usize;
    /// Returns true if no request may follow this one in its group.
    fn ends_group(&self) -> bool;
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    Group(Vec<T>),
    Elapsed,
    Closed,
}

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    pub(crate) limits: GroupLimits,
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    lanes: HashMap<AccountName, Lane<T>>,
    turns: VecDeque<AccountName>,
    requests: usize,
    is_closed: bool,
    /// Whether [`FairQueue::interrupt`] was called since the consumer last waited.
    is_interrupted: bool,
    /// Waking the consumer costs a system call, so it is done only if the consumer is asleep.
    is_consumer_asleep: bool,
}

#[derive(Debug)]
struct Lane<T> {
    requests: VecDeque<T>,
    credit: usize,
}

impl<T: QueuedRequest> FairQueue<T> {
    pub(crate) fn new(limits: GroupLimits) -> Self {
        let state = State {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            requests: 0,
            is_closed: false,
            is_interrupted: false,
            is_consumer_asleep: false,
        };
        Self { limits, state: Mutex::new(state), arrived: Condvar::new() }
    }

    /// Returns the request as the error if the queue is closed.
    pub(crate) fn push(&self, request: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(request);
        }
        state.requests += 1;
        if let Some(lane) = state.lanes.get_mut(request.account()) {
            lane.requests.push_back(request);
        } else {
            let account = request.account().clone();
            state.turns.push_back(account.clone());
            state.lanes.insert(account, Lane { requests: VecDeque::from([request]), credit: 0 });
        }
        self.wake(state);
        Ok(())
    }

    /// Requests already in the queue are still delivered.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.wake(state);
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().requests
    }

    /// Ends the current or the next wait for requests, as if its time had elapsed.
    pub(crate) fn interrupt(&self) {
        let mut state = self.state.lock();
        state.is_interrupted = true;
        self.wake(state);
    }

    /// Waits for requests, at most until the given instant, and takes the next group.
    pub(crate) fn take(&self, until: Option<Instant>) -> Next<T> {
        let mut state = self.state.lock();
        while state.turns.is_empty() {
            if state.is_closed {
                return Next::Closed;
            }
            if std::mem::take(&mut state.is_interrupted) {
                return Next::Elapsed;
            }
            let time_left = until.map(|until| until.saturating_duration_since(now()));
            state.is_consumer_asleep = true;
            match time_left {
                Some(time_left) if time_left.is_zero() => {
                    state.is_consumer_asleep = false;
                    return Next::Elapsed;
                }
                Some(time_left) => {
                    self.arrived.wait_for(&mut state, time_left);
                }
                None => self.arrived.wait(&mut state),
            }
            state.is_consumer_asleep = false;
        }
        Next::Group(state.group(self.limits))
    }

    /// Puts back the last requests of a group, in their order, because the group became larger than the costs of its
    /// requests indicated. The account whose request filled the group must wait for its next turn. The other accounts
    /// come first and keep their credit.
    pub(crate) fn put_back(&self, requests: impl DoubleEndedIterator<Item = T>, filled_by: &AccountName) {
        let mut state = self.state.lock();
        for request in requests.rev() {
            state.put_back(request, filled_by);
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let is_consumer_asleep = std::mem::take(&mut state.is_consumer_asleep);
        drop(state);
        if is_consumer_asleep {
            self.arrived.notify_one();
        }
    }
}

impl<T: QueuedRequest> State<T> {
    /// There must be at least one request.
    fn group(&mut self, limits: GroupLimits) -> Vec<T> {
        let mut group = Group { requests: Vec::new(), bytes: 0, has_ended: false, limits };
        let has_several_accounts = self.turns.len() > 1;
        loop {
            for _ in 0..self.turns.len() {
                self.turn(&mut group);
                if group.is_full() {
                    return group.requests;
                }
            }
            // The credit of one turn may be too small for an account's next request, so the first round may take
            // nothing.
            if self.turns.is_empty() || has_several_accounts && !group.requests.is_empty() {
                return group.requests;
            }
        }
    }

    fn turn(&mut self, group: &mut Group<T>) {
        let Some(account) = self.turns.pop_front() else { return };
        let Some(lane) = self.lanes.get_mut(&account) else { return };
        // If the last turn ended because the group was full, unused credit remains. It is not increased further.
        if lane.requests.front().is_some_and(|request| request.cost_bytes() > lane.credit) {
            lane.credit = lane.credit.saturating_add(group.limits.turn_bytes);
        }
        while !group.is_full()
            && let Some(credit) = lane.requests.front().and_then(|next| lane.credit.checked_sub(next.cost_bytes()))
            && let Some(request) = lane.requests.pop_front()
        {
            lane.credit = credit;
            self.requests -= 1;
            group.push(request);
        }
        if lane.requests.is_empty() {
            self.lanes.remove(&account);
        } else {
            self.turns.push_back(account);
        }
    }

    /// Requests must be put back in reverse order.
    fn put_back(&mut self, request: T, filled_by: &AccountName) {
        let (account, cost) = (request.account().clone(), request.cost_bytes());
        self.requests += 1;
        let lane = self.lanes.entry(account.clone()).or_insert(Lane { requests: VecDeque::new(), credit: 0 });
        lane.requests.push_front(request);
        self.turns.retain(|other| *other != account);
        if account == *filled_by {
            self.turns.push_back(account);
        } else {
            lane.credit = lane.credit.saturating_add(cost);
            self.turns.push_front(account);
        }
    }
}

struct Group<T> {
    requests: Vec<T>,
    bytes: usize,
    has_ended: bool,
    limits: GroupLimits,
}

impl<T: QueuedRequest> Group<T> {
    fn push(&mut self, request: T) {
        self.bytes = self.bytes.saturating_add(request.cost_bytes());
        self.has_ended = request.ends_group();
        self.requests.push(request);
    }

    fn is_full(&self) -> bool {
        self.has_ended || self.bytes >= self.limits.group_bytes || self.requests.len() >= self.limits.group_requests
    }
}

#[cfg(test)]
mod tests;
