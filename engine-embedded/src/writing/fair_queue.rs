//! The committer's queue. It has two lanes per account, one for small and one for large requests, and the lanes take
//! turns.
//!
//! Turns are measured in bytes (deficit round robin). With each turn, a lane earns credit, and requests leave it as
//! long as they cost no more than its credit. An account with large transactions therefore gets no larger share of the
//! committer than an account with small ones. A request waits for only a bounded amount of work from each other lane,
//! however much is in these lanes: a single write does not wait for a bulk load, even one of the same account.
//!
//! Invariants:
//!
//! 1. Requests of one lane leave the queue in the order in which they arrived. There is no order between lanes: a
//!    caller that needs one waits for the response to its first request.
//! 2. While requests wait in several lanes, a group contains at most one turn of each. A small request is therefore in
//!    the next group, unless its lane has more than a turn, and large requests do not fill that group.
//! 3. Once a request is the first in its lane, it waits for a bounded amount of work from every other lane: the credit
//!    of as many turns as the request needs, plus the other lane's largest request. Large requests also wait while the
//!    consumer holds them back.
//! 4. Every accepted request is delivered exactly once, even after the queue is closed. Requests that are put back
//!    precede all later requests of their lane.
//!
//! This module must not depend on what a request is or how it is stored.

use crate::sync::{Condvar, Mutex, MutexGuard, now};
use model::AccountName;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    /// The maximum cost of a small request, in bytes. At most `turn_bytes`.
    pub(crate) small_bytes: usize,
    /// The credit that a lane earns per turn, in bytes.
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

/// The name of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey {
    account: AccountName,
    is_large: bool,
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
    lanes: HashMap<LaneKey, Lane<T>>,
    turns: VecDeque<LaneKey>,
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

    /// Returns the lane of an account's requests that have this cost and do not end their group.
    pub(crate) fn lane(&self, account: &AccountName, cost_bytes: usize) -> LaneKey {
        LaneKey { account: account.clone(), is_large: cost_bytes > self.limits.small_bytes }
    }

    /// A request that ends its group counts as small: there are few of them, and they should not wait for a bulk load.
    fn lane_of(&self, request: &T) -> LaneKey {
        self.lane(request.account(), if request.ends_group() { 0 } else { request.cost_bytes() })
    }

    /// Returns the request as the error if the queue is closed.
    pub(crate) fn push(&self, request: T) -> Result<(), T> {
        let lane = self.lane_of(&request);
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(request);
        }
        state.requests += 1;
        if let Some(lane) = state.lanes.get_mut(&lane) {
            lane.requests.push_back(request);
        } else {
            state.turns.push_back(lane.clone());
            state.lanes.insert(lane, Lane { requests: VecDeque::from([request]), credit: 0 });
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

    /// Waits for requests, at most until the given instant, and takes the next group. With `hold_large_until`, takes no
    /// large requests, and if there are only large ones, waits at most until that instant.
    pub(crate) fn take(&self, until: Option<Instant>, hold_large_until: Option<Instant>) -> Next<T> {
        let mut state = self.state.lock();
        loop {
            let holds_large = hold_large_until.is_some() && !state.is_closed;
            if state.turns.iter().any(|lane| !(holds_large && lane.is_large)) {
                return Next::Group(state.group(self.limits, holds_large));
            }
            if state.is_closed {
                return Next::Closed;
            }
            if std::mem::take(&mut state.is_interrupted) {
                return Next::Elapsed;
            }
            let held_until = hold_large_until.filter(|_| !state.turns.is_empty());
            let until = until.into_iter().chain(held_until).min();
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
    }

    /// Puts back the last requests of a group, in their order, because the group became larger than the costs of its
    /// requests indicated. The lane whose request filled the group must wait for its next turn. The other lanes come
    /// first and keep their credit.
    pub(crate) fn put_back(&self, requests: impl DoubleEndedIterator<Item = T>, filled_by: &LaneKey) {
        let mut state = self.state.lock();
        for request in requests.rev() {
            state.put_back(self.lane_of(&request), request, filled_by);
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
    /// There must be at least one request that is not held.
    fn group(&mut self, limits: GroupLimits, holds_large: bool) -> Vec<T> {
        let mut group = Group { requests: Vec::new(), bytes: 0, has_ended: false, limits };
        let has_several_lanes = self.turns.len() > 1;
        loop {
            for _ in 0..self.turns.len() {
                self.turn(&mut group, holds_large);
                if group.is_full() {
                    return group.requests;
                }
            }
            // The credit of one turn may be too small for a lane's next request, so the first round may take nothing.
            if self.turns.is_empty() || has_several_lanes && !group.requests.is_empty() {
                return group.requests;
            }
        }
    }

    fn turn(&mut self, group: &mut Group<T>, holds_large: bool) {
        let Some(key) = self.turns.pop_front() else { return };
        if holds_large && key.is_large {
            self.turns.push_back(key);
            return;
        }
        let Some(lane) = self.lanes.get_mut(&key) else { return };
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
            self.lanes.remove(&key);
        } else {
            self.turns.push_back(key);
        }
    }

    /// Requests must be put back in reverse order.
    fn put_back(&mut self, key: LaneKey, request: T, filled_by: &LaneKey) {
        let cost = request.cost_bytes();
        self.requests += 1;
        let lane = self.lanes.entry(key.clone()).or_insert(Lane { requests: VecDeque::new(), credit: 0 });
        lane.requests.push_front(request);
        self.turns.retain(|other| *other != key);
        if key == *filled_by {
            self.turns.push_back(key);
        } else {
            lane.credit = lane.credit.saturating_add(cost);
            self.turns.push_front(key);
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
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::time::Duration;

    const KIB: usize = 1024;
    const LIMITS: GroupLimits =
        GroupLimits { small_bytes: 16 * KIB, turn_bytes: 256 * KIB, group_bytes: 8192 * KIB, group_requests: 1024 };

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct TestRequest {
        account: AccountName,
        number: usize,
        bytes: usize,
        is_last: bool,
    }

    impl QueuedRequest for TestRequest {
        fn account(&self) -> &AccountName {
            &self.account
        }

        fn cost_bytes(&self) -> usize {
            self.bytes
        }

        fn ends_group(&self) -> bool {
            self.is_last
        }
    }

    fn account(index: usize) -> AccountName {
        AccountName::new(&format!("account{index}")).unwrap()
    }

    fn request(of: usize, number: usize, bytes: usize) -> TestRequest {
        TestRequest { account: account(of), number, bytes, is_last: false }
    }

    fn queue_of_one(requests: usize, bytes: usize) -> FairQueue<TestRequest> {
        let queue = FairQueue::new(LIMITS);
        for number in 0..requests {
            queue.push(request(0, number, bytes)).unwrap();
        }
        queue
    }

    fn group(queue: &FairQueue<TestRequest>) -> Vec<TestRequest> {
        match queue.take(Some(now()), None) {
            Next::Group(group) => group,
            other => panic!("{other:?}"),
        }
    }

    fn numbers(group: &[TestRequest]) -> Vec<(&str, usize)> {
        group.iter().map(|request| (request.account.as_str(), request.number)).collect()
    }

    #[test]
    fn an_account_alone_fills_its_groups() {
        let queue = queue_of_one(10, 3 * 1024 * KIB);
        let lengths: Vec<_> = (0..4).map(|_| group(&queue).len()).collect();
        assert_eq!(lengths, [3, 3, 3, 1]);
        let queue = queue_of_one(1500, 1);
        assert_eq!((group(&queue).len(), queue.len()), (1024, 476));
    }

    #[test]
    fn a_small_request_is_in_the_next_group_and_large_ones_do_not_fill_it() {
        let queue = queue_of_one(100, 3 * 1024 * KIB);
        for number in 0..5 {
            queue.push(request(1, number, KIB)).unwrap();
            let group = group(&queue);
            let (large, small): (Vec<_>, Vec<_>) = group.into_iter().partition(|request| request.account == account(0));
            assert_eq!(numbers(&small), [("account1", number)]);
            assert!(large.is_empty(), "it takes twelve turns to pay for a large one: {large:?}");
        }
    }

    /// A bulk load fills the queue, and a single write of the same account comes later.
    #[test]
    fn a_small_request_does_not_wait_for_large_ones_of_its_account() {
        let queue = queue_of_one(300, 100 * KIB);
        for number in 300..305 {
            queue.push(request(0, number, KIB)).unwrap();
            let group = group(&queue);
            assert_eq!(group.iter().filter(|request| request.number == number).count(), 1);
            let bytes: usize = group.iter().map(|request| request.bytes).sum();
            assert!(group.len() > 1 && bytes <= (256 + 100 + 1) * KIB, "{bytes}");
        }
    }

    #[test]
    fn large_requests_are_held_back_and_small_ones_pass_them() {
        let queue = queue_of_one(3, 100 * KIB);
        let held = || queue.take(None, Some(now()));
        assert_eq!(held(), Next::Elapsed);
        queue.push(request(0, 3, KIB)).unwrap();
        queue.push(request(1, 0, KIB)).unwrap();
        assert_eq!(held(), Next::Group(vec![request(0, 3, KIB), request(1, 0, KIB)]));
        assert_eq!(held(), Next::Elapsed);
        assert_eq!(numbers(&group(&queue)), [("account0", 0), ("account0", 1), ("account0", 2)]);
        // What is held back is delivered before the end.
        queue.push(request(0, 4, 100 * KIB)).unwrap();
        queue.close();
        assert_eq!(held(), Next::Group(vec![request(0, 4, 100 * KIB)]));
        assert_eq!(held(), Next::Closed);
    }

    #[test]
    fn a_request_that_ends_its_group_follows_small_ones_and_passes_large_ones() {
        let queue = queue_of_one(2, 200 * KIB);
        queue.push(request(0, 2, KIB)).unwrap();
        queue.push(TestRequest { is_last: true, ..request(0, 3, 256 * KIB) }).unwrap();
        let numbers: Vec<_> = [group(&queue), group(&queue)].map(|group| numbers(&group).len()).into();
        assert_eq!((numbers, queue.len()), (vec![2, 2], 0));
    }

    /// Without large requests, the time until which they are held does not end the wait.
    #[test]
    fn an_empty_queue_waits_although_large_requests_would_be_held() {
        let queue = FairQueue::<TestRequest>::new(LIMITS);
        let until = now() + Duration::from_millis(1);
        assert_eq!(queue.take(Some(until), Some(now())), Next::Elapsed);
        assert!(now() >= until);
    }

    #[test]
    fn accounts_get_as_many_bytes_whatever_the_size_of_their_requests() {
        let queue = queue_of_one(100, 1024 * KIB);
        for number in 0..1000 {
            queue.push(request(1, number, 64 * KIB)).unwrap();
        }
        let mut bytes = [0, 0];
        for _ in 0..100 {
            for request in group(&queue) {
                bytes[usize::from(request.account == account(1))] += request.bytes;
            }
        }
        assert!(bytes[0].abs_diff(bytes[1]) <= 2048 * KIB && bytes[0] > 20 * 1024 * KIB, "{bytes:?}");
    }

    #[test]
    fn a_request_that_ends_its_group_is_the_last_of_it() {
        let queue = queue_of_one(2, 1);
        queue.push(TestRequest { is_last: true, ..request(0, 2, 1) }).unwrap();
        queue.push(request(0, 3, 1)).unwrap();
        assert_eq!(group(&queue).len(), 3);
        assert_eq!(group(&queue).len(), 1);
    }

    #[test]
    fn what_comes_back_keeps_its_order_and_the_account_that_filled_the_group_is_last() {
        let queue = queue_of_one(3, KIB);
        for of in [1, 2] {
            queue.push(request(of, 0, KIB)).unwrap();
        }
        queue.push(request(1, 1, KIB)).unwrap();
        let mut first = group(&queue);
        assert_eq!(first.len(), 6);
        let rest = first.split_off(1);
        queue.push(request(0, 3, KIB)).unwrap();
        queue.push(request(3, 0, KIB)).unwrap();
        queue.put_back(rest.into_iter(), &queue.lane(&account(0), KIB));
        assert_eq!(queue.len(), 7);
        let second = group(&queue);
        let expected =
            [("account1", 0), ("account1", 1), ("account2", 0), ("account3", 0), ("account0", 1), ("account0", 2)];
        assert_eq!(numbers(&second), [&expected[..], &[("account0", 3)]].concat());
    }

    #[test]
    fn a_closed_queue_is_drained_and_accepts_nothing() {
        let queue = queue_of_one(1, 1);
        queue.close();
        assert_eq!(queue.push(request(0, 1, 1)), Err(request(0, 1, 1)));
        assert_eq!(numbers(&group(&queue)), [("account0", 0)]);
        queue.put_back([request(0, 0, 1)].into_iter(), &queue.lane(&account(0), 1));
        assert_eq!(numbers(&group(&queue)), [("account0", 0)]);
        assert_eq!(queue.take(None, None), Next::Closed);
    }

    #[test]
    fn a_consumer_waits_for_a_request_for_the_end_and_for_an_instant() {
        let queue = Arc::new(FairQueue::<TestRequest>::new(LIMITS));
        assert_eq!(queue.take(Some(now() + Duration::from_millis(1)), None), Next::Elapsed);
        let consumer = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || (queue.take(None, None), queue.take(None, None)))
        };
        queue.push(request(0, 0, 1)).unwrap();
        while queue.len() > 0 {
            std::thread::yield_now();
        }
        queue.close();
        assert_eq!(consumer.join().unwrap(), (Next::Group(vec![request(0, 0, 1)]), Next::Closed));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push {
            of: usize,
            bytes: usize,
        },
        /// The request at the index `filled_at` fills the batch.
        Take {
            filled_at: Option<usize>,
        },
    }

    const ACCOUNTS: usize = 4;
    const LANES: usize = 2 * ACCOUNTS;
    const SMALL: GroupLimits = GroupLimits { small_bytes: 4, turn_bytes: 8, group_bytes: 30, group_requests: 5 };
    const BYTES_MAX: usize = 40;

    fn step() -> impl Strategy<Value = Step> {
        let push = (0..ACCOUNTS, 0..=BYTES_MAX);
        let flood = (0..1_usize, BYTES_MAX / 2..=BYTES_MAX);
        prop_oneof![
            4 => push.prop_map(|(of, bytes)| Step::Push { of, bytes }),
            4 => flood.prop_map(|(of, bytes)| Step::Push { of, bytes }),
            3 => Just(Step::Take { filled_at: None }),
            1 => (0..4_usize).prop_map(|at| Step::Take { filled_at: Some(at) }),
        ]
    }

    /// The waiting requests of a lane, and the amount that each other lane has received since the first of these
    /// requests became the lane's next one.
    #[derive(Debug, Default, Clone)]
    struct Waiting {
        requests: VecDeque<TestRequest>,
        pushed: usize,
        others_bytes: [usize; LANES],
        put_back: usize,
    }

    impl Waiting {
        /// Returns the maximum amount that each other lane may receive before this lane's next request is served.
        fn bound(&self) -> usize {
            let turns = self.requests[0].bytes.div_ceil(SMALL.turn_bytes);
            (turns + 1) * SMALL.turn_bytes + BYTES_MAX + self.put_back * (SMALL.turn_bytes + BYTES_MAX)
        }
    }

    fn index(request: &TestRequest) -> usize {
        let account = (0..ACCOUNTS).find(|index| account(*index) == request.account).unwrap();
        2 * account + usize::from(request.bytes > SMALL.small_bytes)
    }

    fn serve(waiting: &mut [Waiting; LANES], request: &TestRequest) {
        let of = index(request);
        assert_eq!(waiting[of].requests.pop_front().as_ref(), Some(request), "the order within a lane");
        waiting[of].others_bytes = [0; LANES];
        waiting[of].put_back = 0;
        for other in (0..LANES).filter(|other| *other != of) {
            let other = &mut waiting[other];
            if !other.requests.is_empty() {
                other.others_bytes[of] += request.bytes;
                assert!(other.others_bytes[of] <= other.bound(), "{other:?} waits for too much work of lane {of}");
            }
        }
    }

    proptest! {
        #[test]
        fn requests_keep_their_order_and_wait_for_a_bounded_amount_of_others(steps in vec(step(), 0..300)) {
            let queue = FairQueue::new(SMALL);
            let mut waiting: [Waiting; LANES] = Default::default();
            let take = |waiting: &mut [Waiting; LANES], filled_at: Option<usize>| {
                let lanes = waiting.iter().filter(|waiting| !waiting.requests.is_empty()).count();
                let Next::Group(mut requests) = queue.take(Some(now()), None) else {
                    assert_eq!(lanes, 0, "not all requests were delivered");
                    return false;
                };
                let bytes_of = |of| requests.iter().filter(|request| index(request) == of).map(|request| request.bytes).sum();
                if lanes > 1 {
                    let bytes: [usize; LANES] = std::array::from_fn(bytes_of);
                    assert!(bytes.iter().all(|bytes| *bytes <= 2 * SMALL.turn_bytes + BYTES_MAX), "{bytes:?}");
                }
                let rest = requests.split_off(requests.len().min(filled_at.map_or(usize::MAX, |at| at + 1)));
                for request in &requests {
                    serve(waiting, request);
                }
                if !rest.is_empty() {
                    for waiting in waiting.iter_mut() {
                        waiting.put_back += 1;
                    }
                    queue.put_back(rest.into_iter(), &queue.lane_of(&requests[requests.len() - 1]));
                }
                true
            };
            for step in steps {
                match step {
                    Step::Push { of, bytes } => {
                        let mut pushed = request(of, 0, bytes);
                        let of = index(&pushed);
                        pushed.number = waiting[of].pushed;
                        waiting[of].pushed += 1;
                        waiting[of].requests.push_back(pushed.clone());
                        if waiting[of].requests.len() == 1 {
                            waiting[of].others_bytes = [0; LANES];
                            waiting[of].put_back = 0;
                        }
                        queue.push(pushed).unwrap();
                    }
                    Step::Take { filled_at } => _ = take(&mut waiting, filled_at),
                }
                let expected: usize = waiting.iter().map(|waiting| waiting.requests.len()).sum();
                prop_assert_eq!(queue.len(), expected);
            }
            queue.close();
            while take(&mut waiting, None) {}
            prop_assert!(waiting.iter().all(|waiting| waiting.requests.is_empty()));
        }
    }

    #[test]
    fn an_interruption_ends_one_wait_and_loses_no_request() {
        let queue = Arc::new(FairQueue::<TestRequest>::new(LIMITS));
        queue.interrupt();
        assert!(matches!(queue.take(None, None), Next::Elapsed));
        let consumer = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.take(None, None)
        });
        queue.interrupt();
        assert!(matches!(consumer.join().unwrap(), Next::Elapsed));
        queue.interrupt();
        queue.push(request(0, 1, 1)).unwrap();
        assert_eq!(numbers(&group(&queue)), [("account0", 1)]);
    }
}
