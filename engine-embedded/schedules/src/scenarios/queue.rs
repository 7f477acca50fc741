//! The committer's queue between several accounts and one consumer, which also puts requests back.

use crate::sync::{now, reset_clock};
use crate::writing::fair_queue::{FairQueue, GroupLimits, Next, QueuedRequest};
use model::AccountName;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const LIMITS: GroupLimits = GroupLimits { turn_bytes: 8, group_bytes: 30, group_requests: 3 };
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

/// Every accepted request is delivered exactly once, in the order of its account, even after the queue is closed and if
/// requests are put back. A waiting consumer is woken for a request and for the end.
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
        let delivered = delivered.get(&account).map_or(&[][..], Vec::as_slice);
        assert_eq!(delivered, (0..*accepted).collect::<Vec<_>>(), "{account:?}");
    }
    assert_eq!(queue.len(), 0);
}

/// Takes requests until the queue is closed, or at most the given number.
fn consume(queue: &FairQueue<TestRequest>, requests: usize) -> BTreeMap<AccountName, Vec<usize>> {
    let mut delivered = BTreeMap::<_, Vec<_>>::new();
    while delivered.values().map(Vec::len).sum::<usize>() < requests {
        let until = thread_rng().gen_bool(0.3).then(|| now() + Duration::from_millis(250));
        let mut group = match queue.take(until) {
            Next::Group(group) => group,
            Next::Elapsed => {
                assert!(until.is_some_and(|until| now() >= until), "the time is over");
                continue;
            }
            Next::Closed => return delivered,
        };
        assert!(!group.is_empty() && group.len() <= LIMITS.group_requests);
        let rest = group.split_off(thread_rng().gen_range(1..=group.len()));
        let filled_by = group.last().map(|request| request.account.clone()).unwrap();
        for request in group {
            delivered.entry(request.account).or_default().push(request.number);
        }
        if !rest.is_empty() {
            queue.put_back(rest.into_iter(), &filled_by);
        }
    }
    delivered
}
