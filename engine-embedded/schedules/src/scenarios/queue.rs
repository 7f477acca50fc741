//! The committer's queue between several accounts and one consumer, which also puts requests back; and the queue's
//! memory between accounts that wait for it, give it back, and stop waiting.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{now, reset_clock};
use crate::writing::fair_queue::{FairQueue, GroupLimits, Next, QueuedRequest};
use crate::writing::queue_memory::QueueMemory;
use model::AccountName;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

const LIMITS: GroupLimits = GroupLimits { small_bytes: 4, turn_bytes: 8, group_bytes: 30, group_requests: 3 };
const ACCOUNTS: usize = 2;
const REQUESTS: usize = 3;
const BYTES_MAX: usize = 20;

#[derive(Debug)]
struct TestRequest {
    account: AccountName,
    number: usize,
    bytes: usize,
}

impl QueuedRequest for TestRequest {
    fn account(&self) -> &AccountName {
        &self.account
    }

    fn cost_bytes(&self) -> usize {
        self.bytes
    }

    fn ends_group(&self) -> bool {
        false
    }
}

/// Every accepted request is delivered exactly once, in the order of its lane, even after the queue is closed, if
/// requests are put back and if large ones are held. A waiting consumer is woken for a request and for the end.
pub fn requests_are_delivered_once_and_in_order() {
    reset_clock();
    let queue = Arc::new(FairQueue::new(LIMITS));
    let producers: Vec<_> = (0..ACCOUNTS)
        .map(|index| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let account = AccountName::new(&format!("account{index}")).unwrap();
                let request = |number| TestRequest {
                    account: account.clone(),
                    number,
                    bytes: thread_rng().gen_range(0..=BYTES_MAX),
                };
                (0..REQUESTS).take_while(|number| queue.push(request(*number)).is_ok()).count()
            })
        })
        .collect();
    // Otherwise, the consumer must receive every request without the queue being closed.
    let closes_early = thread_rng().gen_bool(0.5);
    let consumer = thread::spawn({
        let queue = Arc::clone(&queue);
        move || consume(&queue, if closes_early { usize::MAX } else { ACCOUNTS * REQUESTS })
    });
    if closes_early {
        queue.close();
    }
    let accepted: Vec<_> = producers.into_iter().map(|producer| producer.join().unwrap()).collect();
    assert!(closes_early || accepted == [REQUESTS; ACCOUNTS], "an open queue refuses no request");
    let delivered = consumer.join().unwrap();
    for (index, accepted) in accepted.iter().enumerate() {
        let account = AccountName::new(&format!("account{index}")).unwrap();
        let lanes = [false, true].map(|is_large| {
            let lane = delivered.get(&(account.clone(), is_large)).map_or(&[][..], Vec::as_slice);
            assert!(lane.is_sorted(), "{account:?}: {lane:?}");
            lane
        });
        let mut delivered = lanes.concat();
        delivered.sort_unstable();
        assert_eq!(delivered, (0..*accepted).collect::<Vec<_>>(), "{account:?}");
    }
    assert_eq!(queue.len(), 0);
}

/// Takes requests until the queue is closed, or at most the given number.
fn consume(queue: &FairQueue<TestRequest>, requests: usize) -> BTreeMap<(AccountName, bool), Vec<usize>> {
    let mut delivered = BTreeMap::<_, Vec<_>>::new();
    while delivered.values().map(Vec::len).sum::<usize>() < requests {
        let until = thread_rng().gen_bool(0.3).then(|| now() + Duration::from_millis(250));
        let hold_until = thread_rng().gen_bool(0.3).then(|| now() + Duration::from_millis(2));
        let mut group = match queue.take(until, hold_until) {
            Next::Group(group) => group,
            Next::Elapsed => {
                assert!(until.into_iter().chain(hold_until).any(|until| now() >= until), "the time is over");
                continue;
            }
            Next::Closed => return delivered,
        };
        assert!(!group.is_empty() && group.len() <= LIMITS.group_requests);
        let rest = group.split_off(thread_rng().gen_range(1..=group.len()));
        let filled_by = group.last().map(|request| queue.lane(&request.account, request.bytes)).unwrap();
        for request in group {
            let is_large = request.bytes > LIMITS.small_bytes;
            delivered.entry((request.account, is_large)).or_default().push(request.number);
        }
        if !rest.is_empty() {
            queue.put_back(rest.into_iter(), &filled_by);
        }
    }
    delivered
}

/// A share grows in steps of 4 KiB.
const BYTES: usize = 16 * 1024;

fn account(index: usize) -> AccountName {
    AccountName::new(&format!("account{index}")).unwrap()
}

/// The accounts never hold more than the total memory, every request for memory is granted eventually, even if an
/// earlier one was abandoned, and all memory is released.
pub fn memory_is_bounded_and_all_requests_are_granted() {
    let memory = QueueMemory::new(BYTES);
    let holders: Vec<_> = (0..3)
        .map(|index| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                for _ in 0..2 {
                    let bytes = thread_rng().gen_range(1..=BYTES + 1);
                    if thread_rng().gen_bool(0.3) {
                        abandon(&memory, index, bytes);
                    }
                    let mut share = block_on(memory.acquire(&account(index), bytes));
                    assert_eq!(share.bytes(), bytes.min(BYTES));
                    assert!((share.bytes()..=BYTES).contains(&memory.held()));
                    if thread_rng().gen_bool(0.5) {
                        share.try_grow_to(bytes + 4096);
                    }
                    assert!((share.bytes()..=BYTES).contains(&memory.held()));
                    share.shrink_to(bytes / 2);
                }
            })
        })
        .collect();
    for holder in holders {
        holder.join().unwrap();
    }
    assert_eq!(memory.held(), 0);
}

/// Requests memory and drops the request, before or after it is granted.
fn abandon(memory: &Arc<QueueMemory>, index: usize, bytes: usize) {
    let account = account(index);
    let mut acquired = pin!(memory.acquire(&account, bytes));
    let _ = acquired.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    thread::yield_now();
}

/// While an account that holds nothing waits, no other account acquires memory. It asks for all of it, so it waits as
/// long as another account holds some.
pub fn an_account_that_holds_nothing_is_not_passed_over() {
    let memory = QueueMemory::new(BYTES);
    let is_waiting = Arc::new(AtomicBool::new(false));
    let mut shares: Vec<_> = (0..2).map(|index| block_on(memory.acquire(&account(index), 1024))).collect();
    let poor = thread::spawn({
        let (memory, is_waiting) = (Arc::clone(&memory), Arc::clone(&is_waiting));
        move || {
            let account = account(2);
            let mut acquired = pin!(memory.acquire(&account, BYTES));
            if acquired.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                is_waiting.store(true, Ordering::SeqCst);
                drop(block_on(acquired));
            }
        }
    });
    let mut growing = shares.pop().unwrap();
    let rich = thread::spawn({
        let is_waiting = Arc::clone(&is_waiting);
        move || {
            for step in 1..3 {
                let was_waiting = is_waiting.load(Ordering::SeqCst);
                let has_grown = growing.try_grow_to(1024 + step * 4096);
                assert!(!(was_waiting && has_grown), "account 2 holds nothing and waits, but account 1 has grown");
            }
        }
    });
    let releasing = thread::spawn(move || drop(shares));
    for thread in [poor, rich, releasing] {
        thread.join().unwrap();
    }
    assert_eq!(memory.held(), 0);
}
