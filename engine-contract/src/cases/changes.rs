//! Cases about change logs. A case gets an engine and its change log, which begins before the case.

use super::policies::policies;
use super::settings::retain;
use crate::support::*;
use engine::{Change, ChangeEffect, ChangeLog, ChangePage, ChangeSelection, ChangedTransaction, Engine, TableKey};
use model::{
    AccountName, Condition, DateTime, Dialect, EntityKey, Mutation, MutationResult, Record, Retention, TableSettings,
    Transaction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::timeout;

const SECOND: i64 = 10_000_000;
const PAGE_BYTES: usize = 1 << 20;

type Log = Arc<dyn ChangeLog>;

pub async fn read(log: &Log, from: u64, selection: &ChangeSelection, bytes: usize) -> ChangePage {
    log.read(from, selection, bytes).await.unwrap()
}

/// Waits until `count` transactions from a position on can be read, and returns them.
pub async fn wait_for(log: &Log, from: u64, count: usize) -> Vec<ChangedTransaction> {
    let mut next = log.watch();
    loop {
        next.borrow_and_update();
        let read = read_all(log, from, &ChangeSelection::default(), PAGE_BYTES).await;
        if read.len() >= count {
            assert_eq!(read.len(), count, "{read:#?}");
            return read;
        }
        let waited = timeout(TIMEOUT, next.changed()).await;
        assert!(waited.is_ok(), "{:?}: {} instead of {count} transactions from {from} on", log.kept(), read.len());
    }
}

/// Reads page by page up to the end of the log.
pub async fn read_all(log: &Log, mut from: u64, selection: &ChangeSelection, bytes: usize) -> Vec<ChangedTransaction> {
    let (mut all, end): (Vec<ChangedTransaction>, _) = (Vec::new(), log.kept().next);
    while from < end {
        let page = read(log, from, selection, bytes).await;
        assert!(page.next > from, "a page makes progress");
        let positions: Vec<u64> = page.transactions.iter().map(|transaction| transaction.position).collect();
        assert!(
            positions.is_sorted_by(|one, next| one < next) && positions.iter().all(|at| (from..page.next).contains(at)),
            "{positions:?}"
        );
        all.extend(page.transactions);
        from = page.next;
    }
    assert!(all.is_sorted_by_key(|transaction| transaction.time), "{all:#?}");
    all
}

fn put(table: &TableKey, entity: &EntityKey, record: Record) -> ChangeEffect {
    ChangeEffect::Put { table: Arc::new(table.clone()), key: entity.encode(), record }
}

fn deletion(table: &TableKey, entity: &EntityKey, is_expired: bool) -> ChangeEffect {
    ChangeEffect::Delete { table: Arc::new(table.clone()), key: entity.encode(), is_expired }
}

/// Returns the effects of a transaction. The entities of a transaction differ, so their order does not matter.
fn effects(transaction: &ChangedTransaction) -> Vec<ChangeEffect> {
    let indexes: Vec<u32> = transaction.changes.iter().map(|change| change.index).collect();
    assert_eq!(indexes, (0..).take(indexes.len()).collect::<Vec<u32>>());
    let mut changes: Vec<Change> = transaction.changes.clone();
    changes.sort_by_key(|change| match &change.effect {
        ChangeEffect::Put { key, .. } | ChangeEffect::Delete { key, .. } => key.clone(),
        _ => Vec::new(),
    });
    changes.into_iter().map(|change| change.effect).collect()
}

async fn stored(engine: &dyn Engine, table: &TableKey, entity: &EntityKey) -> Record {
    engine.get(table, entity).await.unwrap().unwrap()
}

pub async fn every_change_is_shown_in_order(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let (begin, table, account) = (log.kept().next, table("Changed"), AccountName::new(ACCOUNT).unwrap());
    let (a, b, c) = (key("p", "a"), key("p", "b"), key("p", "\u{E000}"));
    engine.create_table(&table).await.unwrap();
    commit_one(&*engine, &table, insert("p", "a", 1)).await.unwrap();
    let inserted = stored(&*engine, &table, &a).await;
    let merge = Mutation::Merge { key: a.clone(), properties: properties(&[("other", 2)]), condition: Condition::Any };
    commit_one(&*engine, &table, merge).await.unwrap();
    let merged = stored(&*engine, &table, &a).await;
    let together = vec![upsert("p", "\u{E000}", 3), delete("p", "a"), insert("p", "b", 4)];
    engine.commit(&table, Transaction::new(together).unwrap()).await.unwrap();
    let (third, fourth) = (stored(&*engine, &table, &c).await, stored(&*engine, &table, &b).await);
    commit_one(&*engine, &table, delete("p", "b")).await.unwrap();
    // What is refused, or changes nothing, is not in the log.
    commit_one(&*engine, &table, delete("p", "b")).await.unwrap_err();
    let refused = vec![upsert("p", "d", 1), insert("p", "\u{E000}", 1)];
    engine.commit(&table, Transaction::new(refused).unwrap()).await.unwrap_err();
    engine.create_table(&table).await.unwrap_err();
    engine.set_policies(&table, policies(&["a"])).await.unwrap();
    let retention = Retention::by_age(60);
    engine.update_settings(&table, retain(retention.clone())).await.unwrap();
    engine.update_service_properties(&account, cors_update("https://a.example")).await.unwrap();
    let set = engine.service_properties(&account).unwrap();
    engine.delete_table(&table).await.unwrap();

    let log = wait_for(&log, begin, 9).await;
    let [created, first, second, batch, deleted, policed, settled, configured, dropped] = &log[..] else { panic!() };
    assert!(
        matches!(&effects(created)[..], [ChangeEffect::CreateTable { table: of, .. }] if **of == table
            && of.name.as_str() == "Changed"),
        "{created:?}"
    );
    assert_eq!(effects(first), [put(&table, &a, inserted.clone())]);
    assert!(first.time >= inserted.view().unwrap().timestamp());
    assert_eq!(effects(second), [put(&table, &a, merged)]);
    let expected = [deletion(&table, &a, false), put(&table, &b, fourth), put(&table, &c, third)];
    assert_eq!(effects(batch), expected);
    assert_eq!(effects(deleted), [deletion(&table, &b, false)]);
    let of = Arc::new(table);
    let none = TableSettings::default();
    let expected = ChangeEffect::SetTable { table: Arc::clone(&of), policies: policies(&["a"]), settings: none };
    assert_eq!(effects(policed), [expected]);
    let settings = TableSettings { retention, ..TableSettings::default() };
    assert_eq!(
        effects(settled),
        [ChangeEffect::SetTable { table: Arc::clone(&of), policies: policies(&["a"]), settings }]
    );
    let properties = Box::new((*set).clone());
    assert_eq!(effects(configured), [ChangeEffect::SetProperties { account, properties }]);
    assert_eq!(effects(dropped), [ChangeEffect::DeleteTable { table: of }]);
}

pub async fn a_selection_leaves_out_the_rest(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let begin = log.kept().next;
    let tables = [table("One"), table("Two"), table_of("account2", "One")];
    for table in &tables {
        engine.create_table(table).await.unwrap();
    }
    for n in 0..12_usize {
        commit_one(&*engine, &tables[n % 3], insert("p", &n.to_string(), 1)).await.unwrap();
    }
    let all = wait_for(&log, begin, 15).await;
    // The order of transactions of different tables is not specified.
    let of = |transaction: &ChangedTransaction| match &effects(transaction)[..] {
        [ChangeEffect::Put { table, .. } | ChangeEffect::CreateTable { table, .. }] => {
            tables.iter().position(|one| *one == **table).unwrap()
        }
        other => panic!("{other:?}"),
    };
    assert!((0..3).all(|one| all.iter().filter(|transaction| of(transaction) == one).count() == 5), "{all:#?}");
    let account = |name: &str| ChangeSelection { account: AccountName::new(name), ..ChangeSelection::default() };
    // The name of a table is found in any letter case.
    let of_table = |table: &TableKey| ChangeSelection {
        account: Some(table.account.clone()),
        table: Some(table.clone()),
        existing_only: false,
    };
    for (selection, expected) in [
        (account(ACCOUNT), vec![0, 1]),
        (account("account2"), vec![2]),
        (account("account3"), vec![]),
        (of_table(&table("one")), vec![0]),
        (of_table(&tables[2]), vec![2]),
        (of_table(&table("Three")), vec![]),
        (ChangeSelection { table: Some(tables[1].clone()), ..ChangeSelection::default() }, vec![1]),
    ] {
        let expected = all.iter().filter(|transaction| expected.contains(&of(transaction)));
        let expected: Vec<_> = expected.cloned().collect();
        for bytes in [1, 300, PAGE_BYTES] {
            assert_eq!(read_all(&log, begin, &selection, bytes).await, expected, "{selection:?} {bytes}");
        }
    }
}

pub async fn entities_of_an_earlier_table_can_be_left_out(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let (begin, of) = (log.kept().next, table("Tenant"));
    for row in ["a", "b"] {
        if row == "b" {
            engine.delete_table(&of).await.unwrap();
        }
        engine.create_table(&of).await.unwrap();
        commit_one(&*engine, &of, insert("p", row, 1)).await.unwrap();
    }
    let selection =
        |existing_only| ChangeSelection { table: Some(table("tenant")), existing_only, ..ChangeSelection::default() };
    let all = wait_for(&log, begin, 5).await;
    assert_eq!(read_all(&log, begin, &selection(false), PAGE_BYTES).await, all);
    let of_later = [&all[0], &all[2], &all[3], &all[4]].map(Clone::clone);
    assert_eq!(read_all(&log, begin, &selection(true), PAGE_BYTES).await, of_later);
    engine.delete_table(&of).await.unwrap();
    let all = wait_for(&log, begin, 6).await;
    let of_none = [&all[0], &all[2], &all[3], &all[5]].map(Clone::clone);
    assert_eq!(read_all(&log, begin, &selection(true), 1).await, of_none);
}

pub async fn pages_are_bounded_and_lose_nothing(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let (begin, table) = (log.kept().next, table("Paged"));
    engine.create_table(&table).await.unwrap();
    for size in (0..40_usize).map(|n| n % 7 + 1) {
        let mutations = (0..size).map(|n| upsert("p", &format!("{n:0>100}"), 1)).collect();
        engine.commit(&table, Transaction::new(mutations).unwrap()).await.unwrap();
    }
    let all = wait_for(&log, begin, 41).await;
    for bytes in [0, 1, 500, 1000, 5000] {
        assert_eq!(read_all(&log, begin, &ChangeSelection::default(), bytes).await, all, "{bytes}");
    }
    let first = read(&log, begin + 1, &ChangeSelection::default(), 1).await;
    assert_eq!((first.transactions, first.next), (vec![all[1].clone()], begin + 2));
    let some = read(&log, begin, &ChangeSelection::default(), 2000).await;
    assert!((2..20).contains(&some.transactions.len()), "{}", some.transactions.len());
    let end = log.kept().next;
    let last = read(&log, end, &ChangeSelection::default(), PAGE_BYTES).await;
    assert_eq!(last, ChangePage { transactions: Vec::new(), next: end });
}

pub async fn a_transaction_of_the_wider_limits_is_shown_as_a_whole(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let (begin, table) = (log.kept().next, table("Wide"));
    engine.create_table(&table).await.unwrap();
    let small = (1..Dialect::Cosmos.operations_max()).map(|n| upsert("p", &format!("{n:03}"), 1));
    let large = Mutation::InsertOrReplace { key: key("p", "r"), properties: widest() };
    let mutations = small.chain([large]).collect();
    let (transaction, _) = Transaction::in_dialect(Dialect::Cosmos, mutations).unwrap();
    engine.commit(&table, transaction).await.unwrap();
    let shown = wait_for(&log, begin, 2).await;
    let shown = effects(&shown[1]);
    assert_eq!(shown.len(), Dialect::Cosmos.operations_max());
    let entity = key("p", "r");
    assert_eq!(shown.last(), Some(&put(&table, &entity, stored(&*engine, &table, &entity).await)));
}

pub async fn concurrent_commits_are_shown_once_and_in_order(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    const WRITERS: usize = 8;
    const WRITES: usize = 40;
    let (begin, table) = (log.kept().next, table("Busy"));
    engine.create_table(&table).await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let (engine, table) = (Arc::clone(&engine), table.clone());
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..WRITES {
                // Two writers share each partition, and all write to a row that they share.
                let (partition, own) = ((writer % 4).to_string(), writer.to_string());
                let mutations = vec![upsert(&partition, &own, 1), upsert(&partition, "shared", 1)];
                let transaction = if n % 8 == 7 {
                    Transaction::new(vec![upsert(&partition, "shared", 1), delete(&partition, &own)]).unwrap()
                } else {
                    Transaction::new(mutations).unwrap()
                };
                let written = engine.commit(&table, transaction).await.unwrap();
                let stamp = written.iter().find_map(MutationResult::timestamp);
                acknowledged.push((partition, stamp.unwrap()));
            }
            acknowledged
        })
    });
    let mut acknowledged = BTreeSet::new();
    for writer in writers.collect::<Vec<_>>() {
        acknowledged.extend(writer.await.unwrap());
    }
    assert_eq!(acknowledged.len(), WRITERS * WRITES);
    let mut shared: BTreeMap<Vec<u8>, Vec<DateTime>> = BTreeMap::new();
    let mut last = BTreeMap::new();
    for transaction in wait_for(&log, begin, 1 + WRITERS * WRITES).await.iter().skip(1) {
        for effect in effects(transaction) {
            match effect {
                ChangeEffect::Put { key: at, record, .. } => {
                    if at.ends_with(b"shared") {
                        shared.entry(at.clone()).or_default().push(record.view().unwrap().timestamp());
                    }
                    last.insert(at, Some(record));
                }
                ChangeEffect::Delete { key: at, .. } => drop(last.insert(at, None)),
                other => panic!("{other:?}"),
            }
        }
    }
    // The order of a partition is the order of the Timestamps of the entity that all transactions write.
    let mut shown = BTreeSet::new();
    for (at, stamps) in shared {
        assert!(stamps.is_sorted_by(|one, next| one < next), "{stamps:?}");
        let partition = String::from_utf8(at[..1].to_vec()).unwrap();
        shown.extend(stamps.into_iter().map(|stamp| (partition.clone(), stamp)));
    }
    assert_eq!(shown, acknowledged);
    let entities = all(&*engine, &table).await.into_iter().map(|entity| (entity.key.encode(), entity.record));
    let replayed = last.into_iter().filter_map(|(key, record)| Some((key, record?)));
    assert_eq!(replayed.collect::<BTreeMap<_, _>>(), entities.collect::<BTreeMap<_, _>>());
}

pub async fn a_position_is_found_by_its_time(engine: Arc<dyn Engine>, log: Log, clock: ManualClock) {
    let (begin, table) = (log.kept().next, table("Timed"));
    engine.create_table(&table).await.unwrap();
    let created = wait_for(&log, begin, 1).await[0].time;
    for n in 1..=20 {
        clock.set(created.ticks() + n * SECOND);
        commit_one(&*engine, &table, upsert("p", "r", n)).await.unwrap();
    }
    let all = wait_for(&log, begin, 21).await;
    for (n, transaction) in all.iter().enumerate() {
        let found = log.find(transaction.time).await.unwrap();
        let first = all.iter().find(|other| other.time == transaction.time).unwrap().position;
        assert_eq!(found, first, "{n}");
        let after = DateTime::from_ticks(transaction.time.ticks() + 1).unwrap();
        let later = all.iter().find(|other| other.time >= after).map_or(log.kept().next, |other| other.position);
        assert_eq!(log.find(after).await.unwrap(), later, "{n}");
    }
    assert_eq!(log.find(DateTime::MIN).await.unwrap(), log.kept().first);
    let end = DateTime::parse("9999-12-31T23:59:59Z").unwrap();
    assert_eq!(log.find(end).await.unwrap(), log.kept().next);
}

pub async fn what_is_announced_can_be_read(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let table = table("Announced");
    let mut next = log.watch();
    let mut from = *next.borrow_and_update();
    assert!(from >= log.kept().first);
    engine.create_table(&table).await.unwrap();
    let mut seen = 0;
    for n in 0..50 {
        commit_one(&*engine, &table, upsert("p", "r", n)).await.unwrap();
        while seen < n + 1 {
            timeout(TIMEOUT, next.changed()).await.expect("the change is announced").unwrap();
            let announced = *next.borrow_and_update();
            assert!(log.kept().next >= announced);
            let page = read(&log, from, &ChangeSelection::default(), PAGE_BYTES).await;
            assert!(page.next >= announced, "{page:?} before {announced}");
            let puts =
                page.transactions.iter().flat_map(effects).filter(|effect| matches!(effect, ChangeEffect::Put { .. }));
            seen += i64::try_from(puts.count()).unwrap();
            from = page.next;
        }
    }
    assert_eq!(seen, 50);
}

pub async fn a_deleted_table_is_one_change(engine: Arc<dyn Engine>, log: Log, _: ManualClock) {
    let (begin, table) = (log.kept().next, table("Deleted"));
    engine.create_table(&table).await.unwrap();
    fill(&*engine, &table, "p", &(0..250).map(|n| format!("{n:03}")).collect::<Vec<_>>()).await;
    engine.delete_table(&table).await.unwrap();
    engine.create_table(&table).await.unwrap();
    commit_one(&*engine, &table, insert("p", "000", 1)).await.unwrap();
    let began = std::time::Instant::now();
    while engine.figures().purge_backlog.is_some_and(|backlog| backlog > 0) {
        assert!(began.elapsed() < TIMEOUT, "the purge does not end");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    commit_one(&*engine, &table, delete("p", "000")).await.unwrap();
    let log = wait_for(&log, begin, 8).await;
    let of = Arc::new(table.clone());
    assert_eq!(effects(&log[4]), [ChangeEffect::DeleteTable { table: of }]);
    assert!(matches!(effects(&log[5])[..], [ChangeEffect::CreateTable { .. }]));
    assert!(matches!(effects(&log[6])[..], [ChangeEffect::Put { .. }]));
    assert_eq!(effects(&log[7]), [deletion(&table, &key("p", "000"), false)]);
}

pub async fn deletions_of_expired_entities_are_marked(engine: Arc<dyn Engine>, log: Log, clock: ManualClock) {
    let (begin, table) = (log.kept().next, table("Expiring"));
    engine.create_table(&table).await.unwrap();
    engine.update_settings(&table, retain(Retention::by_age(60))).await.unwrap();
    let mut entities = Vec::new();
    for row in ["a", "b"] {
        entities.push((key("p", row), stamp(commit_one(&*engine, &table, insert("p", row, 1)).await.unwrap())));
    }
    clock.set(entities[1].1.ticks() + 61 * SECOND);
    commit_one(&*engine, &table, insert("p", "c", 1)).await.unwrap();
    let expired = Transaction::deleting_expired(entities).unwrap();
    engine.commit(&table, expired).await.unwrap();
    commit_one(&*engine, &table, delete("p", "c")).await.unwrap();
    let log = wait_for(&log, begin, 7).await;
    let expected = [deletion(&table, &key("p", "a"), true), deletion(&table, &key("p", "b"), true)];
    let effects = log.iter().map(effects);
    let deletions: Vec<_> =
        effects.filter(|effects| matches!(effects[..], [ChangeEffect::Delete { .. }, ..])).collect();
    assert_eq!(deletions, [expected.to_vec(), vec![deletion(&table, &key("p", "c"), false)]]);
}

pub async fn a_log_that_has_dropped_nothing_is_kept_from_its_beginning(
    engine: Arc<dyn Engine>,
    log: Log,
    _: ManualClock,
) {
    let beginning = log.beginning().await.unwrap();
    assert_eq!(log.kept().first, beginning);
    engine.create_table(&table("Begun")).await.unwrap();
    wait_for(&log, beginning, 1).await;
    assert_eq!((log.beginning().await.unwrap(), log.kept().first), (beginning, beginning));
}
