//! The change feed: what changed in a table or in all tables, an extension of Rowhouse.
//!
//! This module must not know how changes are read; that is the task of `change_stream.rs`.

use super::change_stream::{ChangeStream, Reader, Start};
use super::service::TableService;
use super::stored::{Stored, stored_as};
use super::table::Table;
use crate::entity::{ETag, Entity, PropertyBag};
use crate::error::Error;
use crate::limits::CHANGES_PAUSE_MAX;
use model::changes_table::name_of;
use model::{ChangePosition, DateTime, EntityKey};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use wire::entity_body::StoredEntity;
use wire::json::ChangeRow;

/// A change of an entity or of a table.
///
/// ```
/// use rowhouse_client::{Change, ChangeOperation, PropertyBag};
///
/// fn print(change: &Change<PropertyBag>) {
///     match (&change.operation, &change.entity) {
///         (ChangeOperation::Put, Some(order)) => println!("{}: {order:?}", change.position),
///         (operation, _) => println!("{}: {operation:?} {:?}", change.position, change.key),
///     }
/// }
/// # let _ = print;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Change<E> {
    /// The position of the change. Store it once the change is processed, and pass it to [`Changes::from`] to continue.
    pub position: ChangePosition,
    /// What happened.
    pub operation: ChangeOperation,
    /// The name of the table.
    pub table: String,
    /// The time of the change.
    pub timestamp: DateTime,
    /// The key of the entity; `None` if the table was created or deleted.
    pub key: Option<EntityKey>,
    /// The entity after the change, for [`ChangeOperation::Put`]. Later changes may already have replaced it.
    pub entity: Option<Stored<E>>,
}

/// What a change did.
///
/// ```
/// use rowhouse_client::ChangeOperation;
///
/// fn is_removal(operation: ChangeOperation) -> bool {
///     matches!(operation, ChangeOperation::Delete | ChangeOperation::Expire)
/// }
/// # let _ = is_removal;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeOperation {
    /// An entity was inserted, replaced or merged.
    Put,
    /// An entity was deleted.
    Delete,
    /// The service deleted an entity because it had expired.
    Expire,
    /// A table was created.
    CreateTable,
    /// A table was deleted with all its entities.
    DeleteTable,
}

impl ChangeOperation {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Put" => Self::Put,
            "Delete" => Self::Delete,
            "Expire" => Self::Expire,
            "CreateTable" => Self::CreateTable,
            "DeleteTable" => Self::DeleteTable,
            _ => return None,
        })
    }
}

/// The changes of a table or of all tables, in order; created by [`Table::changes`] and [`TableService::changes`].
///
/// Only servers that keep a change log (`rowhouse serve --keep-log`) support this; others refuse it. Nothing is sent
/// until the changes are read. Unless [`from`](Self::from) or [`from_start`](Self::from_start) says otherwise, reading
/// begins with the first change after the first request.
///
/// ```
/// use rowhouse_client::{ChangeOperation, PropertyBag};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::builder().keep_log(std::time::Duration::from_secs(60)).start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// orders.create().await?;
/// orders.insert(&PropertyBag::new("2031", "0001")?.with("Total", 7_i64)?).await?;
///
/// let mut changes = orders.changes::<PropertyBag>().from_start().stream();
/// while let Some(change) = changes.next().await {
///     let change = change?;
///     if let Some(order) = &change.entity {
///         assert_eq!(order.get::<i64>("Total")?, 7);
///         // Process the change, and then store the position: the next run continues with `from(position)`.
///         let position = change.position.to_string();
///         # assert_eq!(position.len(), 24);
///         break;
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is read before the changes are streamed"]
pub struct Changes<E> {
    /// The table of the feed.
    feed: Table,
    /// Decrypts the entities.
    table: Table,
    start: Start,
    texts: Vec<String>,
    pause_max: Duration,
    is_endless: bool,
    types: PhantomData<fn() -> E>,
}

impl<E: Entity + Send> Changes<E> {
    fn new(table: Table, feed: &str) -> Self {
        let feed = Table::new(table.pipeline.clone(), feed);
        let (start, texts, pause_max) = (Start::Now, Vec::new(), CHANGES_PAUSE_MAX);
        Self { feed, table, start, texts, pause_max, is_endless: true, types: PhantomData }
    }

    /// Begins after a position: the position of the last change that was processed, or the result of
    /// [`end`](Self::end). If the server has dropped changes after it, reading fails with
    /// [`Error::PositionExpired`].
    ///
    /// ```
    /// use rowhouse_client::{ChangePosition, PropertyBag};
    ///
    /// # fn example(orders: rowhouse_client::Table) -> Result<(), &'static str> {
    /// let position = ChangePosition::parse("00000000000000004711-002").ok_or("not a position")?;
    /// let changes = orders.changes::<PropertyBag>().from(position);
    /// # Ok(()) }
    /// ```
    pub fn from(self, position: ChangePosition) -> Self {
        Self { start: Start::After(position), ..self }
    }

    /// Begins with the oldest change that the server has kept.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let changes = orders.changes::<rowhouse_client::PropertyBag>().from_start();
    /// # }
    /// ```
    pub fn from_start(self) -> Self {
        Self { start: Start::Oldest, ..self }
    }

    /// Begins with the first change after the first request. This is the default.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let changes = orders.changes::<rowhouse_client::PropertyBag>().from_now();
    /// # }
    /// ```
    pub fn from_now(self) -> Self {
        Self { start: Start::Now, ..self }
    }

    /// Adds a condition on the rows of the feed as an expression of the filter language. The properties of the entity
    /// have the prefix `Entity_`.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let paid = orders.changes::<rowhouse_client::PropertyBag>().filter_text("Entity_State eq 'paid'");
    /// # }
    /// ```
    pub fn filter_text(mut self, text: &str) -> Self {
        self.texts.push(text.to_owned());
        self
    }

    /// Sets the maximum pause between two requests while nothing changes: 500 ms by default, at least 20 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn example(orders: rowhouse_client::Table) {
    /// let changes = orders.changes::<rowhouse_client::PropertyBag>().pause_max(Duration::from_secs(5));
    /// # }
    /// ```
    pub fn pause_max(self, pause_max: Duration) -> Self {
        Self { pause_max, ..self }
    }

    /// Ends the stream at the end of the log instead of waiting for further changes.
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// let mut changes = orders.changes::<rowhouse_client::PropertyBag>().from_start().until_end().stream();
    /// while let Some(change) = changes.next().await {
    ///     println!("{}", change?.position);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn until_end(self) -> Self {
        Self { is_endless: false, ..self }
    }

    /// Returns the position of the end of the log. Every change that is acknowledged after this call has a larger
    /// position.
    ///
    /// To keep a copy of a table, call this, read the whole table, and then follow the changes from the position.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// let position = orders.changes::<PropertyBag>().end().await?;
    /// let copy = orders.query::<PropertyBag>().collect().await?;
    /// let changes = orders.changes::<PropertyBag>().from(position).stream();
    /// # Ok(()) }
    /// ```
    pub async fn end(&self) -> Result<ChangePosition, Error> {
        super::change_stream::end(&self.feed).await
    }

    /// Reads the changes one by one.
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// let mut changes = orders.changes::<rowhouse_client::PropertyBag>().stream();
    /// while let Some(change) = changes.next().await {
    ///     println!("{:?}", change?.operation);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> ChangeStream<Change<E>> {
        let table = Arc::new(self.table.clone());
        self.reading(move |row| {
            let (table, parsed) = (Arc::clone(&table), parsed(row));
            Box::pin(async move {
                let Change { position, operation, table: name, timestamp, key, entity } =
                    parsed.ok_or_else(|| unreadable(&table))?;
                let entity = match entity {
                    Some(Stored { entity, .. }) => {
                        let bag = table.decrypted(entity, E::ENCRYPTED, &[]).await?;
                        Some(stored_as(bag, E::from_bag)?)
                    }
                    None => None,
                };
                Ok(Change { position, operation, table: name, timestamp, key, entity })
            })
        })
    }

    /// Hidden: reads the changes as the JSON of the feed's rows.
    #[doc(hidden)]
    pub fn json_stream(self) -> ChangeStream<JsonChange> {
        self.reading(|row| {
            let change = JsonChange { position: row.position, json: row.json.to_owned() };
            Box::pin(async move { Ok(change) })
        })
    }

    fn reading<T>(self, convert: impl super::change_stream::Convert<T>) -> ChangeStream<T> {
        let Self { feed, start, texts, pause_max, is_endless, .. } = self;
        ChangeStream::new(Reader { feed, texts, pause_max, is_endless, convert: Box::new(convert) }, start)
    }
}

impl<E> fmt::Debug for Changes<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("feed", &self.feed.name)
            .field("start", &self.start)
            .field("texts", &self.texts)
            .finish_non_exhaustive()
    }
}

/// Hidden: a change as JSON.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonChange {
    pub position: ChangePosition,
    /// One line.
    pub json: String,
}

/// Returns the change with the entity as it is stored, or `None` if the row is not valid.
fn parsed(row: ChangeRow<'_>) -> Option<Change<PropertyBag>> {
    let operation = ChangeOperation::from_name(&row.operation)?;
    let bag = match row.entity {
        Some(StoredEntity { body, timestamp, .. }) => {
            let mut bag = PropertyBag::from_key(EntityKey { partition: body.partition?, row: body.row? });
            bag.properties = body.properties.into();
            bag.timestamp = timestamp;
            bag.etag = timestamp.map(|time| ETag::from(model::ETag::from_timestamp(time).to_string()));
            Some(bag)
        }
        None => None,
    };
    let key = bag.as_ref().map(|bag| bag.key.clone());
    let bag = bag.filter(|_| operation == ChangeOperation::Put);
    let entity = bag.map(|bag| stored_as(bag, Ok)).transpose().ok()?;
    Some(Change { position: row.position, operation, table: row.table.into_owned(), timestamp: row.time, key, entity })
}

fn unreadable(table: &Table) -> Error {
    let what = table.what("reading the changes of the table").to_string();
    Error::Unreadable { what, why: "a change has an unknown operation or no key".to_owned() }
}

impl Table {
    /// Reads the changes of the table, an extension of Rowhouse: each change of an entity, and the creation and
    /// deletion of the table. With an encryption policy, entities are decrypted.
    ///
    /// The type `E` must fit all entities of the table. An entity that does not fit it is an error, after which the
    /// stream continues with the next change.
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// let mut changes = orders.changes::<rowhouse_client::PropertyBag>().stream();
    /// while let Some(change) = changes.next().await {
    ///     println!("{:?}", change?.key);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn changes<E: Entity + Send>(&self) -> Changes<E> {
        Changes::new(self.clone(), &name_of(&self.name))
    }
}

impl TableService {
    /// Reads the changes of all tables of the account, an extension of Rowhouse. This requires the account key, or a
    /// signature for the whole account.
    ///
    /// ```
    /// # async fn example(service: rowhouse_client::TableService) -> Result<(), rowhouse_client::Error> {
    /// let mut changes = service.changes().stream();
    /// while let Some(change) = changes.next().await {
    ///     println!("{}", change?.table);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn changes(&self) -> Changes<PropertyBag> {
        let feed = name_of("");
        Changes::new(self.table(&feed), &feed)
    }
}
