//! The memory of the committer's queue, and its distribution among accounts.
//!
//! An account may hold at most as much memory as it leaves free. A single account may therefore hold half of the
//! memory, and two busy accounts end up with a third each. However many busy accounts there are, some memory is left
//! for another one. An account that finds too little free memory waits; waiting accounts take turns.
//!
//! Invariants:
//!
//! 1. The accounts never hold more than the total memory.
//! 2. An account that holds nothing is never passed over: while it is next in line, no other account acquires memory.
//!    It therefore waits only until the others have released enough.
//!
//! This module must not depend on what the memory is used for.

use crate::sync::Mutex;
use model::AccountName;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Shares grow in multiples of this number of bytes, so that a share that grows gradually seldom takes the lock.
const GROWTH_BYTES: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct QueueMemory {
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    holders: HashMap<AccountName, Holder>,
    /// The accounts that wait, in turn order.
    turns: VecDeque<AccountName>,
}

#[derive(Debug, Default)]
struct Holder {
    held: usize,
    /// The sizes of the account's waiting requests, in bytes, and the channels for their shares.
    waiting: VecDeque<(usize, oneshot::Sender<MemoryShare>)>,
}

/// The memory is released when the share is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    memory: Arc<QueueMemory>,
    account: AccountName,
    bytes: usize,
}

impl QueueMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let state = State { free: bytes, holders: HashMap::new(), turns: VecDeque::new() };
        Arc::new(Self { bytes, state: Mutex::new(state) })
    }

    pub(crate) fn held(&self) -> usize {
        self.bytes - self.state.lock().free
    }

    /// Acquires memory, at least one byte. A request for more than the total memory counts as a request for all of it.
    pub(crate) async fn acquire(self: &Arc<Self>, account: &AccountName, bytes: usize) -> MemoryShare {
        let bytes = bytes.clamp(1, self.bytes);
        let granted = {
            let mut state = self.state.lock();
            if !state.is_reserved() && state.has_no_waiter(account) && state.take(account, bytes) {
                return self.share(account, bytes);
            }
            state.wait(account, bytes)
        };
        // The sender is never dropped before it has sent.
        granted.await.unwrap_or_else(|_| self.share(account, 0))
    }

    fn share(self: &Arc<Self>, account: &AccountName, bytes: usize) -> MemoryShare {
        MemoryShare { memory: Arc::clone(self), account: account.clone(), bytes }
    }

    fn release(self: &Arc<Self>, account: &AccountName, bytes: usize) {
        let mut state = self.state.lock();
        state.release(account, bytes);
        state.grant(self);
    }
}

impl State {
    fn held(&self, account: &AccountName) -> usize {
        self.holders.get(account).map_or(0, |holder| holder.held)
    }

    fn has_no_waiter(&self, account: &AccountName) -> bool {
        self.holders.get(account).is_none_or(|holder| holder.waiting.is_empty())
    }

    /// Returns whether all free memory is reserved for the account that is next in line.
    fn is_reserved(&self) -> bool {
        self.turns.front().is_some_and(|account| self.held(account) == 0)
    }

    fn take(&mut self, account: &AccountName, bytes: usize) -> bool {
        let held = self.held(account);
        let Some(free) = self.free.checked_sub(bytes) else { return false };
        if held > 0 && held.saturating_add(bytes) > free {
            return false;
        }
        self.free = free;
        if let Some(holder) = self.holders.get_mut(account) {
            holder.held += bytes;
        } else {
            self.holders.insert(account.clone(), Holder { held: bytes, waiting: VecDeque::new() });
        }
        true
    }

    fn release(&mut self, account: &AccountName, bytes: usize) {
        self.free += bytes;
        if let Some(holder) = self.holders.get_mut(account) {
            holder.held -= bytes;
            if holder.held == 0 && holder.waiting.is_empty() {
                self.holders.remove(account);
            }
        }
    }

    fn wait(&mut self, account: &AccountName, bytes: usize) -> oneshot::Receiver<MemoryShare> {
        let (sender, granted) = oneshot::channel();
        let holder = self.holders.entry(account.clone()).or_default();
        if holder.waiting.is_empty() {
            self.turns.push_back(account.clone());
        }
        holder.waiting.push_back((bytes, sender));
        granted
    }

    fn grant(&mut self, memory: &Arc<QueueMemory>) {
        let mut passed_over = 0;
        while passed_over < self.turns.len() {
            let Some(account) = self.turns.pop_front() else { return };
            match self.next_waiter(&account) {
                None => self.release(&account, 0),
                Some(bytes) if self.take(&account, bytes) => {
                    self.send(&account, memory, bytes);
                    if self.has_no_waiter(&account) {
                        self.release(&account, 0);
                    } else {
                        self.turns.push_back(account);
                    }
                    passed_over = 0;
                }
                Some(_) if self.held(&account) == 0 => {
                    self.turns.push_front(account);
                    return;
                }
                Some(_) => {
                    self.turns.push_back(account);
                    passed_over += 1;
                }
            }
        }
    }

    /// Removes abandoned requests.
    fn next_waiter(&mut self, account: &AccountName) -> Option<usize> {
        let waiting = &mut self.holders.get_mut(account)?.waiting;
        while waiting.front().is_some_and(|(_, sender)| sender.is_closed()) {
            waiting.pop_front();
        }
        waiting.front().map(|(bytes, _)| *bytes)
    }

    fn send(&mut self, account: &AccountName, memory: &Arc<QueueMemory>, bytes: usize) {
        let Some((_, sender)) = self.holders.get_mut(account).and_then(|holder| holder.waiting.pop_front()) else {
            return;
        };
        if let Err(mut abandoned) = sender.send(memory.share(account, bytes)) {
            // Dropping the share unchanged would wait for the lock that is held here.
            abandoned.bytes = 0;
            self.release(account, bytes);
        }
    }
}

impl MemoryShare {
    pub(crate) fn account(&self) -> &AccountName {
        &self.account
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Acquires memory until this share holds about `bytes`, if the account may currently have that much.
    pub(crate) fn try_grow_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.bytes).next_multiple_of(GROWTH_BYTES);
        if missing == 0 {
            return true;
        }
        let mut state = self.memory.state.lock();
        let is_taken = !state.is_reserved() && state.take(&self.account, missing);
        if is_taken {
            self.bytes += missing;
        }
        is_taken
    }

    /// The shares must belong to the same account. They are then released together.
    pub(crate) fn merge(&mut self, mut other: Self) {
        debug_assert!(self.account == other.account, "shares of one account");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.bytes -= excess;
        if excess > 0 {
            self.memory.release(&self.account, excess);
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::{JoinHandle, yield_now};

    const BYTES: usize = 1200;

    fn account(number: usize) -> AccountName {
        AccountName::new(&format!("account{number}")).unwrap()
    }

    /// The task finishes when the memory has been acquired.
    fn ask(memory: &Arc<QueueMemory>, number: usize, bytes: usize) -> JoinHandle<MemoryShare> {
        let memory = Arc::clone(memory);
        tokio::spawn(async move { memory.acquire(&account(number), bytes).await })
    }

    /// The other tasks run on the test's thread.
    async fn settle() {
        for _ in 0..100 {
            yield_now().await;
        }
    }

    async fn fill(memory: &Arc<QueueMemory>, number: usize) -> Vec<MemoryShare> {
        let mut shares = Vec::new();
        loop {
            let asked = ask(memory, number, 10);
            settle().await;
            if !asked.is_finished() {
                asked.abort();
                return shares;
            }
            shares.push(asked.await.unwrap());
        }
    }

    #[tokio::test]
    async fn an_account_holds_as_much_as_it_leaves_free() {
        let memory = QueueMemory::new(BYTES);
        let first = fill(&memory, 1).await;
        assert_eq!(memory.held(), BYTES / 2, "one account holds half");
        let mut others = Vec::new();
        for number in 2..=5 {
            let shares = fill(&memory, number).await;
            assert!(!shares.is_empty(), "some memory is left for account {number}");
            others.extend(shares);
        }
        drop((first, others));
        settle().await;
        assert_eq!(memory.held(), 0);
        assert!(
            memory.state.lock().holders.is_empty() && memory.state.lock().turns.is_empty(),
            "no state is left behind"
        );
    }

    #[tokio::test]
    async fn an_account_that_holds_nothing_is_not_passed_over() {
        let memory = QueueMemory::new(BYTES);
        let mut shares = fill(&memory, 1).await;
        let large = ask(&memory, 2, 700);
        settle().await;
        assert!(!large.is_finished());
        shares.pop();
        let later = ask(&memory, 3, 10);
        settle().await;
        assert!(
            !later.is_finished() && !shares[0].try_grow_to(20),
            "free memory is reserved for the account that is next in line"
        );
        shares.truncate(50);
        assert_eq!(large.await.unwrap().bytes(), 700);
        assert_eq!(later.await.unwrap().bytes(), 10);
        drop(shares);
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn accounts_that_wait_take_turns() {
        let memory = QueueMemory::new(BYTES);
        let mut held = vec![memory.acquire(&account(1), 200).await, memory.acquire(&account(2), 200).await];
        held.push(memory.acquire(&account(3), 700).await);
        let asked: Vec<_> = [1, 1, 1, 2, 2, 2].map(|number| ask(&memory, number, 60)).into();
        settle().await;
        assert!(asked.iter().all(|asked| !asked.is_finished()));
        held[2].shrink_to(350);
        settle().await;
        let finished: Vec<_> = asked.iter().map(JoinHandle::is_finished).collect();
        assert_eq!(finished, [true, false, false, true, false, false]);
    }

    #[tokio::test]
    async fn a_request_that_was_abandoned_gets_nothing() {
        let memory = QueueMemory::new(BYTES);
        let all = memory.acquire(&account(1), 2 * BYTES).await;
        assert_eq!(
            (all.bytes(), memory.held()),
            (BYTES, BYTES),
            "a request for more than the total memory gets all of it"
        );
        let abandoned = ask(&memory, 2, BYTES);
        let next = ask(&memory, 3, 10);
        settle().await;
        abandoned.abort();
        settle().await;
        drop(all);
        assert_eq!(next.await.unwrap().bytes(), 10);
        assert_eq!(memory.held(), 0);
        // A share that was sent but not received is released too.
        let all = memory.acquire(&account(1), BYTES).await;
        let asked = ask(&memory, 2, BYTES);
        settle().await;
        drop(all);
        assert_eq!(memory.held(), BYTES);
        asked.abort();
        settle().await;
        drop(asked);
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn a_share_grows_only_while_its_account_may_have_more() {
        let memory = QueueMemory::new(8 * GROWTH_BYTES);
        let mut share = memory.acquire(&account(1), 1).await;
        assert!(share.try_grow_to(1) && share.try_grow_to(GROWTH_BYTES));
        assert_eq!(share.bytes(), GROWTH_BYTES + 1);
        assert!(!share.try_grow_to(6 * GROWTH_BYTES), "that would exceed the free memory");
        assert_eq!(memory.held(), share.bytes());
        share.shrink_to(1);
        assert_eq!(memory.held(), 1);
    }
}
