//! The log of the memory engine, kept in memory.
//!
//! Transactions are dropped when another one is added, so the last one stays readable for any time, and a reader that
//! has read everything never finds its position dropped.
//!
//! If a test returns the engine to a state, the log drops everything and skips a position: the dropped transactions did
//! not lead to this state, and the skipped position lets a reader notice this even if it had read all of them.

use super::MemoryState;
use crate::changes::{
    Change, ChangeEffect, ChangeLog, ChangePage, ChangeSelection, ChangedTransaction, ChangesEnd, ChangesError,
    ChangesFuture, DatedChangeLog, KeepChanges, KeptChanges,
};
use crate::contract::TableKey;
use model::{AccountName, DateTime};
use std::collections::{HashMap, VecDeque};
use tokio::sync::watch;

/// The maximum number of transactions that one read visits.
const READ_TRANSACTIONS_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct MemoryChanges {
    keep: KeepChanges,
    /// The transactions, with the size of each in bytes. Their positions are consecutive and end before `next`.
    transactions: VecDeque<(ChangedTransaction, u64)>,
    bytes: u64,
    /// The position of the last kept deletion of each table, by account and folded name.
    deletions: HashMap<(AccountName, Box<str>), u64>,
    last_time: DateTime,
    beginning: u64,
    next: watch::Sender<u64>,
}

impl MemoryChanges {
    /// `first` is the position of the first transaction.
    pub(super) fn new(keep: KeepChanges, first: u64) -> Self {
        let (transactions, next) = (VecDeque::new(), watch::Sender::new(first));
        Self {
            keep,
            beginning: first,
            transactions,
            bytes: 0,
            deletions: HashMap::new(),
            last_time: DateTime::MIN,
            next,
        }
    }

    /// Appends a transaction. `time` is its Timestamp, or the time of the commit.
    pub(super) fn append(&mut self, time: DateTime, now: DateTime, effects: impl IntoIterator<Item = ChangeEffect>) {
        // The accounts of a test have separate Timestamps.
        self.last_time = self.last_time.max(time);
        let changes: Vec<Change> =
            (0..).zip(effects).map(|(index, effect): (u32, _)| Change { index, effect }).collect();
        let bytes = changes.iter().map(|change| change.effect.bytes() as u64).sum();
        let position = *self.next.borrow();
        self.deletions.extend(deleted(&changes).map(|table| (table, position)));
        self.transactions.push_back((ChangedTransaction { position, time: self.last_time, changes }, bytes));
        self.bytes += bytes;
        self.drop_excess(now);
        self.next.send_replace(position + 1);
    }

    fn drop_excess(&mut self, now: DateTime) {
        let oldest = now.to_system_time().checked_sub(self.keep.age).map_or(DateTime::MIN, DateTime::from_system_time);
        while self.transactions.len() > 1
            && let Some((first, bytes)) = self.transactions.front()
            && (self.bytes > self.keep.bytes || first.time < oldest)
        {
            self.bytes -= bytes;
            if deleted(&first.changes).next().is_some() {
                let dropped = first.position;
                self.deletions.retain(|_, position| *position != dropped);
            }
            self.transactions.pop_front();
        }
    }

    /// Drops everything, because the engine returns to an earlier state.
    pub(super) fn restart(&mut self) {
        self.transactions.clear();
        self.deletions.clear();
        self.bytes = 0;
        self.next.send_modify(|next| *next += 1);
    }

    /// Removes the changes of an account that no longer exists. A later account with the same name does not get them.
    pub(super) fn clear_account(&mut self, account: &AccountName) {
        let of_account = ChangeSelection { account: Some(account.clone()), ..ChangeSelection::default() };
        for (transaction, _) in &mut self.transactions {
            transaction.changes.retain(|change| !of_account.selects(&change.effect));
        }
        self.deletions.retain(|(of, _), _| of != account);
    }

    pub(super) fn next(&self) -> u64 {
        *self.next.borrow()
    }

    /// Returns the end. Later transactions are later than `time`, and than the last one.
    fn end(&mut self, time: DateTime) -> ChangesEnd {
        let time = time.max(self.last_time);
        self.last_time = time.next();
        ChangesEnd { next: self.next(), time }
    }

    fn kept(&self) -> KeptChanges {
        let next = self.next();
        KeptChanges { first: next - self.transactions.len() as u64, next }
    }

    fn read(&self, from: u64, selection: &ChangeSelection, bytes_max: usize) -> Result<ChangePage, ChangesError> {
        let KeptChanges { first, .. } = self.kept();
        let skipped = from.checked_sub(first).ok_or(ChangesError::Dropped(first))?;
        let mut page = ChangePage { transactions: Vec::new(), next: from };
        let mut bytes = 0;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let table = selection.table.as_ref().filter(|_| selection.existing_only);
        let deleted = table.and_then(|table| self.deletions.get(&owner(table))).copied().unwrap_or(0);
        for (transaction, _) in self.transactions.iter().skip(skipped).take(READ_TRANSACTIONS_MAX) {
            let is_earlier = transaction.position < deleted;
            let is_selected =
                |change: &&Change| selection.selects(&change.effect) && !(is_earlier && change.effect.is_of_entity());
            let bytes_of = |change: &Change| change.effect.bytes();
            let more: usize = transaction.changes.iter().filter(is_selected).map(bytes_of).sum();
            if more > 0 {
                bytes += more;
                if bytes > bytes_max && !page.transactions.is_empty() {
                    break;
                }
                let changes = transaction.changes.iter().filter(is_selected).cloned().collect();
                page.transactions.push(ChangedTransaction { changes, ..*transaction });
            }
            page.next = transaction.position + 1;
        }
        Ok(page)
    }

    fn find(&self, time: DateTime) -> u64 {
        let before = self.transactions.partition_point(|(transaction, _)| transaction.time < time);
        self.kept().first + before as u64
    }
}

fn owner(table: &TableKey) -> (AccountName, Box<str>) {
    (table.account.clone(), table.name.folded().into())
}

/// Returns the tables that changes delete.
fn deleted(changes: &[Change]) -> impl Iterator<Item = (AccountName, Box<str>)> {
    changes.iter().filter_map(|change| match &change.effect {
        ChangeEffect::DeleteTable { table } => Some(owner(table)),
        _ => None,
    })
}

impl MemoryState {
    /// Only called if the engine keeps a log.
    fn changes<R>(&self, read: impl FnOnce(&MemoryChanges) -> R) -> R {
        let state = self.state.read();
        read(state.changes.as_ref().expect("the engine keeps a log"))
    }
}

impl ChangeLog for MemoryState {
    fn kept(&self) -> KeptChanges {
        self.changes(MemoryChanges::kept)
    }

    fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
        Box::pin(async { Ok(self.kept()) })
    }

    fn beginning(&self) -> ChangesFuture<'_, u64> {
        Box::pin(async { Ok(self.changes(|changes| changes.beginning)) })
    }

    fn read<'a>(&'a self, from: u64, selection: &'a ChangeSelection, bytes: usize) -> ChangesFuture<'a, ChangePage> {
        Box::pin(async move {
            self.check_open().map_err(ChangesError::Fault)?;
            self.changes(|changes| changes.read(from, selection, bytes))
        })
    }

    fn find(&self, time: DateTime) -> ChangesFuture<'_, u64> {
        Box::pin(async move {
            self.check_open().map_err(ChangesError::Fault)?;
            Ok(self.changes(|changes| changes.find(time)))
        })
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.changes(|changes| changes.next.subscribe())
    }
}

impl DatedChangeLog for MemoryState {
    fn end(&self) -> ChangesFuture<'_, ChangesEnd> {
        Box::pin(async move {
            self.check_open().map_err(ChangesError::Fault)?;
            let mut state = self.state.write();
            let now = state.clock.now();
            let end = state.changes.as_mut().expect("the engine keeps a log").end(now);
            state.stamps.skip_to(end.time);
            Ok(end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::CHANGE_BYTES;
    use crate::contract::Engine;
    use crate::memory::Memory;
    use model::clock::SystemClock;
    use model::{EntityKey, Mutation, RecordBuilder, TableName, Transaction};
    use std::time::Duration;

    const ALL: KeepChanges = KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX };

    fn table(account: &str, name: &str) -> TableKey {
        TableKey { account: AccountName::new(account).unwrap(), name: TableName::new(name).unwrap() }
    }

    async fn insert(engine: &Memory, table: &TableKey, row: &str) {
        let (key, properties) = (EntityKey::new("p", row).unwrap(), RecordBuilder::default());
        engine.commit(table, Transaction::single(Mutation::Insert { key, properties })).await.unwrap();
    }

    /// Returns the rows put, each with its position.
    async fn rows(log: &dyn ChangeLog, from: u64, selection: &ChangeSelection) -> Vec<(u64, String)> {
        let (mut rows, mut from) = (Vec::new(), from);
        while from < log.kept().next {
            let page = log.read(from, selection, 1).await.unwrap();
            assert!(page.transactions.len() <= 1 && page.next > from);
            for transaction in page.transactions {
                for change in transaction.changes {
                    if let ChangeEffect::Put { key, .. } = change.effect {
                        rows.push((transaction.position, String::from_utf8_lossy(&key[2..]).into_owned()));
                    }
                }
            }
            from = page.next;
        }
        rows
    }

    fn numbered(rows: &[(u64, String)]) -> Vec<(u64, &str)> {
        rows.iter().map(|(position, row)| (*position, row.as_str())).collect()
    }

    #[tokio::test]
    async fn a_reader_gets_what_it_selects_in_order() {
        let engine = Memory::new(SystemClock).keep_changes(ALL);
        let log = engine.change_log().unwrap();
        let mut watch = log.watch();
        let (one, other) = (table("orchard", "trees"), table("meadow", "trees"));
        for table in [&one, &other] {
            engine.create_table(table).await.unwrap();
        }
        assert!(engine.create_table(&one).await.is_err());
        insert(&engine, &one, "a").await;
        insert(&engine, &other, "b").await;
        insert(&engine, &one, "c").await;
        engine.delete_table(&one).await.unwrap();
        assert_eq!(*watch.borrow_and_update(), 7);
        assert_eq!(log.kept(), KeptChanges { first: 1, next: 7 });
        let all = rows(&*log, 1, &ChangeSelection::default()).await;
        assert_eq!(numbered(&all), [(3, "a"), (4, "b"), (5, "c")]);
        let of_one = ChangeSelection { table: Some(one), ..ChangeSelection::default() };
        assert_eq!(numbered(&rows(&*log, 4, &of_one).await), [(5, "c")]);
        let of_other = ChangeSelection { account: Some(other.account), ..ChangeSelection::default() };
        assert_eq!(numbered(&rows(&*log, 1, &of_other).await), [(4, "b")]);
        assert_eq!(log.read(7, &of_other, 1).await.unwrap().next, 7);
    }

    #[tokio::test]
    async fn the_oldest_transactions_are_dropped_when_there_are_too_many() {
        let bytes = 3 * CHANGE_BYTES as u64;
        let engine = Memory::new(SystemClock).keep_changes(KeepChanges { bytes, ..ALL });
        let (log, trees) = (engine.change_log().unwrap(), table("orchard", "trees"));
        engine.create_table(&trees).await.unwrap();
        for row in ["a", "b", "c", "d"] {
            insert(&engine, &trees, row).await;
        }
        let kept = log.kept();
        assert_eq!(kept, KeptChanges { first: 4, next: 6 });
        let dropped = log.read(3, &ChangeSelection::default(), 1).await;
        assert!(matches!(dropped, Err(ChangesError::Dropped(4))), "{dropped:?}");
        assert_eq!(log.find(DateTime::MIN).await.unwrap(), 4);
        assert_eq!(log.find(DateTime::MAX).await.unwrap(), 6);
    }

    #[tokio::test]
    async fn a_return_to_a_state_drops_everything_and_a_reader_notices() {
        let engine = Memory::for_tests(SystemClock).keep_changes(ALL);
        let (log, checkpoints) = (engine.change_log().unwrap(), engine.checkpoints());
        let (trees, other) = (table("orchard", "trees"), table("meadow", "trees"));
        let start = checkpoints.take();
        engine.create_table(&trees).await.unwrap();
        engine.create_table(&other).await.unwrap();
        insert(&engine, &trees, "a").await;
        insert(&engine, &other, "b").await;
        checkpoints.clear_account(&trees.account);
        assert_eq!(numbered(&rows(&*log, 1, &ChangeSelection::default()).await), [(4, "b")]);
        let read_up_to = log.kept().next;
        for with_stamps in [true, false] {
            if with_stamps {
                checkpoints.reset_to(&start);
            } else {
                checkpoints.restore(&start);
            }
            let kept = log.kept();
            assert!(kept.first == kept.next && kept.next > read_up_to);
            let dropped = log.read(read_up_to, &ChangeSelection::default(), 1).await;
            assert!(matches!(dropped, Err(ChangesError::Dropped(first)) if first == kept.first), "{dropped:?}");
        }
    }
}
