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
    assert!(memory.state.lock().holders.is_empty() && memory.state.lock().turns.is_empty(), "no state is left behind");
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
    assert_eq!((all.bytes(), memory.held()), (BYTES, BYTES), "a request for more than the total memory gets all of it");
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
