//! Pages: chunks of rows in key order, all from one snapshot, given to the page as they arrive.
//!
//! Invariants:
//!
//! 1. All chunks of a page come from one read-only transaction at REPEATABLE READ.
//! 2. A chunk has a bounded number of rows, chosen so that it has about [`STORE_CHUNK_BYTES`]; and its rows are taken one
//!    by one as they arrive, so memory is bounded whatever their size is.
//! 3. Once an entity has been given to the sink there is no further attempt: a page that breaks is a fault.

use super::attempt::{ATTEMPT_TIME_MAX, Attempts, Trouble};
use super::catalog::{column, control, no_answer};
use super::layout::{Bounds, DatabaseTableId, key_bytes};
use super::pool::Lease;
use super::state::PostgresState;
use super::statements;
use crate::engine::{EntitySink, Fault, ReadError, Scan, ScanEnd, TableKey};
use crate::page::{PageBuilder, ranges_to_visit};
use futures_util::TryStreamExt;
use model::Clock;
use model::limits::{ENTITY_BYTES_MAX, STORE_CHUNK_BYTES};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::pin::pin;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, RowStream};

/// Most rows of the first chunk of a page, while their size is not known.
const CHUNK_ROWS_FIRST: usize = 64;
const CHUNK_ROWS_MIN: usize = 4;
const CHUNK_ROWS_MAX: usize = 4096;

const _: () = assert!(CHUNK_ROWS_MIN * ENTITY_BYTES_MAX <= 4 * STORE_CHUNK_BYTES);

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// How large the next chunk is.
struct ChunkSize {
    rows: usize,
    bytes: usize,
    /// How many rows the page can need, if every row matches.
    rows_needed: usize,
}

impl ChunkSize {
    /// A page without a filter needs as many rows as its limit, and one more.
    fn of(scan: &Scan) -> Self {
        let rows_needed = if scan.filter.is_none() { scan.limit.saturating_add(1) } else { usize::MAX };
        Self { rows: 0, bytes: 0, rows_needed }
    }

    fn next(&self) -> usize {
        let fitting = match self.bytes.checked_div(self.rows) {
            None => CHUNK_ROWS_FIRST,
            Some(average) => (STORE_CHUNK_BYTES / average.max(1)).clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX),
        };
        fitting.min(self.rows_needed.saturating_sub(self.rows)).max(1)
    }

    fn count(&mut self, bytes: usize) {
        self.rows += 1;
        self.bytes += bytes;
    }
}

/// A page that has begun: its connection is in the transaction, and its first rows have been requested.
struct Begun {
    lease: Lease,
    rows: Option<RowStream>,
}

impl<C: Clock> PostgresState<C> {
    pub(super) async fn scan<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> Result<(S, ScanEnd), ReadError> {
        let ranges = ranges_to_visit(&scan);
        let mut size = ChunkSize::of(&scan);
        let mut attempts = Attempts::new(&self.pool.counts);
        let (begun, mut bounds) = loop {
            self.check_open().map_err(ReadError::Fault)?;
            let id = self.id(table).await.map_err(ReadError::Fault)?.ok_or(ReadError::TableNotFound)?;
            let bounds: VecDeque<_> = ranges.iter().map(|range| Bounds::of(id, range)).collect();
            match self.begin(id, bounds.front(), size.next()).await {
                Ok(Some(begun)) => break (begun, bounds),
                // Deleted, and perhaps created again under another id.
                Ok(None) => self.forget(table),
                Err(trouble) => attempts.next(trouble).await.map_err(ReadError::Fault)?,
            }
        };
        let mut page = PageBuilder::new(scan, sink, vec![self.closing.clone()]);
        let Begun { lease, mut rows } = begun;
        let mut asked = size.next();
        while let Some(range) = bounds.pop_front() {
            let stream = if let Some(first) = rows.take() {
                first
            } else {
                asked = size.next();
                start(&lease, &range, asked).await.map_err(|error| broken(&error))?
            };
            match visit(stream, range, asked, &mut size, &mut page).await? {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(Some(rest)) => bounds.push_front(rest),
                ControlFlow::Continue(None) => {}
            }
        }
        // Nothing was written, so a failure here does not matter to the page.
        if control(&lease, "COMMIT").await.is_ok() {
            lease.give_back();
        }
        // A page that was cut short because the engine is closing would look like one that ended by itself.
        self.check_open().map_err(ReadError::Fault)?;
        Ok(page.finish())
    }

    /// Begins the transaction of a page and asks for its first chunk; `None` if the table is gone.
    async fn begin(&self, id: DatabaseTableId, first: Option<&Bounds>, count: usize) -> Result<Option<Begun>, Trouble> {
        let lease = self.pool.take().await?;
        let answers: Result<_, Error> = timeout(ATTEMPT_TIME_MAX, async {
            let lives = lease.prepare_cached(&self.names.table_lives).await?;
            if let Some(bounds) = first {
                lease.prepare_cached(statement(bounds)).await?;
            }
            let (begun, lives, rows) = tokio::join!(
                biased;
                lease.batch_execute(BEGIN),
                async { lease.query_opt(&lives, &[&id.0]).await },
                async {
                    match first {
                        Some(bounds) => start(&lease, bounds, count).await.map(Some),
                        None => Ok(None),
                    }
                },
            );
            begun?;
            Ok((lives?, rows?))
        })
        .await
        .map_err(|_| no_answer())?;
        let (lives, rows) = answers.map_err(|error| Trouble::before_commit(&error))?;
        if lives.is_none() {
            drop(rows);
            control(&lease, "ROLLBACK").await?;
            lease.give_back();
            return Ok(None);
        }
        Ok(Some(Begun { lease, rows }))
    }
}

fn statement(bounds: &Bounds) -> &'static str {
    match bounds {
        Bounds::Rows { to: None, .. } => statements::ROWS_FROM,
        Bounds::Rows { to: Some(_), .. } => statements::ROWS_BETWEEN,
        Bounds::Pairs { .. } => statements::PAIRS_BETWEEN,
    }
}

/// Requests the first rows of a range.
async fn start(lease: &Lease, bounds: &Bounds, count: usize) -> Result<RowStream, Error> {
    let statement = lease.prepare_cached(statement(bounds)).await?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let values: Vec<&(dyn ToSql + Sync)> = match bounds {
        Bounds::Rows { partition, from, to: None } => vec![partition, from, &count],
        Bounds::Rows { partition, from, to: Some(to) } => vec![partition, from, to, &count],
        Bounds::Pairs { from, to } => vec![&from.0, &from.1, &to.0, &to.1, &count],
    };
    lease.query_raw(&statement, values).await
}

/// Gives the rows of a chunk to the page. Returns what is left of the range, if anything.
async fn visit<S: EntitySink>(
    rows: RowStream,
    range: Bounds,
    asked: usize,
    size: &mut ChunkSize,
    page: &mut PageBuilder<S>,
) -> Result<ControlFlow<(), Option<Bounds>>, ReadError> {
    let mut rows = pin!(rows);
    let (mut count, mut key, mut rest) = (0, Vec::new(), None);
    loop {
        // Rows that are already here come without waiting, so this must yield to other tasks.
        consume_budget().await;
        let row = timeout(ATTEMPT_TIME_MAX, rows.try_next()).await;
        let row = row.map_err(|_| {
            ReadError::Fault(Fault::Unavailable("the database stopped answering in the middle of a page".into()))
        })?;
        let Some(row) = row.map_err(|error| broken(&error))? else { break };
        let partition: &[u8] = column(&row, 0).map_err(ReadError::Fault)?;
        let row_key: &[u8] = column(&row, 1).map_err(ReadError::Fault)?;
        let record: &[u8] = column(&row, 2).map_err(ReadError::Fault)?;
        key_bytes(partition, row_key, &mut key);
        count += 1;
        size.count(key.len() + record.len());
        if page.visit(&key, record).map_err(ReadError::Fault)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if count == asked {
            rest = Some((partition.to_vec(), row_key.to_vec()));
        }
    }
    // Fewer rows than requested are all that the range has.
    Ok(ControlFlow::Continue(rest.map(|(partition, row)| range.after(&partition, &row))))
}

/// The fault of a page that broke off. A read changes nothing, so the client may repeat it.
fn broken(error: &Error) -> ReadError {
    ReadError::Fault(match Trouble::before_commit(error) {
        Trouble::Again(reason) | Trouble::Elsewhere(reason) => Fault::Unavailable(reason),
        Trouble::Fault(fault) => fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn size(limit: usize, has_filter: bool) -> ChunkSize {
        let filter = has_filter.then_some(model::Filter::Constant(true));
        let (ranges, deadline) = (Vec::new(), Instant::now());
        ChunkSize::of(&Scan { ranges, from: None, filter, limit, byte_budget: 1, deadline })
    }

    #[test]
    fn chunks_follow_the_size_of_the_rows_and_the_need_of_the_page() {
        let mut plain = size(1000, false);
        assert_eq!(plain.next(), 64);
        (0..64).for_each(|_| plain.count(1024));
        assert_eq!(plain.next(), 937, "the rest of the page and one more");
        let mut large = size(1000, false);
        (0..64).for_each(|_| large.count(STORE_CHUNK_BYTES));
        assert_eq!(large.next(), CHUNK_ROWS_MIN);
        let mut filtered = size(1, true);
        assert_eq!(filtered.next(), 64);
        (0..64).for_each(|_| filtered.count(20));
        assert_eq!(filtered.next(), CHUNK_ROWS_MAX);
        assert_eq!((size(1, false).next(), size(0, false).next()), (2, 1));
    }
}
