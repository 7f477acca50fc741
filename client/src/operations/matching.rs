//! Counts and deletes all entities that match a query: on the server if it offers this extension, and otherwise by
//! reading the keys.
//!
//! The cloud and servers without extensions refuse the requests of the extension with 400, 405 or 501, and the emulator
//! responds to a count with a page of entities. In all these cases, the keys are read. If the request is invalid in
//! itself, reading the keys fails, and this error is returned.
//!
//! This module must not know how queries are built.

use super::continuation::{Continuation, next};
use super::query::Query;
use super::stored::Stored;
use super::table::Table;
use crate::entity::{Entity, PropertyBag};
use crate::error::{Error, ErrorKind};
use crate::limits::{BULK_CONCURRENCY, UPDATE_ROUNDS_MAX};
use crate::operations::Transaction;
use crate::pipeline::{BodyFormat, Operation, Response, unreadable};
use http::Method;
use model::limits::TRANSACTION_OPERATIONS_MAX;
use std::panic::resume_unwind;
use tokio::task::JoinSet;
use wire::uri::encode_component;

/// An operation on all matching entities. Each response contains the number of entities that it concerns.
struct Extension {
    what: &'static str,
    method: Method,
    path: &'static str,
}

impl Extension {
    fn count() -> Self {
        Self { what: "counting the entities of the table", method: Method::GET, path: "()/$count" }
    }

    fn delete() -> Self {
        Self { what: "deleting entities from the table", method: Method::DELETE, path: "()" }
    }

    /// Returns the total number of entities, or `None` if the service does not offer the operation.
    async fn run(
        self,
        table: &Table,
        filter: Option<&str>,
        mut from: Option<Continuation>,
        mut on_progress: impl FnMut(u64),
    ) -> Result<Option<u64>, Error> {
        let filter = filter.map_or_else(String::new, |filter| format!("&$filter={}", encode_component(filter)));
        let mut total = None;
        loop {
            let position = from.as_ref().map(Continuation::options).unwrap_or_default();
            let query = format!("{filter}{position}").trim_start_matches('&').to_owned();
            let (what, path) = (table.what(self.what), table.path(self.path));
            let operation =
                Operation { method: self.method.clone(), ..Operation::get(what, path, query, BodyFormat::Json) };
            let response = match table.pipeline.execute(&operation).await {
                Err(error) if total.is_none() && is_unsupported(&error) => return Ok(None),
                response => response?,
            };
            let Some(number) = number(&response) else {
                return if total.is_none() { Ok(None) } else { Err(unreadable(&operation, "it is not a number")) };
            };
            let sum = total.unwrap_or_default() + number;
            total = Some(sum);
            on_progress(sum);
            // A deletion that deletes entities makes progress, even if it stops where it began.
            let sent = from.as_ref().filter(|_| number == 0 || self.method == Method::GET);
            from = next(&operation, sent, &response)?;
            if from.is_none() {
                return Ok(total);
            }
        }
    }
}

/// Returns true if the error can mean that the service does not offer an operation.
fn is_unsupported(error: &Error) -> bool {
    matches!(error, Error::ResponseTooLarge { .. }) || matches!(error.status(), Some(400 | 404 | 405 | 501))
}

fn number(response: &Response) -> Option<u64> {
    response.header("content-type").filter(|content_type| content_type.starts_with("text/plain"))?;
    std::str::from_utf8(&response.body).ok()?.parse().ok()
}

impl<E: Entity, T> Query<E, T> {
    /// Runs the query and counts its results, whatever it selects.
    ///
    /// A server that runs with `--extensions` counts itself. On other servers and in the cloud, and with
    /// [`take`](Self::take), the keys of all results are read. For large tables, [`Scan::count`](crate::Scan::count)
    /// reads several key ranges concurrently.
    ///
    /// ```
    /// use rowhouse_client::PropertyBag;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::builder().extensions().start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&PropertyBag::new("2031", "0001")?.with("State", "paid")?).await?;
    /// let paid = orders.query::<PropertyBag>().partition("2031").filter_text("State eq 'paid'").count().await?;
    /// assert_eq!(paid, 1);
    /// # Ok(()) }
    /// ```
    pub async fn count(self) -> Result<u64, Error>
    where
        T: Send + 'static,
    {
        if !self.is_limited()
            && let Some(count) = self.count_on_server(|_| ()).await?
        {
            return Ok(count);
        }
        let mut pages = self.reading_keys(|_| Ok(())).pages();
        let mut count = 0;
        while let Some(page) = pages.next().await {
            count += page?.items.len() as u64;
        }
        Ok(count)
    }

    /// Returns `None` if the server does not count entities.
    pub(super) async fn count_on_server(&self, on_progress: impl FnMut(u64)) -> Result<Option<u64>, Error> {
        let filter = self.text()?;
        Extension::count().run(self.table(), filter.as_deref(), self.start().cloned(), on_progress).await
    }

    /// Deletes all entities that match the query, and returns their number.
    ///
    /// A server that runs with `--extensions` deletes the entities itself. On other servers and in the cloud, the keys
    /// of the entities are read, and transactions on single partitions delete them. In both cases, an entity is deleted
    /// only in a version that matches. Entities that are written at the same time may remain.
    ///
    /// The deletion is not atomic: after an error, some of the entities have been deleted, and another deletion deletes
    /// the rest. If a response is lost, the request is repeated, and the number does not include the entities that the
    /// first attempt deleted.
    ///
    /// The query must have a condition, which can be `filter_text("true")` to delete all entities of the table. A query
    /// with [`take`](Self::take) or [`order_by`](Self::order_by) is an error.
    ///
    /// ```
    /// use rowhouse_client::PropertyBag;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::builder().extensions().start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&PropertyBag::new("2031", "0001")?.with("State", "void")?).await?;
    /// let deleted = orders.query::<PropertyBag>().filter_text("State eq 'void'").delete_matching().await?;
    /// assert_eq!(deleted, 1);
    /// # Ok(()) }
    /// ```
    pub async fn delete_matching(self) -> Result<u64, Error>
    where
        T: Send + 'static,
    {
        self.delete_matching_with(|_| ()).await
    }

    /// Like [`delete_matching`](Self::delete_matching), and calls a function with the number of entities deleted so
    /// far, at least every few seconds while entities are being deleted.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let old = orders.query::<PropertyBag>().partitions(.."2031");
    /// old.delete_matching_with(|deleted| println!("{deleted} deleted")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete_matching_with(self, mut on_progress: impl FnMut(u64) + Send) -> Result<u64, Error>
    where
        T: Send + 'static,
    {
        if self.is_limited() {
            return Err(Error::Invalid("a deletion of matching entities does not support `take`".to_owned()));
        }
        if self.is_ordered() {
            return Err(Error::Invalid("a deletion of matching entities does not support `order_by`".to_owned()));
        }
        let Some(filter) = self.text()?.filter(|filter| !filter.trim().is_empty()) else {
            let why = "a deletion of matching entities needs a condition; 'true' deletes all entities";
            return Err(Error::Invalid(why.to_owned()));
        };
        let from = self.start().cloned();
        if let Some(deleted) = Extension::delete().run(self.table(), Some(&filter), from, &mut on_progress).await? {
            return Ok(deleted);
        }
        // An ETag from the secondary may be outdated.
        let query = self.reading_primary();
        let table = query.table().clone();
        let mut pages = query.reading_keys(Stored::from_bag).pages();
        let (mut running, mut deleted) = (JoinSet::new(), 0);
        while let Some(page) = pages.next().await {
            for chunk in chunks(page?.items) {
                if running.len() == BULK_CONCURRENCY {
                    deleted += settle_one(&mut running).await?.unwrap_or_default();
                    on_progress(deleted);
                }
                running.spawn(delete_chunk(table.clone(), filter.clone(), chunk));
            }
        }
        while let Some(count) = settle_one(&mut running).await? {
            deleted += count;
            on_progress(deleted);
        }
        Ok(deleted)
    }
}

type Key = Stored<PropertyBag>;

/// Divides keys into groups that a transaction can delete.
fn chunks(keys: Vec<Key>) -> Vec<Vec<Key>> {
    let mut chunks: Vec<Vec<Key>> = Vec::new();
    for key in keys {
        let last = chunks.last_mut().filter(|chunk| {
            let is_same = chunk.first().is_some_and(|first| first.key.partition == key.key.partition);
            is_same && chunk.len() < TRANSACTION_OPERATIONS_MAX
        });
        match last {
            Some(chunk) => chunk.push(key),
            None => chunks.push(vec![key]),
        }
    }
    chunks
}

/// Returns `None` if nothing is running.
async fn settle_one(running: &mut JoinSet<Result<u64, Error>>) -> Result<Option<u64>, Error> {
    let Some(joined) = running.join_next().await else { return Ok(None) };
    joined.unwrap_or_else(|error| resume_unwind(error.into_panic())).map(Some)
}

/// Deletes entities of one partition. If one of them has been changed or deleted since it was read, reads those that
/// still match again.
async fn delete_chunk(table: Table, filter: String, mut chunk: Vec<Key>) -> Result<u64, Error> {
    let mut rounds = 1;
    loop {
        let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { return Ok(0) };
        let rows = first.key.row.as_str()..=last.key.row.as_str();
        let query = table.query::<PropertyBag>().partition(first.key.partition.as_str()).rows(rows);
        let delete = |transaction: Transaction, Stored { entity, etag, .. }: &Key| {
            transaction.delete(entity.key.partition.as_str(), entity.key.row.as_str(), etag)
        };
        // If an earlier attempt was executed, the entities no longer exist, and reading them again finds none.
        let transaction = chunk.iter().fold(Transaction::new().may_repeat(), delete);
        match table.commit(transaction).await {
            Ok(written) => return Ok(written.len() as u64),
            Err(error) if rounds < UPDATE_ROUNDS_MAX && is_outdated(&error) => rounds += 1,
            Err(error) => return Err(error),
        }
        let query = query.filter_text(&filter).take(TRANSACTION_OPERATIONS_MAX as u64);
        chunk = query.reading_keys(Stored::from_bag).collect().await?;
    }
}

fn is_outdated(error: &Error) -> bool {
    error.kind() == ErrorKind::PreconditionFailed || error.code() == Some("ResourceNotFound")
}
