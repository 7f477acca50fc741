//! The path of a transaction from its caller through the queue's memory, the queue and the committer, and back.

use super::running::{Callers, Running, Settings, TRANSACTION_BYTES, key, merge, property, stamp, table};
use crate::disk::checks::Disk;
use crate::disk::layout::{self, TableId};
use crate::writing::committer::CatalogChange;
use engine::{CatalogError, CommitError, Fault};
use model::{Mutation, StoredAccessPolicies, Transaction};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;

const TRANSACTIONS: usize = 3;

/// While the engine is being closed, every caller gets a response, and a transaction is written exactly once if it was
/// accepted, and not at all if it was not. It is on disk before its response. The transactions of one account are
/// written in the order in which they were sent. The queue's memory is never exceeded, and is released.
pub fn every_accepted_request_is_served_once() {
    let disk = Arc::new(Disk::default());
    let memory_bytes = if thread_rng().gen_bool(0.5) { 3 * TRANSACTION_BYTES } else { 64 * 1024 };
    let prepares = thread_rng().gen_bool(0.5);
    let running = Running::open(Settings { memory_bytes, prepares, ..Settings::new(&disk) }, &[table(0), table(1)]);
    let writers = [0, 1].map(|account| {
        let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
        thread::spawn(move || write(&callers, &disk, account, memory_bytes))
    });
    let catalog = thread::spawn({
        let callers = running.callers.clone();
        move || {
            let change = |answer| CatalogChange::SetPolicies(table(1), StoredAccessPolicies::default(), answer);
            match callers.change_catalog(&table(1).account, change) {
                Ok(()) | Err(CatalogError::Fault(Fault::Closed)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    for _ in 0..thread_rng().gen_range(0..20) {
        thread::yield_now();
    }
    running.callers.shared.closing.cancel();
    running.callers.queue.close();
    let accepted = writers.map(|writer| writer.join().unwrap());
    catalog.join().unwrap();
    running.close(&disk);
    for (account, accepted) in accepted.into_iter().enumerate() {
        for number in 0..TRANSACTIONS {
            assert_eq!(disk.writes_of(&own_key(account, number)), usize::from(number < accepted));
        }
    }
}

/// Sends all transactions before it waits for the first response, and does not wait for the response to one of them.
/// Returns the number of accepted ones.
fn write(callers: &Callers, disk: &Disk, account: usize, memory_bytes: usize) -> usize {
    let abandoned = thread_rng().gen_range(0..2 * TRANSACTIONS);
    let mut pending = Vec::new();
    let mut accepted = 0;
    for number in 0..TRANSACTIONS {
        let own = Mutation::InsertOrReplace { key: key(&row(number)), properties: property("own") };
        let transaction = Transaction::new(vec![own, merge("shared", &row(number))]).unwrap();
        match callers.send(&table(account), transaction) {
            Ok(sent) => {
                assert_eq!(accepted, number, "a closed engine accepts nothing");
                accepted += 1;
                if number != abandoned {
                    pending.push((number, sent));
                }
            }
            Err(Fault::Closed) => {}
            Err(other) => panic!("{other:?}"),
        }
        assert!(callers.memory.held() <= memory_bytes);
    }
    let mut last = None;
    for (number, sent) in pending {
        match sent.result() {
            Ok(results) => {
                assert!(last < Some(stamp(&results)), "transaction {number} of account {account} was overtaken");
                last = Some(stamp(&results));
                assert_eq!(disk.writes_of(&own_key(account, number)), 1, "the response came before the write");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    accepted
}

fn row(number: usize) -> String {
    format!("w{number}")
}

fn own_key(account: usize, number: usize) -> Vec<u8> {
    let id = if account == 0 { TableId::FIRST } else { TableId::FIRST.next() };
    layout::key_of_entity(id, &key(&row(number)))
}
