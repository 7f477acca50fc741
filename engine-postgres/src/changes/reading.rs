//! Reads the change log.

use crate::changes::decoder::ROW_BYTES;
use crate::changes::stored::{Subject, decode};
use crate::connections::rows::column;
use crate::log_state::LogState;
use crate::state::PostgresState;
use engine::{
    Change, ChangeLog, ChangePage, ChangeSelection, ChangedTransaction, ChangesError, ChangesFuture, Fault,
    KeptChanges, TableKey,
};
use model::{AccountName, DateTime, TableName};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The maximum number of positions that a page examines.
const EXAMINED_MAX: u64 = 10_000;
/// The maximum number of transactions in a page.
const TRANSACTIONS_MAX: usize = 2000;
/// No transaction is smaller, in bytes.
const TRANSACTION_BYTES_MIN: usize = 100;

/// Returns at most `$6` transactions from `$1` on and before `$2` that concern the account `$3` and the table `$4` of
/// the account `$5`, as long as the size of the preceding ones is below `$7`. Each row begins with the positions that
/// are kept. Without such transactions, returns a row with nulls.
const READ: &str = "SELECT l.first, l.next, c.position, c.time, c.account, c.name, c.changes \
     FROM rowhouse_change_log AS l LEFT JOIN \
     (SELECT position, time, account, name, changes, \
       (sum(octet_length(changes) + $8::bigint) OVER (ORDER BY position))::bigint \
         - octet_length(changes) - $8::bigint AS before FROM \
       (SELECT position, time, account, name, changes FROM rowhouse_changes \
         WHERE position >= $1 AND position < $2 AND ($3::text IS NULL OR account = $3) \
         AND ($4::text IS NULL OR account = $5 AND lower(name COLLATE \"C\") = $4) ORDER BY position LIMIT $6) AS f \
     ) AS c ON c.before < $7 WHERE l.is_ready ORDER BY c.position";
/// Returns the position of the last deletion of a table. The first byte of a row is the kind of its first change.
const DELETION: &str = "SELECT max(position) FROM rowhouse_changes WHERE account = $1 \
     AND lower(name COLLATE \"C\") = $2 AND substr(changes, 1, 1) = '\\x05'";
const BEGINNING: &str = "SELECT value FROM rowhouse_meta WHERE name = 'change-log-beginning'";
const KEPT: &str = "SELECT first, next FROM rowhouse_change_log WHERE is_ready";
const TIME_AT: &str = "SELECT time FROM rowhouse_changes WHERE position = $1";

pub(crate) struct PostgresChanges {
    pub(crate) shared: Arc<PostgresState>,
    pub(crate) log: Arc<LogState>,
}

impl ChangeLog for PostgresChanges {
    fn kept(&self) -> KeptChanges {
        self.log.kept()
    }

    fn latest(&self) -> ChangesFuture<'_, KeptChanges> {
        Box::pin(async move {
            let kept = self.shared.kept_changes().await.map_err(ChangesError::Fault)?;
            self.log.note(kept);
            Ok(self.log.kept())
        })
    }

    fn beginning(&self) -> ChangesFuture<'_, u64> {
        Box::pin(async { self.shared.log_beginning().await.map_err(ChangesError::Fault) })
    }

    fn read<'a>(&'a self, from: u64, selection: &'a ChangeSelection, bytes: usize) -> ChangesFuture<'a, ChangePage> {
        Box::pin(self.shared.read_changes(from, selection, bytes))
    }

    fn find(&self, time: DateTime) -> ChangesFuture<'_, u64> {
        Box::pin(async move {
            let (found, kept) = self.shared.find_change(time).await.map_err(ChangesError::Fault)?;
            self.log.note(kept);
            Ok(found)
        })
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.log.watch()
    }
}

impl PostgresState {
    async fn read_changes(
        &self,
        from: u64,
        selection: &ChangeSelection,
        bytes: usize,
    ) -> Result<ChangePage, ChangesError> {
        let existing = selection.table.as_ref().filter(|_| selection.existing_only);
        let deleted = match existing {
            Some(table) => self.last_deletion(table).await.map_err(ChangesError::Fault)?,
            None => None,
        };
        let end = from.saturating_add(EXAMINED_MAX);
        let (first, before) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(end).unwrap_or(i64::MAX));
        let account = selection.account.as_ref().map(AccountName::as_str);
        let table = selection.table.as_ref().map(|table| table.name.folded());
        let of = selection.table.as_ref().map(|table| table.account.as_str());
        let limit = (bytes / TRANSACTION_BYTES_MIN).clamp(16, TRANSACTIONS_MAX);
        let (rows_max, bytes_max) =
            (i64::try_from(limit).unwrap_or(i64::MAX), i64::try_from(bytes.max(1)).unwrap_or(i64::MAX));
        let values: [&(dyn ToSql + Sync); 8] =
            [&first, &before, &account, &table, &of, &rows_max, &bytes_max, &ROW_BYTES];
        let rows = self.persist(async || self.pool.read(READ, &values).await).await.map_err(ChangesError::Fault)?;
        let kept = rows.first().map(kept).transpose().map_err(ChangesError::Fault)?.ok_or_else(missing)?;
        if from < kept.first {
            return Err(ChangesError::Dropped(kept.first));
        }
        let mut page = ChangePage { transactions: Vec::new(), next: end.min(kept.next).max(from) };
        let (mut subject, mut size) = (None, 0);
        for row in &rows {
            let transaction = transaction(row, &mut subject, &mut size).map_err(ChangesError::Fault)?;
            page.transactions.extend(transaction);
        }
        // The page is full, so what follows was not read.
        if let Some(last) = page.transactions.last().filter(|_| rows.len() >= limit || size >= bytes) {
            page.next = last.position + 1;
        }
        for transaction in page.transactions.iter_mut().filter(|found| deleted.is_some_and(|at| found.position < at)) {
            transaction.changes.retain(|change| !change.effect.is_of_entity());
        }
        page.transactions.retain(|transaction| !transaction.changes.is_empty());
        Ok(page)
    }

    async fn last_deletion(&self, table: &TableKey) -> Result<Option<u64>, Fault> {
        let (account, name) = (table.account.as_str(), table.name.folded());
        let rows = self.persist(async || self.pool.read(DELETION, &[&account, &name]).await).await?;
        let position = rows.first().map(|row| column::<Option<i64>>(row, 0)).transpose()?.flatten();
        Ok(position.and_then(|position| u64::try_from(position).ok()))
    }

    async fn kept_changes(&self) -> Result<KeptChanges, Fault> {
        let rows = self.persist(async || self.pool.read(KEPT, &[]).await).await?;
        kept(rows.first().ok_or_else(|| Fault::Unavailable(NO_LOG.into()))?)
    }

    async fn log_beginning(&self) -> Result<u64, Fault> {
        let rows = self.persist(async || self.pool.read(BEGINNING, &[]).await).await?;
        let beginning = rows.first().map(|row| column::<i64>(row, 0)).transpose()?;
        Ok(beginning.and_then(|beginning| u64::try_from(beginning).ok()).unwrap_or(0))
    }

    /// Also returns what was kept after the search.
    async fn find_change(&self, time: DateTime) -> Result<(u64, KeptChanges), Fault> {
        let KeptChanges { first: mut low, next: mut high } = self.kept_changes().await?;
        while low < high {
            let middle = low + (high - low) / 2;
            let position = i64::try_from(middle).unwrap_or(i64::MAX);
            let rows = self.persist(async || self.pool.read(TIME_AT, &[&position]).await).await?;
            // A transaction that is missing by now was older than all that are kept.
            match rows.first().map(|row| column::<i64>(row, 0)).transpose()? {
                Some(found) if found >= time.ticks() => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok((low, self.kept_changes().await?))
    }
}

const NO_LOG: &str = "the change log is being replaced";

fn missing() -> ChangesError {
    ChangesError::Fault(Fault::Unavailable(NO_LOG.into()))
}

fn kept(row: &Row) -> Result<KeptChanges, Fault> {
    let number = |index| column::<i64>(row, index).map(|value| u64::try_from(value).unwrap_or(0));
    Ok(KeptChanges { first: number(0)?, next: number(1)? })
}

/// Returns `None` for a row with nulls. `last` is the subject of the last row, and `bytes` the size of all rows.
fn transaction(row: &Row, last: &mut Option<Subject>, bytes: &mut usize) -> Result<Option<ChangedTransaction>, Fault> {
    let Some(position) = column::<Option<i64>>(row, 2)? else { return Ok(None) };
    let damaged = || Fault::Damaged(format!("the transaction {position} of the change log cannot be read"));
    let time = DateTime::from_ticks(column(row, 3)?).ok_or_else(damaged)?;
    let (account, name): (&str, Option<&str>) = (column(row, 4)?, column(row, 5)?);
    let known = last.take().filter(|last| is_subject(last, account, name));
    let subject = known.or_else(|| subject(account, name)).ok_or_else(damaged)?;
    let changes: &[u8] = column(row, 6)?;
    *bytes += changes.len() + usize::try_from(ROW_BYTES).unwrap_or(0);
    let effects = decode(changes, &subject, time).ok_or_else(damaged)?;
    let changes = (0..).zip(effects).map(|(index, effect)| Change { index, effect }).collect();
    *last = Some(subject);
    Ok(Some(ChangedTransaction { position: u64::try_from(position).map_err(|_| damaged())?, time, changes }))
}

fn subject(account: &str, name: Option<&str>) -> Option<Subject> {
    let account = AccountName::new(account)?;
    Some(match name {
        Some(name) => Subject::Table(Arc::new(TableKey { account, name: TableName::stored(name).ok()? })),
        None => Subject::Account(account),
    })
}

fn is_subject(subject: &Subject, account: &str, name: Option<&str>) -> bool {
    match subject {
        Subject::Table(table) => table.account.as_str() == account && Some(table.name.as_str()) == name,
        Subject::Account(known) => known.as_str() == account && name.is_none(),
    }
}
