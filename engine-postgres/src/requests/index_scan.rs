//! Pages that are found in an index: in its order, or in key order after its hits have been collected.
//!
//! Invariants:
//!
//! 1. The state of the table and the index, its entries and the entities are read in one read-only transaction at
//!    REPEATABLE READ, so a page is one snapshot. On Citus, there is one snapshot per node, and the state is read
//!    before the entries.
//! 2. Only an index that is ready in this transaction is read. The cached list of indexes only decides whether the
//!    transaction is begun.
//! 3. Memory is bounded: records are consumed one by one as they arrive.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError, Attempts};
use crate::connections::pool::Lease;
use crate::connections::rows::{column, control, no_response};
use crate::layout::{DatabaseTableId, columns_of};
use crate::requests::catalog::{are_moving, prepare_moving, table_indexes};
use crate::requests::index_entries::{CHUNK_ENTRIES_MAX, IndexReader, OrderedEntries};
use crate::requests::scan_part::{ChunkSize, broken, next_row};
use crate::state::{KnownTable, PostgresState, TableIndex};
use crate::statements;
use engine::parts::cancellation::Cancellation;
use engine::parts::index::{groups_to_read, key_of_entry, plan};
use engine::parts::page::{PageBuilder, ranges_to_visit};
use engine::{EntitySink, Order, ReadError, Scan, ScanEnd, TableKey};
use model::index::IndexPlan;
use model::{Expiry, IndexedProperty, KeyRange};
use std::ops::ControlFlow;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

pub(crate) enum IndexScan<S> {
    Page(S, ScanEnd),
    /// No index helps.
    NotUsed(Scan, S),
}

/// An entity that was found in an index.
struct Found {
    /// The position of the entity in the order of the scan. It ends with the key bytes.
    position: Vec<u8>,
    key_bytes: usize,
    /// Whether the entity lies in the ranges of the scan.
    is_inside: bool,
}

impl Found {
    fn key(&self) -> &[u8] {
        let start = self.position.len().saturating_sub(self.key_bytes);
        self.position.get(start..).unwrap_or_default()
    }
}

fn planned(scan: &Scan, indexes: &[TableIndex], ready_only: bool) -> Option<IndexPlan> {
    let usable = indexes.iter().filter(|index| index.is_ready || !ready_only);
    plan(scan, usable.map(|index| &index.property))
}

impl PostgresState {
    pub(crate) async fn scan_index<S: EntitySink>(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: S,
    ) -> Result<IndexScan<S>, ReadError> {
        let mut attempts = Attempts::new(&self.pool.counts);
        let (lease, id, indexes, expiry) = loop {
            self.check_open().map_err(ReadError::Fault)?;
            let known = self.known_table(table).await.map_err(ReadError::Fault)?.ok_or(ReadError::TableNotFound)?;
            // Which of the indexes are ready may have changed.
            if scan.order.is_of_keys() && planned(&scan, &known.indexes, false).is_none() {
                return Ok(IndexScan::NotUsed(scan, sink));
            }
            let expiry = Expiry::new(known.retention.as_ref(), scan.visible, self.now());
            match self.begin_index_scan(&known).await {
                Ok((lease, Some(indexes))) => break (lease, known.id, indexes, expiry),
                Ok((lease, None)) => {
                    end(lease).await;
                    self.uncache(table);
                    attempts.next(AttemptError::table_changed()).await.map_err(ReadError::Fault)?;
                }
                Err(trouble) => attempts.next(trouble).await.map_err(ReadError::Fault)?,
            }
        };
        let size = ChunkSize::new(&scan, self.cached_row_bytes(table));
        let mut page = IndexPage { lease: &lease, id, expiry, size, closing: self.closing.clone() };
        let done = match scan.order.clone() {
            Order::Key { .. } => page.by_key(&indexes, scan, sink).await,
            Order::Value { property, is_descending } => {
                page.by_value(&indexes, &property, is_descending, scan, sink).await
            }
        };
        if let Some(average) = page.size.average() {
            self.cache_row_bytes(table, average);
        }
        // Nothing was written, so a failure here does not affect the page.
        end(lease).await;
        self.check_open().map_err(ReadError::Fault)?;
        done
    }

    /// Begins the transaction. Returns `None` for the indexes if the table was deleted or has changed, or if shards are
    /// being moved.
    async fn begin_index_scan(&self, table: &KnownTable) -> Result<(Lease, Option<Vec<TableIndex>>), AttemptError> {
        let lease = self.pool.take_for_all().await?;
        let begun = timeout(ATTEMPT_TIME_MAX, async {
            let statement = lease.prepare_cached(statements::INDEXES_OF_TABLE).await?;
            let values: [&(dyn ToSql + Sync); 2] = [&table.id.0, &table.generation];
            let moving = prepare_moving(&lease, self.names.is_distributed).await?;
            let (are_moving, begun, rows) = tokio::join!(
                biased;
                are_moving(&lease, moving.as_ref()),
                lease.batch_execute(statements::BEGIN_PAGE),
                async { lease.query(&statement, &values).await },
            );
            begun?;
            Ok::<_, Error>((are_moving?, rows?))
        });
        let (are_moving, rows) =
            begun.await.map_err(|_| no_response())?.map_err(|error| AttemptError::before_commit(&error))?;
        let indexes = if are_moving { None } else { table_indexes(&rows).map_err(AttemptError::Fault)? };
        Ok((lease, indexes))
    }
}

async fn end(lease: Lease) {
    if control(&lease, "COMMIT").await.is_ok() {
        lease.return_to_pool();
    }
}

struct IndexPage<'l> {
    lease: &'l Lease,
    id: DatabaseTableId,
    expiry: Expiry,
    size: ChunkSize,
    closing: Cancellation,
}

impl<'l> IndexPage<'l> {
    /// Returns the number of entities to look up at a time.
    fn chunk(&self) -> usize {
        self.size.next(0).min(CHUNK_ENTRIES_MAX)
    }

    fn reader(&self, index: i64, is_descending: bool) -> IndexReader<'l> {
        IndexReader { lease: self.lease, table: self.id, index, is_descending }
    }

    async fn by_key<S: EntitySink>(
        &mut self,
        indexes: &[TableIndex],
        scan: Scan,
        sink: S,
    ) -> Result<IndexScan<S>, ReadError> {
        let ranges = ranges_to_visit(&scan);
        let Some(IndexPlan { property, ranges: value_ranges }) = planned(&scan, indexes, true) else {
            return Ok(IndexScan::NotUsed(scan, sink));
        };
        let Some(index) = indexes.iter().find(|index| index.property == property) else {
            return Ok(IndexScan::NotUsed(scan, sink));
        };
        let is_descending = scan.order.is_descending();
        let Some(hits) = self.reader(index.id, false).hits(value_ranges, &ranges, is_descending).await? else {
            return Ok(IndexScan::NotUsed(scan, sink));
        };
        let mut page =
            PageBuilder::new(scan, self.expiry.clone(), sink, vec![self.closing.clone()]).from_index(property);
        let mut hits = hits.into_iter().map(|key| Found { key_bytes: key.len(), position: key, is_inside: true });
        loop {
            let chunk: Vec<_> = hits.by_ref().take(self.chunk()).collect();
            if chunk.is_empty() || self.visit(&chunk, &mut page).await?.is_break() {
                let (sink, end) = page.finish();
                return Ok(IndexScan::Page(sink, end));
            }
        }
    }

    async fn by_value<S: EntitySink>(
        &mut self,
        indexes: &[TableIndex],
        property: &IndexedProperty,
        is_descending: bool,
        scan: Scan,
        sink: S,
    ) -> Result<IndexScan<S>, ReadError> {
        let index = indexes.iter().find(|index| index.property == *property).ok_or(ReadError::IndexNotFound)?;
        if !index.is_ready {
            return Err(ReadError::IndexNotReady);
        }
        let reader = self.reader(index.id, is_descending);
        let mut entries = OrderedEntries::new(groups_to_read(&scan, property, is_descending));
        let ranges = scan.ranges.clone();
        let mut page =
            PageBuilder::new(scan, self.expiry.clone(), sink, vec![self.closing.clone()]).from_index(property.clone());
        loop {
            let asked = self.chunk();
            let mut chunk = Vec::new();
            while chunk.len() < asked {
                let Some(position) = entries.next(&reader, asked).await? else { break };
                // The entity of a damaged entry is missing, as if the entry were missing.
                let Some(key) = key_of_entry(&position) else { continue };
                let (key_bytes, is_inside) = (key.len(), KeyRange::any_contains(&ranges, key));
                chunk.push(Found { position, key_bytes, is_inside });
            }
            if chunk.is_empty() || self.visit(&chunk, &mut page).await?.is_break() {
                let (sink, end) = page.finish();
                return Ok(IndexScan::Page(sink, end));
            }
        }
    }

    /// Passes the entities to the page, in the given order. Returns `Break` if the page has ended.
    async fn visit<S: EntitySink>(
        &mut self,
        found: &[Found],
        page: &mut PageBuilder<S>,
    ) -> Result<ControlFlow<()>, ReadError> {
        let inside = found.iter().filter(|found| found.is_inside);
        let (partitions, rows): (Vec<_>, Vec<_>) = inside.map(|found| columns_of(self.id, found.key())).unzip();
        let statement =
            self.lease.prepare_cached(statements::RECORDS_IN_ORDER).await.map_err(|error| broken(&error))?;
        let records = self.lease.query_raw(&statement, [&partitions, &rows]).await.map_err(|error| broken(&error))?;
        let mut records = Box::pin(records);
        let (mut number, mut head) = (0, None);
        for found in found {
            consume_budget().await;
            if !found.is_inside {
                if page.pass(&found.position).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            number += 1;
            if head.is_none() {
                head = next_row(records.as_mut()).await?;
            }
            let Some(row) = head.take() else { continue };
            if column::<i64>(&row, 0).map_err(ReadError::Fault)? != number {
                // The snapshot has no such entity.
                head = Some(row);
                continue;
            }
            let record: &[u8] = column(&row, 1).map_err(ReadError::Fault)?;
            self.size.count(found.position.len() + record.len());
            if page.visit_at(&found.position, found.key(), record).map_err(ReadError::Fault)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
