use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const KIB: usize = 1024;
const LIMITS: GroupLimits = GroupLimits { turn_bytes: 256 * KIB, group_bytes: 8192 * KIB, group_requests: 1024 };

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
    match queue.take(Some(now())) {
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
    queue.put_back(rest.into_iter(), &account(0));
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
    queue.put_back([request(0, 0, 1)].into_iter(), &account(0));
    assert_eq!(numbers(&group(&queue)), [("account0", 0)]);
    assert_eq!(queue.take(None), Next::Closed);
}

#[test]
fn a_consumer_waits_for_a_request_for_the_end_and_for_an_instant() {
    let queue = Arc::new(FairQueue::<TestRequest>::new(LIMITS));
    assert_eq!(queue.take(Some(now() + Duration::from_millis(1))), Next::Elapsed);
    let consumer = {
        let queue = Arc::clone(&queue);
        std::thread::spawn(move || (queue.take(None), queue.take(None)))
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
const SMALL: GroupLimits = GroupLimits { turn_bytes: 8, group_bytes: 30, group_requests: 5 };
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

/// The waiting requests of an account, and the amount that each other account has received since the first of these
/// requests became the account's next one.
#[derive(Debug, Default, Clone)]
struct Waiting {
    requests: VecDeque<TestRequest>,
    pushed: usize,
    others_bytes: [usize; ACCOUNTS],
    put_back: usize,
}

impl Waiting {
    /// Returns the maximum amount that each other account may receive before this account's next request is served.
    fn bound(&self) -> usize {
        let turns = self.requests[0].bytes.div_ceil(SMALL.turn_bytes);
        (turns + 1) * SMALL.turn_bytes + BYTES_MAX + self.put_back * (SMALL.turn_bytes + BYTES_MAX)
    }
}

fn index(request: &TestRequest) -> usize {
    (0..ACCOUNTS).find(|index| account(*index) == request.account).unwrap()
}

fn serve(waiting: &mut [Waiting; ACCOUNTS], request: &TestRequest) {
    let of = index(request);
    assert_eq!(waiting[of].requests.pop_front().as_ref(), Some(request), "the order within an account");
    waiting[of].others_bytes = [0; ACCOUNTS];
    waiting[of].put_back = 0;
    for other in (0..ACCOUNTS).filter(|other| *other != of) {
        let other = &mut waiting[other];
        if !other.requests.is_empty() {
            other.others_bytes[of] += request.bytes;
            assert!(other.others_bytes[of] <= other.bound(), "{other:?} waits for too much work of account {of}");
        }
    }
}

proptest! {
    #[test]
    fn requests_keep_their_order_and_wait_for_a_bounded_amount_of_others(steps in vec(step(), 0..300)) {
        let queue = FairQueue::new(SMALL);
        let mut waiting: [Waiting; ACCOUNTS] = Default::default();
        let take = |waiting: &mut [Waiting; ACCOUNTS], filled_at: Option<usize>| {
            let accounts = waiting.iter().filter(|waiting| !waiting.requests.is_empty()).count();
            let Next::Group(mut requests) = queue.take(Some(now())) else {
                assert_eq!(accounts, 0, "not all requests were delivered");
                return false;
            };
            let bytes_of = |of| requests.iter().filter(|request| index(request) == of).map(|request| request.bytes).sum();
            if accounts > 1 {
                let bytes: [usize; ACCOUNTS] = std::array::from_fn(bytes_of);
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
                queue.put_back(rest.into_iter(), &requests[requests.len() - 1].account);
            }
            true
        };
        for step in steps {
            match step {
                Step::Push { of, bytes } => {
                    let pushed = request(of, waiting[of].pushed, bytes);
                    waiting[of].pushed += 1;
                    waiting[of].requests.push_back(pushed.clone());
                    if waiting[of].requests.len() == 1 {
                        waiting[of].others_bytes = [0; ACCOUNTS];
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
    assert!(matches!(queue.take(None), Next::Elapsed));
    let consumer = std::thread::spawn({
        let queue = Arc::clone(&queue);
        move || queue.take(None)
    });
    queue.interrupt();
    assert!(matches!(consumer.join().unwrap(), Next::Elapsed));
    queue.interrupt();
    queue.push(request(0, 1, 1)).unwrap();
    assert_eq!(numbers(&group(&queue)), [("account0", 1)]);
}
