//! The part of a page that one connection reads: chunks of rows in the order of the scan, consumed one by one as they
//! arrive.
//!
//! One statement reads a chunk from many ranges: the database looks up one range after the other until the chunk is
//! full. It costs about as much as the lookups, so a query of 600 entities needs a few statements instead of 600.
//!
//! Invariant: the number of rows in a chunk is bounded, based on what the page needs and on the average row size, and
//! this module holds at most one row of the chunk. Memory is therefore bounded, whatever the size of the rows.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError};
use crate::connections::pool::Lease;
use crate::connections::rows::{column, control};
use crate::layout::{Bounds, key_bytes};
use crate::requests::catalog::{are_moving, prepare_moving};
use crate::state::KnownTable;
use crate::statements;
use engine::{Fault, ReadError, Scan};
use futures_util::TryStreamExt;
use model::limits::{ENTITY_BYTES_MAX, STORE_CHUNK_BYTES};
use std::collections::VecDeque;
use std::pin::Pin;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, RowStream};

/// The maximum number of rows in the first chunk of a page, while the row size is unknown.
const CHUNK_ROWS_FIRST: usize = 64;
const CHUNK_ROWS_MIN: usize = 4;
const CHUNK_ROWS_MAX: usize = 4096;
/// The maximum number of prepared statements that a connection keeps when it starts to read shards. About thirty of
/// them are for other purposes.
const STATEMENTS_MAX: usize = 64;
/// The approximate maximum size of a chunk for a page without a filter, in bytes. Such a page is certain to need the
/// rows.
const NEEDED_BYTES_MAX: usize = 4 * STORE_CHUNK_BYTES;

/// The maximum number of ranges that one statement reads.
const STATEMENT_RANGES_MAX: usize = 1024;

const _: () = assert!(CHUNK_ROWS_MIN * ENTITY_BYTES_MAX <= NEEDED_BYTES_MAX);

pub(crate) struct ChunkSize {
    rows: usize,
    bytes: usize,
    /// The average row size of the table, if known from an earlier page.
    known_average: Option<usize>,
    /// The number of rows that the page needs if every row matches.
    rows_needed: usize,
    /// The approximate number of bytes in the page, or [`usize::MAX`] if it is unknown.
    bytes_expected: usize,
    has_filter: bool,
    parts: usize,
}

impl ChunkSize {
    /// Creates the chunk sizes for a scan. A page without a filter needs as many rows as its limit, plus one.
    pub(crate) fn new(scan: &Scan, known_average: Option<usize>) -> Self {
        let has_filter = scan.filter.is_some();
        let rows_needed = if has_filter { usize::MAX } else { scan.limit.saturating_add(1) };
        let bytes_expected = scan.bytes_expected;
        Self { rows: 0, bytes: 0, known_average, rows_needed, bytes_expected, has_filter, parts: 1 }
    }

    pub(crate) fn share(&mut self, parts: usize) {
        self.parts = parts.max(1);
    }

    pub(crate) fn average(&self) -> Option<usize> {
        self.bytes.checked_div(self.rows)
    }

    /// Returns the number of rows to request over one connection. So far, `before` rows of this range have been
    /// requested over this connection.
    pub(crate) fn next(&self, before: usize) -> usize {
        let average = if self.rows < CHUNK_ROWS_FIRST { self.known_average } else { None };
        let whole = match average.or(self.average()) {
            None => CHUNK_ROWS_FIRST,
            Some(average) if self.has_filter => STORE_CHUNK_BYTES / average.max(1),
            Some(average) => {
                // Request one row more than the page needs, whether its size or its number of entities is the limit. A
                // page that needs more than expected continues in chunks of the usual size.
                let left = self.bytes_expected.checked_sub(self.bytes).filter(|left| *left > 0);
                let needed = left.unwrap_or(STORE_CHUNK_BYTES) / average.max(1);
                needed.saturating_add(2).min(NEEDED_BYTES_MAX / average.max(1))
            }
        };
        let whole = whole.clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX);
        let whole = whole.min(self.rows_needed.saturating_sub(self.rows)).max(1);
        if self.parts == 1 {
            return whole;
        }
        // Partitions are distributed randomly, so the shares differ by about the square root of their size. If all rows
        // of a share are used although the page is not full, the share is larger than expected, for example because the
        // node stores a large partition.
        let share = whole / self.parts;
        (share + 2 * share.isqrt() + 1).max(2 * before).min(whole)
    }

    pub(crate) fn count(&mut self, bytes: usize) {
        self.rows += 1;
        self.bytes += bytes;
    }
}

pub(crate) struct TransactionStart {
    /// Whether the table exists and has not changed, and no shards are being moved.
    pub(crate) is_current: bool,
    /// The IDs of the node's shards, in ascending order, if they were requested.
    pub(crate) shards: Option<Vec<i64>>,
}

/// What a part reads.
pub(crate) enum Source {
    Table {
        is_distributed: bool,
    },
    /// The shards of this node, which the statement names. The statement is that of one range or of many.
    Shards {
        statement: String,
        is_of_ranges: bool,
    },
}

pub(crate) struct Part {
    lease: Lease,
    source: Source,
    is_descending: bool,
    rows: Option<Pin<Box<RowStream>>>,
    /// The number of rows requested so far.
    requested: usize,
    asked: usize,
    /// The number of rows of that chunk that have arrived.
    count: usize,
    /// The ranges that have not been read to their ends, in the order of the scan.
    ranges: VecDeque<Bounds>,
    /// The number of these ranges from which the chunk was requested.
    asked_ranges: usize,
    /// The first row that has not been consumed, and its key bytes.
    head: Option<Row>,
    key: Vec<u8>,
}

impl Part {
    /// Creates a part that reads ranges, which are in the order of the scan.
    pub(crate) fn new(lease: Lease, source: Source, ranges: &[Bounds], is_descending: bool) -> Self {
        // Each time a shard is moved, the statement changes, but the database keeps the plan of the old statement.
        if matches!(source, Source::Shards { .. }) && lease.statement_cache.size() > STATEMENTS_MAX {
            lease.statement_cache.clear();
        }
        let are_pairs = match source {
            Source::Shards { .. } => true,
            Source::Table { is_distributed } => {
                !is_distributed && ranges.len() > 1 && !Bounds::have_one_partition(ranges)
            }
        };
        let ranges = ranges.iter().cloned().map(|range| if are_pairs { range.into_pairs() } else { range }).collect();
        let (rows, head, key) = (None, None, Vec::new());
        Self {
            lease,
            source,
            is_descending,
            rows,
            requested: 0,
            asked: 0,
            count: 0,
            ranges,
            asked_ranges: 0,
            head,
            key,
        }
    }

    /// Checks whether shards are being moved. Then begins the transaction and requests three things together: whether a
    /// table is current, which shards the node has, and the first rows. The shards are queried with the statement
    /// `shards`, if there is one.
    pub(crate) async fn begin(
        &mut self,
        begin: &str,
        is_distributed: bool,
        (table_is_current, table): (&str, &KnownTable),
        shards: Option<&str>,
        size: &ChunkSize,
    ) -> Result<TransactionStart, Error> {
        let moving = prepare_moving(&self.lease, is_distributed).await?;
        let table_is_current = self.lease.prepare_cached(table_is_current).await?;
        let shards = match shards {
            Some(shards) => Some(self.lease.prepare_cached(shards).await?),
            None => None,
        };
        self.choose_ranges();
        if self.asked_ranges > 0 {
            self.lease.prepare_cached(self.request().statement).await?;
        }
        let asked = size.next(0);
        let (are_moving, begun, is_current, shards, rows) = tokio::join!(
            biased;
            are_moving(&self.lease, moving.as_ref()),
            self.lease.batch_execute(begin),
            async { self.lease.query_opt(&table_is_current, &[&table.id.0, &table.generation]).await },
            async {
                match &shards {
                    Some(shards) => self.lease.query_one(shards, &[]).await?.try_get(0),
                    None => Ok(None),
                }
            },
            async { if self.asked_ranges > 0 { self.start(asked).await.map(Some) } else { Ok(None) } },
        );
        begun?;
        let beginning = TransactionStart { is_current: is_current?.is_some() && !are_moving?, shards: shards? };
        if let Some(rows) = rows? {
            self.await_rows(rows, asked);
        }
        Ok(beginning)
    }

    /// Determines from how many ranges the next chunk is requested.
    fn choose_ranges(&mut self) {
        let may_be_many = match &self.source {
            Source::Shards { .. } | Source::Table { is_distributed: false } => true,
            // Citus can join one partition with a list of ranges, because it forwards the whole statement to one node.
            Source::Table { is_distributed: true } => Bounds::have_one_partition(self.ranges.make_contiguous()),
        };
        self.asked_ranges = self.ranges.len().min(if may_be_many { STATEMENT_RANGES_MAX } else { 1 });
    }

    /// Returns the request for the next chunk, which is of at least one range, without its size.
    fn request(&self) -> ChunkRequest<'_> {
        let ranges: Vec<&Bounds> = self.ranges.iter().take(self.asked_ranges).collect();
        ChunkRequest::new(&self.source, &ranges, self.is_descending)
    }

    async fn start(&self, asked: usize) -> Result<RowStream, Error> {
        let ChunkRequest { statement, keys, lists } = self.request();
        let statement = self.lease.prepare_cached(statement).await?;
        let asked = i64::try_from(asked).unwrap_or(i64::MAX);
        let keys = keys.iter().map(|key| key as &(dyn ToSql + Sync));
        let lists = lists.iter().map(|list| list as &(dyn ToSql + Sync));
        let values: Vec<_> = keys.chain(lists).chain([&asked as &(dyn ToSql + Sync)]).collect();
        self.lease.query_raw(&statement, values).await
    }

    fn await_rows(&mut self, rows: RowStream, asked: usize) {
        self.rows = Some(Box::pin(rows));
        self.requested += asked;
        (self.asked, self.count, self.head) = (asked, 0, None);
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.head.as_ref().map(|_| self.key.as_slice())
    }

    pub(crate) fn record(&self) -> Result<Option<&[u8]>, ReadError> {
        self.head.as_ref().map(|head| column(head, 2)).transpose().map_err(ReadError::Fault)
    }

    pub(crate) async fn advance(&mut self, size: &ChunkSize) -> Result<(), ReadError> {
        self.head = None;
        while let Some(rows) = &mut self.rows {
            if let Some(row) = next_row(rows.as_mut()).await? {
                let partition: &[u8] = column(&row, 0).map_err(ReadError::Fault)?;
                let row_key: &[u8] = column(&row, 1).map_err(ReadError::Fault)?;
                key_bytes(partition, row_key, &mut self.key);
                self.count += 1;
                self.lease.record_rows(1);
                if self.count == self.asked {
                    let is_descending = self.is_descending;
                    while self.ranges.front().is_some_and(|range| range.is_passed(partition, row_key, is_descending)) {
                        self.ranges.pop_front();
                    }
                    if let Some(first) = self.ranges.pop_front() {
                        self.ranges.push_front(first.rest(partition, row_key, is_descending));
                    }
                }
                self.head = Some(row);
                return Ok(());
            }
            self.rows = None;
            // If fewer rows arrive than were requested, the ranges have no more rows.
            if self.count < self.asked {
                self.ranges.drain(..self.asked_ranges.min(self.ranges.len()));
            }
            if !self.ranges.is_empty() {
                let asked = size.next(self.requested);
                self.choose_ranges();
                let rows = self.start(asked).await.map_err(|error| broken(&error))?;
                self.await_rows(rows, asked);
            }
        }
        Ok(())
    }

    /// Ends the transaction, in which nothing was written, and returns the connection. Requested rows that have not
    /// arrived are discarded.
    pub(crate) async fn end(mut self, sql: &str) {
        drop(self.rows.take());
        if control(&self.lease, sql).await.is_ok() {
            self.lease.return_to_pool();
        }
    }
}

/// A statement that reads a chunk. Its parameters are the keys, the lists of keys and the size of the chunk.
struct ChunkRequest<'r> {
    statement: &'r str,
    keys: Vec<&'r [u8]>,
    lists: Vec<Vec<&'r [u8]>>,
}

/// The columns of ranges that are pairs.
const PAIR_COLUMNS: [fn(&Bounds) -> &[u8]; 4] =
    [Bounds::start_partition, Bounds::start_row, Bounds::end_partition, Bounds::end_row];

impl<'r> ChunkRequest<'r> {
    /// Returns the request for the rows in ranges, at least one.
    fn new(source: &'r Source, ranges: &[&'r Bounds], is_descending: bool) -> Self {
        let one = |statement: &'r str, keys: &[&'r Vec<u8>]| {
            let keys = keys.iter().map(|key| key.as_slice()).collect();
            Self { statement, keys, lists: Vec::new() }
        };
        let many = |statement: &'r str, keys, columns: &[fn(&Bounds) -> &[u8]]| {
            let lists = columns.iter().map(|column| ranges.iter().map(|range| column(range)).collect()).collect();
            Self { statement, keys, lists }
        };
        match (source, ranges) {
            (Source::Shards { statement, is_of_ranges: true }, _) => many(statement, Vec::new(), &PAIR_COLUMNS),
            (Source::Shards { statement, .. }, [Bounds::Pairs { from, to }]) => {
                one(statement, &[&from.0, &from.1, &to.0, &to.1])
            }
            (_, [Bounds::Rows { partition, from, to: None }]) => {
                one(statements::ROWS_FROM.text(is_descending), &[partition, from])
            }
            (_, [Bounds::Rows { partition, from, to: Some(to) }]) => {
                one(statements::ROWS_BETWEEN.text(is_descending), &[partition, from, to])
            }
            (_, [Bounds::Pairs { from, to }]) => {
                one(statements::PAIRS_BETWEEN.text(is_descending), &[&from.0, &from.1, &to.0, &to.1])
            }
            (_, [Bounds::Rows { partition, .. }, ..]) => {
                let statement = statements::ROWS_IN_RANGES.text(is_descending);
                many(statement, vec![partition.as_slice()], &[Bounds::start_row, Bounds::end_row])
            }
            (_, _) => many(statements::PAIRS_IN_RANGES.text(is_descending), Vec::new(), &PAIR_COLUMNS),
        }
    }
}

pub(crate) async fn next_row(mut rows: Pin<&mut RowStream>) -> Result<Option<Row>, ReadError> {
    let row = timeout(ATTEMPT_TIME_MAX, rows.try_next()).await.map_err(|_| {
        ReadError::Fault(Fault::Unavailable("the database stopped responding in the middle of a page".into()))
    })?;
    row.map_err(|error| broken(&error))
}

pub(crate) fn broken(error: &Error) -> ReadError {
    fault_of(AttemptError::before_commit(error))
}

/// A read changes nothing, so the client may retry it.
pub(crate) fn fault_of(trouble: AttemptError) -> ReadError {
    ReadError::Fault(match trouble {
        AttemptError::Retry(reason) | AttemptError::RetryElsewhere(reason) => Fault::Unavailable(reason),
        AttemptError::Fault(fault) => fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn scan(limit: usize, has_filter: bool) -> Scan {
        let filter = has_filter.then_some(model::Filter::Constant(true));
        Scan { filter, limit, ..Scan::all(Instant::now()) }
    }

    fn size(limit: usize, has_filter: bool) -> ChunkSize {
        ChunkSize::new(&scan(limit, has_filter), None)
    }

    #[test]
    fn chunks_follow_the_size_of_the_rows_and_the_need_of_the_page() {
        let mut plain = size(1000, false);
        assert_eq!(plain.next(0), 64);
        (0..64).for_each(|_| plain.count(1024));
        assert_eq!(plain.next(64), 937, "the rest of the page and one more");
        let mut large = size(1000, false);
        (0..64).for_each(|_| large.count(4 * STORE_CHUNK_BYTES));
        assert_eq!(large.next(64), CHUNK_ROWS_MIN);
        let mut filtered = size(1, true);
        assert_eq!(filtered.next(0), 64);
        (0..64).for_each(|_| filtered.count(20));
        assert_eq!(filtered.next(64), CHUNK_ROWS_MAX);
        assert_eq!((size(1, false).next(0), size(0, false).next(0)), (2, 1));
    }

    #[test]
    fn a_known_size_lets_one_chunk_be_the_page() {
        assert_eq!(ChunkSize::new(&scan(1000, false), Some(1100)).next(0), 1001);
        let bounded = Scan { bytes_expected: 11_000, ..scan(1000, false) };
        assert_eq!(ChunkSize::new(&bounded, Some(1100)).next(0), 12, "as many as expected, and one more");
        let mut longer = ChunkSize::new(&bounded, None);
        (0..64).for_each(|_| longer.count(STORE_CHUNK_BYTES / 16));
        assert_eq!(longer.next(64), 18, "a chunk of the usual size, once the page takes more than expected");
        assert_eq!(ChunkSize::new(&scan(1000, false), Some(ENTITY_BYTES_MAX)).next(0), 4);
        assert_eq!(ChunkSize::new(&scan(1000, true), Some(1024)).next(0), 1024);
        let mut wrong = ChunkSize::new(&scan(4000, false), Some(1));
        assert_eq!(wrong.next(0), 4001);
        (0..64).for_each(|_| wrong.count(64 * 1024));
        assert_eq!(wrong.next(0), 64, "the rows that were read count more");
    }

    #[test]
    fn connections_share_a_page_and_one_that_has_more_of_it_is_asked_for_more() {
        let mut shared = ChunkSize::new(&scan(1000, false), Some(1000));
        shared.share(4);
        assert_eq!(shared.next(0), 250 + 2 * 15 + 1);
        assert_eq!(shared.next(281), 562);
        assert_eq!(shared.next(843), 1001, "no more than the page needs");
        shared.share(1);
        assert_eq!(shared.next(0), 1001);
    }
}
