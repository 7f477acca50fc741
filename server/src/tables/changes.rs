//! Reads of the change feed.

use super::AccountTables;
use crate::changes::{ChangeBounds, ChangeFeed, ChangeRows, ChangeScope, READ_BYTES};
use crate::failure::Failure;
use crate::telemetry::traces::step;
use engine::parts::page::PageBuilder;
use engine::{ChangesError, EntitySink, Scan, ScanEnd};
use model::{ChangePosition, EntityKey, EntityView, Expiry, KeyRange, Position};
use std::pin::pin;
use std::sync::Arc;
use wire::ErrorCode;

/// The size of the first part of the log that is read for a page, in bytes. Most pages need no more.
const FIRST_READ_BYTES: usize = 256 * 1024;

/// The size of a part of the log that is read only to find the first row after a full page, in bytes.
const LOOK_AHEAD_BYTES: usize = 16 * 1024;

/// The number of transactions of the log that count as an entity for throttling. Passing over a transaction needs much
/// less time than an entity, and most of the log is of other accounts.
const TRANSACTIONS_PER_ENTITY: u64 = 10;

/// The end of a page of changes.
pub(crate) struct ChangesEnd {
    pub(crate) page: ScanEnd,
    /// The number of transactions of the log that were examined, including those of other tables and accounts.
    transactions: u64,
    /// The position up to which there is no other change, if the page ends at the end of the log.
    pub(crate) read_up_to: Option<ChangePosition>,
}

impl AccountTables<'_> {
    pub(crate) fn change_feed(&self) -> Result<&Arc<ChangeFeed>, Failure> {
        self.changes.ok_or_else(|| Failure::query(ErrorCode::TableNotFound))
    }

    /// Scans changes. The ranges, the filter and the limit of the scan apply to the rows of the feed.
    pub(crate) async fn scan_changes<S: EntitySink>(
        &self,
        scope: &ChangeScope,
        bounds: &ChangeBounds,
        scan: Scan,
        sink: S,
    ) -> Result<(S, ChangesEnd), Failure> {
        let feed = self.change_feed()?;
        let admitted = self.throttle.map(|throttle| throttle.admit_scan(self.account)).transpose()?;
        let start = feed.start(bounds).await?;
        let (sink, end) = step("scan changes", pin!(scan_log(feed, scope, (bounds, start), scan, sink))).await?;
        if end.page.examined == 0 && end.page.next.is_none() {
            let checked = self.check_changes_exist(scope).await;
            checked.map_err(|failure| Failure { position: end.read_up_to, ..failure })?;
        }
        if let Some(admitted) = admitted {
            admitted.count_examined(end.page.examined + end.transactions / TRANSACTIONS_PER_ENTITY);
        }
        self.count_read(end.page.examined, end.page.accepted);
        Ok((sink, end))
    }

    /// Rejects a table that does not exist, for a reader that has found no changes of it.
    pub(crate) async fn check_changes_exist(&self, scope: &ChangeScope) -> Result<(), Failure> {
        let Some(table) = &scope.selection.table else { return Ok(()) };
        match step("look up table", pin!(self.engine.table(table))).await? {
            Some(_) => Ok(()),
            None => Err(Failure::query(ErrorCode::TableNotFound)),
        }
    }

    /// Passes one row of the feed to `read`. Returns `None` if there is no such row.
    pub(crate) async fn get_change<R>(
        &self,
        scope: &ChangeScope,
        key: &EntityKey,
        read: impl FnOnce(&EntityView<'_>) -> R,
    ) -> Result<Option<R>, Failure> {
        let feed = self.change_feed()?;
        if let Some(throttle) = self.throttle {
            throttle.admit_request(self.account)?;
        }
        let Some(position) = ChangePosition::parse(key.row.as_str()) else {
            return self.check_changes_exist(scope).await.map(|()| None);
        };
        feed.start(&ChangeBounds::default().starting_at(position)).await?;
        let found = feed.read(position.transaction, &scope.selection, 1).await?;
        let mut rows = ChangeRows::default();
        for transaction in found.transactions.iter().filter(|found| found.position == position.transaction) {
            for change in transaction.changes.iter().filter(|change| change.index == position.index) {
                if let Some((_, row)) = rows.row(transaction, change, scope)?
                    && row.key.partition == key.partition.as_str()
                {
                    self.count_read(1, 1);
                    return Ok(Some(read(&row)));
                }
            }
        }
        self.check_changes_exist(scope).await.map(|()| None)
    }
}

async fn scan_log<S: EntitySink>(
    feed: &ChangeFeed,
    scope: &ChangeScope,
    (bounds, start): (&ChangeBounds, ChangePosition),
    scan: Scan,
    sink: S,
) -> Result<(S, ChangesEnd), Failure> {
    let ranges = scan.ranges.clone();
    let mut page = PageBuilder::new(scan, Expiry::NEVER, sink, Vec::new());
    let ended = |page: PageBuilder<S>, transactions, read_up_to| {
        let (sink, end) = page.finish();
        Ok((sink, ChangesEnd { page: end, transactions, read_up_to }))
    };
    // A page covers what was committed before it began, so it ends even if there are always new changes.
    let end = feed.next();
    let (mut from, mut rows, mut bytes, mut transactions) = (start, ChangeRows::default(), FIRST_READ_BYTES, 0);
    // A reader that names no start begins with what is kept when the first row is found.
    let mut has_begun = bounds.has_start();
    while !ranges.is_empty() && from.transaction < end {
        let read = match feed.read(from.transaction, &scope.selection, bytes).await {
            Err(ChangesError::Dropped(first)) if !has_begun => {
                from = ChangePosition::start_of(first.max(from.transaction + 1));
                continue;
            }
            read => read?,
        };
        transactions += read.next.saturating_sub(from.transaction);
        for transaction in &read.transactions {
            for change in &transaction.changes {
                let position = ChangePosition { transaction: transaction.position, index: change.index };
                if position < from {
                    continue;
                }
                let Some((key, row)) = rows.row(transaction, change, scope)? else { continue };
                let is_past_ranges =
                    ranges.last().is_none_or(|range| range.end.as_deref().is_some_and(|end| key >= end));
                if is_past_ranges || bounds.last.is_some_and(|last| position > last) {
                    return ended(page, transactions, None);
                }
                has_begun = true;
                let is_inside = KeyRange::any_contains(&ranges, key);
                if is_inside && page.visit_view(key, &row)?.is_break() {
                    return ended(page, transactions, None);
                }
            }
        }
        from = ChangePosition::start_of(read.next.max(from.transaction + 1));
        bytes = if page.is_full() { LOOK_AHEAD_BYTES } else { READ_BYTES };
        if page.is_due() && from.transaction < end {
            let next = Position::new("", &from.to_string());
            // The scan ends here, whatever it returns.
            let _break = page.end_before(next.as_bytes());
            return ended(page, transactions, None);
        }
        // Other requests run on the same threads.
        tokio::task::yield_now().await;
    }
    let read_up_to = from.transaction.checked_sub(1).map(ChangePosition::end_of);
    ended(page, transactions, read_up_to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::tests::EmptyLog;
    use crate::clock;
    use crate::limits::throttle::{Targets, Throttle};
    use engine::{Engine, KeepChanges, Memory, SinkDecision, TableKey};
    use model::clock::SystemClock;
    use model::{AccountName, ChangesTable, KeyRange, TableName};
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    struct Ignored;

    impl EntitySink for Ignored {
        fn entity(&mut self, _: &EntityView<'_>) -> SinkDecision {
            SinkDecision::Accepted
        }
    }

    #[tokio::test]
    async fn a_reader_without_a_start_passes_over_what_is_dropped_before_its_first_row() {
        // Of the five transactions, the first read drops three.
        let log = EmptyLog { first: AtomicU64::new(1), next: 6, drops: AtomicU64::new(3), ..EmptyLog::default() };
        let feed = Arc::new(ChangeFeed::new(Arc::new(log), 1));
        let (account, start) = (AccountName::new("orchard").unwrap(), ChangePosition::start_of(1));
        let scope = ChangeScope::new(&account, &ChangesTable::All, vec![KeyRange::all()], false);
        let read = async |bounds: ChangeBounds| {
            let scan = Scan::all(clock::instant() + Duration::from_secs(5));
            scan_log(&feed, &scope, (&bounds, start), scan, Ignored).await.map(|(_, end)| end.read_up_to)
        };
        assert_eq!(read(ChangeBounds::default()).await.unwrap(), Some(ChangePosition::end_of(5)));
        let expired = read(ChangeBounds::default().starting_at(start)).await.unwrap_err();
        assert_eq!(expired.error.code, ErrorCode::PositionExpired);
    }

    #[tokio::test(start_paused = true)]
    async fn log_of_other_tables_counts_for_throttling() {
        let keep = KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX };
        let (engine, account) = (Memory::new(SystemClock).keep_changes(keep), AccountName::new("orchard").unwrap());
        for number in 0..300 {
            let name = TableName::new(&format!("table{number}")).unwrap();
            engine.create_table(&TableKey { account: account.clone(), name }).await.unwrap();
        }
        let feed = Arc::new(ChangeFeed::new(engine.change_log().unwrap(), 1));
        let targets = Targets { account_entities_per_second: 100, partition_entities_per_second: 100 };
        let throttle = Throttle::new(targets, clock::instant());
        let tables = AccountTables::new(&engine, &account, Some(&throttle), None, None, Some(&feed));
        let table = ChangesTable::Of(TableName::new("table0").unwrap());
        let scope = ChangeScope::new(&account, &table, vec![KeyRange::all()], false);
        for admitted in 0..10 {
            let scan = Scan::all(clock::instant() + Duration::from_secs(5));
            match tables.scan_changes(&scope, &ChangeBounds::default(), scan, Ignored).await {
                Ok((_, end)) => assert_eq!((end.page.examined, end.transactions), (1, 300)),
                Err(failure) => {
                    assert_eq!((failure.error.code, admitted), (ErrorCode::ServerBusy, 4));
                    return;
                }
            }
        }
        panic!("nothing was throttled");
    }
}
