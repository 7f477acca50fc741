//! Deletes the entities that match a filter.
//!
//! A scan collects candidates in steps: their keys and Timestamps. Each transaction deletes candidates of one
//! partition, on the condition that they have not changed since the scan. While the transactions of a step are
//! committed, the scan collects the next step.
//!
//! Invariants:
//!
//! 1. An entity is deleted only in a version that matched the filter. If the version is outdated, the entity is read
//!    again.
//! 2. Every matching entity before the position at which a deletion ends has been deleted, unless it was written after
//!    it was examined.
//! 3. A deletion that ends early without an error has deleted an entity or advanced. A chain of deletions therefore
//!    ends.

use super::account_tables::AccountTables;
use crate::clock;
use crate::failure::Failure;
use crate::telemetry::traces::step;
use engine::{CommitError, EntitySink, Scan, SinkDecision, TableKey};
use futures_util::stream::{FuturesUnordered, StreamExt};
use model::limits::{
    DELETION_READS_MAX, DELETION_STEP_ENTITIES_MAX, DELETION_STEP_KEY_BYTES_MAX, DELETION_STEP_MILLISECONDS,
    TRANSACTION_OPERATIONS_MAX,
};
use model::record::DamagedRecord;
use model::{
    DateTime, EntityKey, EntityView, Filter, IndexedProperty, KeyRange, KeyText, MutationError, Position, Transaction,
    Visibility,
};
use std::pin::pin;
use std::time::{Duration, Instant};
use tracing::warn;
use wire::ErrorCode;

/// The entities to delete, and the bounds on the work.
pub(crate) struct Deletion {
    /// Ascending and disjoint ranges of keys.
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether nothing may depend on entities outside the ranges.
    pub(crate) is_confined: bool,
    /// `None` matches all entities in the ranges.
    pub(crate) filter: Option<Filter>,
    /// Whether entities are deleted that exist for clients, or those that have expired.
    pub(crate) visible: Visibility,
    /// The inclusive position to continue from.
    pub(crate) from: Option<Position>,
    /// The time after which no transaction is begun, except the first.
    pub(crate) deadline: Instant,
    /// The number of deletions in flight at which no further transaction is begun. At least 1.
    pub(crate) entities_in_flight_max: usize,
    /// At least 1.
    pub(crate) transactions_in_flight_max: usize,
}

pub(crate) struct DeletionEnd {
    /// The number of entities that are known to have been deleted.
    pub(crate) deleted: u64,
    /// The position to continue from; `None` if no matching entities remain.
    pub(crate) next: Option<Position>,
    /// The earliest expiry of the entities that were examined but not visible.
    pub(crate) earliest_expiry: Option<DateTime>,
    /// The property whose index was read first.
    pub(crate) index: Option<IndexedProperty>,
    /// The time that the scans took, part of it at the same time as deletions.
    pub(crate) examining: Duration,
}

/// An entity that matched the filter when it was read.
struct Candidate {
    key: EntityKey,
    timestamp: DateTime,
    /// How often the entity was read again.
    reads: u32,
}

/// Candidates of one partition in the order of their keys, at least one, and at most as many as a transaction can
/// delete.
type Chunk = Vec<Candidate>;

#[derive(Default)]
struct Collector {
    chunks: Vec<Chunk>,
    key_bytes: usize,
    /// Whether the scan ended at an entity whose key is damaged.
    is_damaged: bool,
}

struct Step {
    chunks: Vec<Chunk>,
    next: Option<Position>,
    earliest_expiry: Option<DateTime>,
    index: Option<IndexedProperty>,
    took: Duration,
}

/// The result of deleting some candidates.
#[derive(Default)]
struct Progress {
    deleted: u64,
    stop: Option<Stop>,
}

/// The first position at which candidates remain.
struct Stop {
    position: Position,
    /// `None` if the deadline has passed.
    failure: Option<Failure>,
}

impl AccountTables<'_> {
    /// Deletes matching entities of a table until none remains, the deadline passes, or a failure occurs.
    ///
    /// A failure is returned only if nothing was deleted and the position did not advance. Otherwise, the deletion ends
    /// early, and the next one encounters the failure if it persists. Entities whose deletion failed with an unknown
    /// outcome are not counted.
    ///
    /// Throttling counts each entity when it is examined, and again when it is deleted. It refuses only the start of a
    /// step, because a step that was examined must also be deleted: otherwise, the same step could fail forever.
    pub(crate) async fn delete_matching(&self, name: &str, deletion: Deletion) -> Result<DeletionEnd, Failure> {
        let table = self.table_or_metrics(name)?;
        let (mut deleted, mut earliest_expiry, mut examining) = (0, None, Duration::ZERO);
        let mut current = self.collect(&table, &deletion, deletion.from.clone()).await?;
        let mut is_first = true;
        let index = current.index.clone();
        loop {
            let Step { chunks, next, earliest_expiry: expiry, took, .. } = current;
            earliest_expiry = earliest_expiry.into_iter().chain(expiry).min();
            examining += took;
            let collect_next = async {
                match &next {
                    Some(next) if clock::instant() < deletion.deadline => {
                        Some(self.collect(&table, &deletion, Some(next.clone())).await)
                    }
                    _ => None,
                }
            };
            let delete = pin!(self.delete_chunks(&table, &deletion, chunks));
            let (progress, following) = tokio::join!(step("delete entities", delete), collect_next);
            deleted += progress.deleted;
            let failure = match (progress.stop, following) {
                (Some(Stop { failure: Some(failure), .. }), _) if is_first && deleted == 0 => return Err(failure),
                (Some(Stop { position, failure }), _) => {
                    note(failure);
                    return Ok(DeletionEnd { deleted, next: Some(position), earliest_expiry, index, examining });
                }
                (None, Some(Ok(step))) => {
                    current = step;
                    is_first = false;
                    continue;
                }
                (None, Some(Err(failure))) => Some(failure),
                (None, None) => None,
            };
            note(failure);
            return Ok(DeletionEnd { deleted, next, earliest_expiry, index, examining });
        }
    }

    /// Collects the candidates of a step.
    async fn collect(&self, table: &TableKey, deletion: &Deletion, from: Option<Position>) -> Result<Step, Failure> {
        let began = clock::instant();
        let step_end = began + Duration::from_millis(DELETION_STEP_MILLISECONDS);
        let scan = Scan {
            ranges: deletion.ranges.clone(),
            is_confined: deletion.is_confined,
            from,
            filter: deletion.filter.clone(),
            visible: deletion.visible,
            limit: DELETION_STEP_ENTITIES_MAX,
            ..Scan::all(deletion.deadline.min(step_end))
        };
        let (collector, end) = self.examine(table, scan, Collector::default()).await?;
        self.count_read(end.examined, 0);
        if collector.is_damaged && collector.chunks.is_empty() {
            return Err(DamagedRecord.into());
        }
        Ok(Step {
            chunks: collector.chunks,
            next: end.next,
            earliest_expiry: end.earliest_expiry,
            index: end.index,
            took: clock::elapsed_since(began),
        })
    }

    /// Deletes the candidates of a step. Begins no transaction after a failure or after the deadline, except the first.
    async fn delete_chunks(&self, table: &TableKey, deletion: &Deletion, chunks: Vec<Chunk>) -> Progress {
        let mut chunks = chunks.into_iter();
        let mut in_flight = FuturesUnordered::new();
        let (mut entities_in_flight, mut is_first) = (0, true);
        let mut total = Progress::default();
        loop {
            while total.stop.is_none()
                && in_flight.len() < deletion.transactions_in_flight_max
                && entities_in_flight < deletion.entities_in_flight_max
                && let Some(chunk) = chunks.next()
            {
                if !is_first && clock::instant() >= deletion.deadline {
                    total.stop = Some(Stop { position: position(&chunk), failure: None });
                    break;
                }
                is_first = false;
                let entities = chunk.len();
                entities_in_flight += entities;
                let work = self.delete_chunk(table, deletion, chunk);
                in_flight.push(async move { (entities, work.await) });
            }
            let Some((entities, progress)) = in_flight.next().await else { return total };
            entities_in_flight -= entities;
            total.deleted += progress.deleted;
            if let Some(stop) = progress.stop
                && total.stop.as_ref().is_none_or(|first| stop.position < first.position)
            {
                total.stop = Some(stop);
            }
        }
    }

    /// Deletes the candidates of one transaction.
    async fn delete_chunk(&self, table: &TableKey, deletion: &Deletion, chunk: Chunk) -> Progress {
        let mut deleted = 0;
        // The last element contains the first candidates, so everything before a failure has been deleted.
        let mut pending = vec![chunk];
        while let Some(chunk) = pending.pop() {
            let position = position(&chunk);
            match self.attempt(table, deletion, chunk, &mut pending).await {
                Ok(count) => deleted += count,
                Err(failure) => return Progress { deleted, stop: Some(Stop { position, failure: Some(failure) }) },
            }
        }
        Progress { deleted, stop: None }
    }

    /// Deletes candidates if none of them has changed, and returns their number. Otherwise, reads the first one that
    /// has changed, and adds the candidates to `pending` in several chunks.
    async fn attempt(
        &self,
        table: &TableKey,
        deletion: &Deletion,
        mut chunk: Chunk,
        pending: &mut Vec<Chunk>,
    ) -> Result<u64, Failure> {
        let candidates = chunk.iter().map(|candidate| (candidate.key.clone(), candidate.timestamp));
        let transaction = match deletion.visible {
            Visibility::Live => Transaction::deleting(candidates),
            Visibility::Expired => Transaction::deleting_expired(candidates),
        };
        let transaction = transaction.expect("a chunk has distinct keys of one partition");
        let index = match self.write_deletions(table, transaction).await {
            Ok(count) => return Ok(count),
            Err(CommitError::Refused(index, MutationError::NotFound | MutationError::ConditionNotMet)) => index,
            Err(error) => return Err(error.into()),
        };
        let after = chunk.split_off((index + 1).min(chunk.len()));
        let changed = chunk.pop();
        let current = match changed {
            // An entity that was written again has not expired, or is left to the next deletion.
            Some(changed) if deletion.visible == Visibility::Live => {
                self.read_again(table, deletion.filter.as_ref(), changed).await?
            }
            _ => None,
        };
        let chunks = [after, current.into_iter().collect(), chunk];
        pending.extend(chunks.into_iter().filter(|chunk| !chunk.is_empty()));
        Ok(0)
    }

    /// Reads a candidate that has changed. Returns `None` if it no longer exists or no longer matches.
    async fn read_again(
        &self,
        table: &TableKey,
        filter: Option<&Filter>,
        Candidate { key, reads, .. }: Candidate,
    ) -> Result<Option<Candidate>, Failure> {
        if reads == DELETION_READS_MAX {
            let reason = "a deletion ended early because an entity changes as often as it is read";
            return Err(Failure::service(ErrorCode::ServerBusy).with_cause(reason));
        }
        let Some(record) = step("get entity", pin!(self.engine.get(table, &key))).await? else { return Ok(None) };
        self.count_read(1, 0);
        let entity = EntityView::from_parts(&key, &record)?;
        if let Some(filter) = filter
            && !filter.matches(&entity)?
        {
            return Ok(None);
        }
        let timestamp = entity.record.timestamp();
        Ok(Some(Candidate { key, timestamp, reads: reads + 1 }))
    }
}

impl EntitySink for Collector {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let (partition, row) = (entity.key.partition.as_ref(), entity.key.row.as_ref());
        let last = self.chunks.last_mut();
        let last = last.filter(|chunk| chunk.first().is_some_and(|first| first.key.partition.as_str() == partition));
        // Candidates of one partition share its key.
        let shared = last.as_ref().and_then(|chunk| chunk.first()).map(|first| first.key.partition.clone());
        let partition = shared.map_or_else(|| KeyText::new(partition), Ok);
        let (Ok(partition), Ok(row)) = (partition, KeyText::new(row)) else {
            self.is_damaged = true;
            return SinkDecision::Refused;
        };
        self.key_bytes += partition.as_str().len() + row.as_str().len();
        let timestamp = entity.record.timestamp();
        let candidate = Candidate { key: EntityKey { partition, row }, timestamp, reads: 0 };
        match last.filter(|chunk| chunk.len() < TRANSACTION_OPERATIONS_MAX) {
            Some(chunk) => chunk.push(candidate),
            None => self.chunks.push(vec![candidate]),
        }
        if self.key_bytes < DELETION_STEP_KEY_BYTES_MAX { SinkDecision::Accepted } else { SinkDecision::AcceptedLast }
    }
}

fn position(chunk: &Chunk) -> Position {
    chunk.first().map_or_else(|| Position::new("", ""), |first| Position::from_bytes(first.key.encode()))
}

/// Logs a failure that ended a deletion early.
fn note(failure: Option<Failure>) {
    if let Some(source) = failure.and_then(|failure| failure.source) {
        warn!("a deletion of matching entities ended early: {source}");
    }
}
