//! Transactions that are prepared while others are committed.

use super::running::{Callers, Running, Settings, key, merge, property, stamp, table};
use crate::disk::checks::Disk;
use crate::disk::contents::{Contents, properties};
use crate::disk::layout::{self, TableId};
use crate::writing::committer::CatalogChange;
use engine::CommitError;
use model::mutation::Effect;
use model::record::RecordView;
use model::{Condition, DateTime, ETag, EntityKey, Expiry, Mutation, MutationError, MutationResult, Transaction};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;

const WRITERS: usize = 3;
const TRANSACTIONS: usize = 2;

/// A transaction with its result, and the last Timestamps on disk before it was sent and after the response.
struct Done {
    transaction: Transaction,
    result: Result<Vec<MutationResult>, (usize, MutationError)>,
    before: DateTime,
    after: DateTime,
}

/// The results and the entities are as if the transactions ran one after the other, in the order of their Timestamps.
/// Each transaction has its place between its request and its response, and is on disk before the response. A refused
/// one has its place where it had to be refused, and the reason is on disk before the response.
pub fn the_results_are_those_of_a_serial_order() {
    let disk = Arc::new(Disk::default());
    let running = Running::open(Settings::new(&disk), &[table(0)]);
    let mut done = vec![commit(&running.callers, &disk, Transaction::single(merge("a", "first")))];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
            let write = move |number| {
                let transaction = transaction(&callers, &format!("w{writer}x{number}"));
                commit(&callers, &disk, transaction)
            };
            thread::spawn(move || (0..TRANSACTIONS).map(write).collect::<Vec<_>>())
        })
        .collect();
    done.extend(writers.into_iter().flat_map(|writer| writer.join().unwrap()));
    let found = running.close(&disk);

    let (mut stored, refused): (Vec<_>, Vec<_>) = done.into_iter().partition(|done| done.result.is_ok());
    stored.sort_by_key(|done| stamp(done.result.as_ref().unwrap()));
    let mut states = vec![(DateTime::MIN, Contents::new())];
    for Done { transaction, result, before, after } in stored {
        let (last, mut entities) = states.last().unwrap().clone();
        let (result, keys) = (result.unwrap(), transaction.mutations().iter().map(Mutation::key));
        let now = stamp(&result);
        assert!(
            last < now && before < now && now <= after,
            "{now:?} was issued after {last:?}, between {before:?} and {after:?}"
        );
        let effects = transaction.apply(now, &Expiry::NEVER, existing(&entities, &transaction));
        let effects = effects.unwrap_or_else(|error| panic!("{transaction:?} had to be refused: {error:?}"));
        assert_eq!(effects.iter().map(Effect::written).collect::<Vec<_>>(), result);
        for (key, effect) in keys.zip(effects) {
            match effect {
                Effect::Put(record) => entities.insert(full_key(key), record.as_bytes().into()),
                Effect::Delete => entities.remove(&full_key(key)),
            };
        }
        states.push((now, entities));
    }
    for Done { transaction, result, before, after } in refused {
        let refusal = result.unwrap_err();
        let is_right = |(stamp, entities): &(DateTime, Contents)| {
            (before..=after).contains(stamp)
                && transaction.apply(DateTime::MIN, &Expiry::NEVER, existing(entities, &transaction)) == Err(refusal)
        };
        assert!(states.iter().any(is_right), "{transaction:?} must not be refused: {refusal:?}");
    }
    assert!(states.last().unwrap().1 == found, "the entities differ");
}

fn commit(callers: &Callers, disk: &Disk, transaction: Transaction) -> Done {
    let before = disk.last_stamp();
    let result = match callers.commit(&table(0), transaction.clone()) {
        Ok(results) => Ok(results),
        Err(CommitError::Refused(index, error)) => Err((index, error)),
        Err(other) => panic!("{other:?}"),
    };
    Done { transaction, result, before, after: disk.last_stamp() }
}

/// Each of several transactions that merge a property into the same entity sees the properties of the earlier ones.
pub fn no_update_is_lost() {
    let disk = Disk::failing([], 0);
    let running = Running::open(Settings::new(&disk), &[table(0)]);
    let names = ["w0", "w1", "w2"];
    let writers = names.map(|name| {
        let callers = running.callers.clone();
        thread::spawn(move || callers.commit(&table(0), Transaction::single(merge("a", name))).unwrap())
    });
    for writer in writers {
        writer.join().unwrap();
    }
    let found = running.close(&disk);
    let found = properties(&found[&full_key(&key("a"))]);
    assert!(names.iter().all(|name| found.contains(*name)), "{found:?}");
}

/// Returns a transaction with one to three mutations. The first one stores an entity that nothing else changes, so that
/// each transaction has a Timestamp.
fn transaction(callers: &Callers, name: &str) -> Transaction {
    let mut random = thread_rng();
    let mut mutations = vec![Mutation::InsertOrReplace { key: key(name), properties: property(name) }];
    for row in ["a", "b"] {
        let (key, properties) = (key(row), property(name));
        mutations.push(match random.gen_range(0..8) {
            0 => Mutation::Insert { key, properties },
            1 => Mutation::Merge { key, properties, condition: Condition::Any },
            2 => Mutation::InsertOrReplace { key, properties },
            3 => Mutation::Delete { key, condition: Condition::Any },
            4 => {
                let Some(read) = callers.get(&table(0), &key) else { continue };
                let etag = ETag::from_timestamp(RecordView::new(&read).unwrap().timestamp());
                Mutation::Replace { key, properties, condition: Condition::parse(&etag.to_string()).unwrap() }
            }
            5 => continue,
            _ => Mutation::InsertOrMerge { key, properties },
        });
    }
    Transaction::new(mutations).unwrap()
}

fn existing(entities: &Contents, transaction: &Transaction) -> Vec<Option<Vec<u8>>> {
    let existing = |mutation: &Mutation| entities.get(&full_key(mutation.key())).map(|value| value.to_vec());
    transaction.mutations().iter().map(existing).collect()
}

fn full_key(key: &EntityKey) -> Vec<u8> {
    layout::key_of_entity(TableId::FIRST, key)
}

/// A preparation for a table is not used for a later table of the same name, and nothing is written to a deleted table.
/// The model of the disk checks the latter.
pub fn a_preparation_is_not_used_for_a_later_table() {
    let disk = Arc::new(Disk::default());
    let running = Running::open(Settings::new(&disk), &[table(0)]);
    running.callers.commit(&table(0), Transaction::single(merge("a", "old"))).unwrap();
    let writers = [0, 1].map(|writer| {
        let callers = running.callers.clone();
        thread::spawn(move || match callers.commit(&table(0), Transaction::single(merge("a", &format!("w{writer}")))) {
            Ok(_) | Err(CommitError::TableNotFound) => {}
            Err(other) => panic!("{other:?}"),
        })
    });
    let account = table(0).account;
    let callers = running.callers.clone();
    callers.change_catalog(&account, |answer| CatalogChange::DeleteTable(table(0), answer)).unwrap();
    callers.change_catalog(&account, |answer| CatalogChange::CreateTable(table(0), answer)).unwrap();
    drop(callers);
    for writer in writers {
        writer.join().unwrap();
    }
    let found = running.close(&disk);
    let new = found.get(&layout::key_of_entity(TableId::FIRST.next(), &key("a")));
    let names = new.map(|value| properties(value)).unwrap_or_default();
    assert!(!names.contains("old"), "an entity of the deleted table is in the new one: {names:?}");
}
