//! The memory of the queue between accounts that wait for it, give it back, and stop waiting.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::writing::queue_memory::QueueMemory;
use model::AccountName;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

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
