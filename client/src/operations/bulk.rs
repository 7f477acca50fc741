//! Writes large numbers of entities. Groups them by partition into transactions, and sends several transactions
//! concurrently.
//!
//! Invariants:
//!
//! 1. Operations on one entity are executed in the order in which they were given.
//! 2. Memory is bounded by [`BULK_BUFFER_BYTES_MAX`], [`BULK_BUFFER_OPERATIONS_MAX`] and the number of transactions in
//!    flight.
//!
//! This module must not know how a transaction is sent.

use super::stored::{IfMatch, Write};
use super::table::Table;
use super::transaction::{Change, Transaction};
use crate::entity::derive_support::key;
use crate::entity::{Entity, EntityKey, KeyText};
use crate::error::{Error, ErrorKind};
use crate::limits::{
    BULK_BUFFER_BYTES_MAX, BULK_BUFFER_OPERATIONS_MAX, BULK_CONCURRENCY, BULK_FAILURES_MAX, BULK_TRANSACTION_BYTES_MAX,
    BULK_WAITING_GROUPS_MAX,
};
use model::limits::TRANSACTION_OPERATIONS_MAX;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Writes large numbers of entities to a table. Groups operations by partition into transactions of up to 100
/// operations, 2 MiB of properties and 4 MiB of body, and sends several transactions concurrently.
///
/// Operations on the same entity keep their order. The order of operations on different entities is undefined. Only
/// single operations are atomic: if an operation in a group fails, the report lists it, and the rest of the group is
/// sent again, in smaller transactions if several operations fail.
///
/// Adding an operation waits while too many operations are pending. The writer therefore needs little memory, whatever
/// the amount of data.
///
/// ```
/// use rowhouse_client::PropertyBag;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// # orders.create().await?;
/// let mut bulk = orders.bulk().concurrency(4);
/// for number in 0..1000 {
///     let year = if number % 2 == 0 { "2031" } else { "2032" };
///     bulk.insert_or_replace(&PropertyBag::new(year, &format!("{number:04}"))?).await?;
/// }
/// let report = bulk.finish().await;
/// assert_eq!((report.written, report.failed), (1000, 0));
/// assert!(report.transactions >= 10);
/// # Ok(()) }
/// ```
#[must_use]
pub struct BulkWriter {
    table: Table,
    concurrency: usize,
    on_progress: Option<OnProgress>,
    /// The groups of each partition, in the order in which they are sent. There is at least one.
    groups: HashMap<KeyText, VecDeque<Group>>,
    /// The partitions of `groups`; the one that has waited longest is first. Can also contain partitions that are no
    /// longer in `groups`.
    waiting: VecDeque<KeyText>,
    buffered_operations: usize,
    buffered_bytes: usize,
    under_way: HashSet<EntityKey>,
    tasks: JoinSet<Outcome>,
    report: BulkReport,
}

type OnProgress = Box<dyn FnMut(&BulkReport) + Send>;

/// Operations on different entities of one partition.
#[derive(Debug, Default)]
struct Group {
    changes: Vec<Change>,
    rows: HashSet<KeyText>,
    bytes: usize,
    is_full: bool,
}

/// The results of a bulk writer, so far or in total.
///
/// ```
/// # use rowhouse_client::Table;
/// # async fn example(orders: Table) {
/// let report = orders.bulk().finish().await;
/// for failure in &report.failures {
///     println!("{}: {}", failure.key.row.as_str(), failure.error);
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BulkReport {
    /// The number of executed operations.
    pub written: u64,
    /// The number of operations that failed or whose outcome is unknown.
    pub failed: u64,
    /// The number of transactions sent, not counting retries.
    pub transactions: u64,
    /// The first 1,000 failed operations.
    pub failures: Vec<BulkFailure>,
}

/// A failed operation.
///
/// ```
/// # use rowhouse_client::{BulkFailure, ErrorKind};
/// fn exists_already(failure: &BulkFailure) -> bool {
///     failure.error.kind() == ErrorKind::Conflict
/// }
/// # let _ = exists_already;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkFailure {
    /// The key of the entity.
    pub key: EntityKey,
    /// The reason. Operations that were sent together may share one error, such as a lost connection.
    pub error: Arc<Error>,
}

struct Outcome {
    keys: Vec<EntityKey>,
    written: u64,
    transactions: u64,
    failures: Vec<BulkFailure>,
}

impl Table {
    /// Creates a bulk writer. Nothing is sent before operations are added.
    ///
    /// ```
    /// # use rowhouse_client::Table;
    /// # async fn example(orders: Table) {
    /// let report = orders.bulk().finish().await;
    /// assert_eq!(report.written, 0);
    /// # }
    /// ```
    pub fn bulk(&self) -> BulkWriter {
        BulkWriter {
            table: self.clone(),
            concurrency: BULK_CONCURRENCY,
            on_progress: None,
            groups: HashMap::new(),
            waiting: VecDeque::new(),
            buffered_operations: 0,
            buffered_bytes: 0,
            under_way: HashSet::new(),
            tasks: JoinSet::new(),
            report: BulkReport::default(),
        }
    }
}

impl BulkWriter {
    /// Sets the number of transactions that are sent concurrently: 8 by default, at least one.
    ///
    /// ```
    /// # use rowhouse_client::Table;
    /// # fn example(orders: Table) {
    /// let bulk = orders.bulk().concurrency(16);
    /// # }
    /// ```
    pub fn concurrency(self, transactions: usize) -> Self {
        Self { concurrency: transactions.max(1), ..self }
    }

    /// Calls a function after each group, with the results so far.
    ///
    /// ```
    /// # use rowhouse_client::Table;
    /// # fn example(orders: Table) {
    /// let bulk = orders.bulk().on_progress(|report| println!("{} written", report.written));
    /// # }
    /// ```
    pub fn on_progress(self, call: impl FnMut(&BulkReport) + Send + 'static) -> Self {
        Self { on_progress: Some(Box::new(call)), ..self }
    }

    /// Inserts an entity, which must not exist. Fails if the entity cannot be encoded; the report lists operations that
    /// the service refused.
    ///
    /// ```
    /// # use rowhouse_client::{Error, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.insert(&order).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn insert<E: Entity>(&mut self, entity: &E) -> Result<(), Error> {
        self.write(Write::Insert, entity, None).await
    }

    /// Inserts an entity, or replaces the existing one. Fails if the entity cannot be encoded.
    ///
    /// ```
    /// # use rowhouse_client::{Error, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.insert_or_replace(&order).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn insert_or_replace<E: Entity>(&mut self, entity: &E) -> Result<(), Error> {
        self.write(Write::InsertOrReplace, entity, None).await
    }

    /// Inserts an entity, or merges it into the existing one. Fails if the entity cannot be encoded.
    ///
    /// ```
    /// # use rowhouse_client::{Error, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.insert_or_merge(&order).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn insert_or_merge<E: Entity>(&mut self, entity: &E) -> Result<(), Error> {
        self.write(Write::InsertOrMerge, entity, None).await
    }

    /// Replaces an entity, which must exist and match the condition. Fails if the entity cannot be encoded.
    ///
    /// ```
    /// # use rowhouse_client::{Error, IfMatch, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.replace(&order, IfMatch::Any).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn replace<E: Entity>(&mut self, entity: &E, condition: impl Into<IfMatch>) -> Result<(), Error> {
        self.write(Write::Replace, entity, Some(condition.into())).await
    }

    /// Merges into an entity, which must exist and match the condition. Fails if the entity cannot be encoded.
    ///
    /// ```
    /// # use rowhouse_client::{Error, IfMatch, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.merge(&order, IfMatch::Any).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn merge<E: Entity>(&mut self, entity: &E, condition: impl Into<IfMatch>) -> Result<(), Error> {
        self.write(Write::Merge, entity, Some(condition.into())).await
    }

    /// Deletes an entity, which must exist and match the condition. Fails if the keys are malformed.
    ///
    /// ```
    /// # use rowhouse_client::{Error, IfMatch, Table};
    /// # async fn example(orders: Table) -> Result<(), Error> {
    /// let mut bulk = orders.bulk();
    /// bulk.delete("2031", "0001", IfMatch::Any).await?;
    /// bulk.finish().await;
    /// # Ok(()) }
    /// ```
    pub async fn delete(
        &mut self,
        partition_key: &str,
        row_key: &str,
        condition: impl Into<IfMatch>,
    ) -> Result<(), Error> {
        let key = key(partition_key, row_key)?;
        self.add(Change::Delete { key, condition: condition.into() }).await;
        Ok(())
    }

    /// Returns the results so far.
    ///
    /// ```
    /// # use rowhouse_client::Table;
    /// # fn example(orders: Table) {
    /// assert_eq!(orders.bulk().report().written, 0);
    /// # }
    /// ```
    pub fn report(&self) -> &BulkReport {
        &self.report
    }

    /// Sends all buffered operations, and returns after all operations have finished. Dropping the writer without this
    /// call abandons the operations that are buffered or in flight.
    ///
    /// ```
    /// # use rowhouse_client::Table;
    /// # async fn example(orders: Table) {
    /// let report = orders.bulk().finish().await;
    /// assert_eq!(report.failed, 0);
    /// # }
    /// ```
    pub async fn finish(mut self) -> BulkReport {
        while self.send_oldest().await {}
        while self.settle_one().await {}
        self.report
    }

    async fn write<E: Entity>(&mut self, write: Write, entity: &E, condition: Option<IfMatch>) -> Result<(), Error> {
        let change = Change::Write { write, bag: entity.to_bag()?, marked: E::ENCRYPTED, condition };
        self.add(change).await;
        Ok(())
    }

    async fn add(&mut self, change: Change) {
        let key = change.key().clone();
        let bytes = change.bytes();
        while self.buffered_operations >= BULK_BUFFER_OPERATIONS_MAX
            || (self.buffered_operations > 0 && self.buffered_bytes + bytes > BULK_BUFFER_BYTES_MAX)
        {
            self.send_oldest().await;
        }
        if !self.groups.contains_key(&key.partition) {
            self.waiting.push_back(key.partition.clone());
        }
        let groups = self.groups.entry(key.partition.clone()).or_default();
        // Groups are sent one after another, so the operation comes after earlier operations on its entity.
        let earlier = groups.iter().rposition(|group| group.rows.contains(&key.row));
        let mut later = groups.iter_mut().skip(earlier.map_or(0, |earlier| earlier + 1));
        if let Some(group) = later.find_map(|group| group.has_place(bytes).then_some(group)) {
            group.add(change, bytes);
        } else {
            let mut group = Group::default();
            group.add(change, bytes);
            groups.push_back(group);
        }
        self.buffered_operations += 1;
        self.buffered_bytes += bytes;
        while self.groups.get(&key.partition).is_some_and(|groups| {
            groups.len() > BULK_WAITING_GROUPS_MAX || groups.front().is_some_and(|group| group.is_full)
        }) {
            self.send(&key.partition).await;
        }
    }

    /// Returns false if no group waits.
    async fn send_oldest(&mut self) -> bool {
        while let Some(partition) = self.waiting.front().cloned() {
            if self.groups.contains_key(&partition) {
                // The partition must stay in the queue until its group is sent, because this future can be dropped
                // while it waits.
                self.send(&partition).await;
                self.waiting.pop_front();
                // Its next group may have to wait for this one, so other partitions go first.
                if self.groups.contains_key(&partition) {
                    self.waiting.push_back(partition);
                }
                return true;
            }
            self.waiting.pop_front();
        }
        false
    }

    /// Sends the first group of a partition, after earlier operations on the same entities.
    async fn send(&mut self, partition: &KeyText) {
        while self.tasks.len() >= self.concurrency || self.has_entity_under_way(partition) {
            self.settle_one().await;
        }
        // Most groups are sent because they are full. Their entries in `waiting` are removed here.
        if self.waiting.len() > 2 * self.groups.len() + TRANSACTION_OPERATIONS_MAX {
            let mut seen = HashSet::new();
            self.waiting.retain(|partition| self.groups.contains_key(partition) && seen.insert(partition.clone()));
        }
        let Some(groups) = self.groups.get_mut(partition) else { return };
        let first = groups.pop_front();
        if groups.is_empty() {
            self.groups.remove(partition);
        }
        let Some(Group { changes, bytes, .. }) = first else { return };
        self.buffered_operations -= changes.len();
        self.buffered_bytes -= bytes;
        self.under_way.extend(changes.iter().map(|change| change.key().clone()));
        self.tasks.spawn(write_group(self.table.clone(), changes));
    }

    fn has_entity_under_way(&self, partition: &KeyText) -> bool {
        let first = self.groups.get(partition).and_then(VecDeque::front);
        first.is_some_and(|group| group.changes.iter().any(|change| self.under_way.contains(change.key())))
    }

    /// Returns false if no transaction is in flight.
    async fn settle_one(&mut self) -> bool {
        let Some(outcome) = self.tasks.join_next().await else { return false };
        let outcome = outcome.unwrap_or_else(|error| match error.try_into_panic() {
            // The panic comes from the program's own transport, credential or key type.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("the runtime shut down before the bulk writer was done: {error}"),
        });
        for key in &outcome.keys {
            self.under_way.remove(key);
        }
        self.report.written += outcome.written;
        self.report.transactions += outcome.transactions;
        self.report.failed += outcome.failures.len() as u64;
        let kept = BULK_FAILURES_MAX.saturating_sub(self.report.failures.len());
        self.report.failures.extend(outcome.failures.into_iter().take(kept));
        if let Some(call) = &mut self.on_progress {
            call(&self.report);
        }
        true
    }
}

impl Group {
    /// A group is full as soon as an operation does not fit, so that no group waits for a small operation.
    fn has_place(&mut self, bytes: usize) -> bool {
        self.is_full |= self.bytes + bytes > BULK_TRANSACTION_BYTES_MAX && !self.changes.is_empty();
        !self.is_full
    }

    fn add(&mut self, change: Change, bytes: usize) {
        self.rows.insert(change.key().row.clone());
        self.changes.push(change);
        self.bytes += bytes;
        self.is_full = self.changes.len() == TRANSACTION_OPERATIONS_MAX;
    }
}

impl fmt::Debug for BulkWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkWriter")
            .field("table", &self.table.name)
            .field("buffered_operations", &self.buffered_operations)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// Writes the operations of a partition, if possible in one transaction.
///
/// A refused transaction identifies one operation, so each operation that the service refuses costs a request. One such
/// operation is usually the only one, so the others are sent again together. After the second, they are sent in smaller
/// transactions, down to single operations, so that what follows is not sent again for each of them.
async fn write_group(table: Table, changes: Vec<Change>) -> Outcome {
    let keys = changes.iter().map(|change| change.key().clone()).collect();
    let mut outcome = Outcome { keys, written: 0, transactions: 0, failures: Vec::new() };
    let mut group = PendingGroup::new(changes);
    while let Some(part) = group.next_part() {
        outcome.transactions += 1;
        match table.commit(Transaction::from_changes(part.changes.clone())).await {
            Ok(_) => {
                outcome.written += part.changes.len() as u64;
                group.part_was_written();
            }
            Err(error) => {
                let error = Arc::new(error);
                let failed = group.part_failed(part, &error);
                let failure = |change: Change| BulkFailure { key: change.key().clone(), error: Arc::clone(&error) };
                outcome.failures.extend(failed.into_iter().map(failure));
            }
        }
    }
    outcome
}

/// The operations of a group that have neither been written nor failed.
struct PendingGroup {
    /// Operations that preceded a refused operation in its transaction. A service checks operations in their order, so
    /// these are probably accepted, and wait to be sent with the end of the group.
    passed: Vec<Change>,
    untried: VecDeque<Change>,
    /// The maximum number of untried operations in the next transaction.
    untried_max: usize,
    /// The maximum number of operations in a transaction. It is halved when a transaction is too large.
    operations_max: usize,
    refusals: usize,
}

/// The operations of one transaction: first the operations that have passed before.
struct Part {
    changes: Vec<Change>,
    passed: usize,
}

impl PendingGroup {
    fn new(changes: Vec<Change>) -> Self {
        Self {
            passed: Vec::new(),
            untried: changes.into(),
            untried_max: TRANSACTION_OPERATIONS_MAX,
            operations_max: TRANSACTION_OPERATIONS_MAX,
            refusals: 0,
        }
    }

    fn next_part(&mut self) -> Option<Part> {
        let count = self.untried.len().min(self.untried_max).min(self.operations_max);
        let mut changes = Vec::new();
        if count == self.untried.len() {
            let place = self.operations_max - count;
            changes.extend(self.passed.drain(..self.passed.len().min(place)));
        }
        let passed = changes.len();
        changes.extend(self.untried.drain(..count));
        (!changes.is_empty()).then_some(Part { changes, passed })
    }

    fn part_was_written(&mut self) {
        self.untried_max = self.untried_max.saturating_mul(2);
    }

    /// Returns the operations that have failed.
    fn part_failed(&mut self, part: Part, error: &Error) -> Vec<Change> {
        let Part { mut changes, passed } = part;
        if error.kind() == ErrorKind::TooLarge && changes.len() > 1 {
            self.operations_max = changes.len() / 2;
            self.try_again(changes);
            return Vec::new();
        }
        if concerns_all(error) {
            // The other operations would fail with the same error.
            changes.append(&mut self.passed);
            changes.extend(self.untried.drain(..));
            return changes;
        }
        // The refusal of a single operation does not contain its index.
        let only = (changes.len() == 1 && error.refusal().is_some()).then_some(0);
        let Some(refused) = error.operation_index().or(only).filter(|refused| *refused < changes.len()) else {
            // The outcome may be unknown after the client waited for long, so the rest gets one more transaction only.
            self.untried_max = TRANSACTION_OPERATIONS_MAX;
            return changes;
        };
        let rest = changes.split_off(refused + 1);
        let failed = changes.split_off(refused);
        self.try_again(rest);
        self.refusals += 1;
        if self.refusals == 1 {
            self.try_again(changes);
        } else {
            self.passed.extend(changes);
            // The next refusal is probably about as far away as this one was.
            self.untried_max = (2 * refused.saturating_sub(passed)).max(1);
        }
        failed
    }

    fn try_again(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            self.untried.push_front(change);
        }
    }
}

fn concerns_all(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Throttled | ErrorKind::Service)
        || matches!(error.code(), Some("TableNotFound" | "TableBeingDeleted"))
}
