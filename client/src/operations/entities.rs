//! Operations on single entities.
//!
//! This module must not depend on queries and transactions, which reuse its functions.

use super::stored::{IfMatch, Stored, Write, Written, stored_as, timestamp};
use super::table::Table;
use crate::entity::derive_support::key;
use crate::entity::{ETag, Entity, EntityError, PropertyBag};
use crate::error::{Error, ErrorKind};
use crate::filter::Projection;
use crate::limits::UPDATE_ROUNDS_MAX;
use crate::pipeline::{BodyFormat, Operation, ReadFrom, Response, unreadable};
use bytes::Bytes;
use http::Method;
use model::EntityKey;
use wire::entity_body::StoredEntity;
use wire::json::{read_stored_entity, write_entity_request};

impl Table {
    /// Inserts an entity, which must not exist.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let written = orders.insert(&PropertyBag::new("2031", "0001")?).await?;
    /// println!("version {}", written.etag);
    /// # Ok(()) }
    /// ```
    pub async fn insert<E: Entity>(&self, entity: &E) -> Result<Written, Error> {
        self.write(Write::Insert, entity, None).await
    }

    /// Inserts an entity, which must not exist, and returns it as stored by the service.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let stored = orders.insert_with_echo(&PropertyBag::new("2031", "0001")?.with("State", "new")?).await?;
    /// assert_eq!(stored.get::<String>("State")?, "new");
    /// # Ok(()) }
    /// ```
    pub async fn insert_with_echo<E: Entity>(&self, entity: &E) -> Result<Stored<E>, Error> {
        let bag = self.encrypted(Write::Insert, entity.to_bag()?, E::ENCRYPTED).await?;
        let operation = Operation { echoes: true, ..self.write_operation(Write::Insert, &bag, None)? };
        let response = self.pipeline.execute(&operation).await?;
        self.read_response(&operation, &response, &[], E::ENCRYPTED, E::from_bag).await
    }

    /// Reads an entity. Fails if the entity does not exist; [`find`](Self::find) returns `None` instead.
    ///
    /// ```
    /// # use rowhouse_client::{ErrorKind, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let error = orders.get::<PropertyBag>("2031", "0001").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # Ok(()) }
    /// ```
    pub async fn get<E: Entity>(&self, partition_key: &str, row_key: &str) -> Result<Stored<E>, Error> {
        self.read(&key(partition_key, row_key)?, &[], E::ENCRYPTED, E::from_bag).await
    }

    /// Reads an entity like [`get`](Self::get), by a key taken from another entity or created by its type, such as
    /// `Customer::key_of(…)`.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let order = PropertyBag::new("2031", "0001")?;
    /// orders.insert(&order).await?;
    /// let again = orders.get_by_key::<PropertyBag>(&order.key()?).await?;
    /// # Ok(()) }
    /// ```
    pub async fn get_by_key<E: Entity>(&self, key: &EntityKey) -> Result<Stored<E>, Error> {
        self.read(key, &[], E::ENCRYPTED, E::from_bag).await
    }

    /// Reads an entity, or returns `None` if it does not exist. Fails if the table does not exist.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// assert!(orders.find::<PropertyBag>("2031", "0001").await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn find<E: Entity>(&self, partition_key: &str, row_key: &str) -> Result<Option<Stored<E>>, Error> {
        match self.get(partition_key, row_key).await {
            Err(error) if error.code() == Some("ResourceNotFound") => Ok(None),
            result => result.map(Some),
        }
    }

    /// Reads some properties of an entity.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, TableService};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     name: String,
    /// #     visits: i32,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = TableService::from_connection_string(&server.connection_string())?;
    /// # let customers = service.table("customers");
    /// # customers.create().await?;
    /// # customers.insert(&Customer { city: "Turin".into(), id: "7".into(), name: "Ada".into(), visits: 1 }).await?;
    /// let stored = customers.get_projected::<Customer, _>("Turin", "7", |c| (c.name, c.visits)).await?;
    /// assert_eq!(stored.entity, ("Ada".to_owned(), 1));
    /// # Ok(()) }
    /// ```
    pub async fn get_projected<E: Entity, P: Projection<E>>(
        &self,
        partition_key: &str,
        row_key: &str,
        project: impl FnOnce(E::Properties) -> P,
    ) -> Result<Stored<P::Output>, Error> {
        let projection = project(E::PROPERTIES);
        let names = projection.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.read(&key(partition_key, row_key)?, &names, E::ENCRYPTED, |bag| projection.read(&bag)).await
    }

    /// Reads some properties of an entity by name, into a type that requires no others.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&PropertyBag::new("2031", "0001")?.with("State", "new")?.with("Total", 7)?).await?;
    /// let state = orders.get_properties::<PropertyBag>("2031", "0001", &["State"]).await?;
    /// assert_eq!(state.properties.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn get_properties<E: Entity>(
        &self,
        partition_key: &str,
        row_key: &str,
        names: &[&str],
    ) -> Result<Stored<E>, Error> {
        self.read(&key(partition_key, row_key)?, names, E::ENCRYPTED, E::from_bag).await
    }

    /// Replaces an entity, which must exist and match the condition. Afterwards, the entity has exactly the given
    /// properties.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let order = PropertyBag::new("2031", "0001")?;
    /// let written = orders.insert(&order).await?;
    /// orders.replace(&order, &written).await?;
    /// orders.replace(&order, IfMatch::Any).await?;
    /// # Ok(()) }
    /// ```
    pub async fn replace<E: Entity>(&self, entity: &E, condition: impl Into<IfMatch>) -> Result<Written, Error> {
        self.write(Write::Replace, entity, Some(condition.into())).await
    }

    /// Merges into an entity, which must exist and match the condition. Its other properties keep their values. A
    /// property that is `None` is not sent, so its stored value does not change.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// orders.insert(&PropertyBag::new("2031", "0001")?.with("State", "new")?).await?;
    /// orders.merge(&PropertyBag::new("2031", "0001")?.with("Total", 7)?, IfMatch::Any).await?;
    /// assert_eq!(orders.get::<PropertyBag>("2031", "0001").await?.properties.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn merge<E: Entity>(&self, entity: &E, condition: impl Into<IfMatch>) -> Result<Written, Error> {
        self.write(Write::Merge, entity, Some(condition.into())).await
    }

    /// Inserts an entity, or replaces the existing one.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// orders.insert_or_replace(&PropertyBag::new("2031", "0001")?).await?;
    /// orders.insert_or_replace(&PropertyBag::new("2031", "0001")?).await?;
    /// # Ok(()) }
    /// ```
    pub async fn insert_or_replace<E: Entity>(&self, entity: &E) -> Result<Written, Error> {
        self.write(Write::InsertOrReplace, entity, None).await
    }

    /// Inserts an entity, or merges it into the existing one.
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// orders.insert_or_merge(&PropertyBag::new("2031", "0001")?.with("State", "new")?).await?;
    /// # Ok(()) }
    /// ```
    pub async fn insert_or_merge<E: Entity>(&self, entity: &E) -> Result<Written, Error> {
        self.write(Write::InsertOrMerge, entity, None).await
    }

    /// Deletes an entity, which must exist and match the condition.
    ///
    /// ```
    /// # use rowhouse_client::{ErrorKind, IfMatch, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let error = orders.delete("2031", "0001", IfMatch::Any).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self, partition_key: &str, row_key: &str, condition: impl Into<IfMatch>) -> Result<(), Error> {
        self.delete_entity(partition_key, row_key, &condition.into(), false).await
    }

    /// Deletes an entity if it exists, and returns whether it did. An existing entity must match the condition. Fails
    /// if the table does not exist.
    ///
    /// Unlike [`delete`](Self::delete), this operation is retried. If a response is lost, the retry returns false
    /// although this call deleted the entity.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, PropertyBag};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&PropertyBag::new("2031", "0001")?).await?;
    /// assert!(orders.delete_if_exists("2031", "0001", IfMatch::Any).await?);
    /// assert!(!orders.delete_if_exists("2031", "0001", IfMatch::Any).await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_if_exists(
        &self,
        partition_key: &str,
        row_key: &str,
        condition: impl Into<IfMatch>,
    ) -> Result<bool, Error> {
        match self.delete_entity(partition_key, row_key, &condition.into(), true).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some("ResourceNotFound") => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn delete_entity(
        &self,
        partition_key: &str,
        row_key: &str,
        condition: &IfMatch,
        is_idempotent: bool,
    ) -> Result<(), Error> {
        let path = self.entity_path(&key(partition_key, row_key)?);
        let operation = Operation {
            method: Method::DELETE,
            if_match: Some(condition.header()?.to_owned()),
            is_idempotent,
            ..Operation::get(self.what("deleting an entity from the table"), path, String::new(), BodyFormat::Json)
        };
        self.pipeline.execute(&operation).await.map(drop)
    }

    /// Reads an entity, changes it, and writes it back if its `ETag` is still the same. Starts over whenever another
    /// client has changed the entity. Returns the written entity.
    ///
    /// The entity is replaced, so its type should contain all properties or have a `rest` field. `change` may be called
    /// several times, each time with the current entity. The loop ends when `change` returns an error, or at the
    /// hundredth conflict. The entity is read from the primary. If `change` has its own error type, use
    /// [`try_update`](Self::try_update).
    ///
    /// ```
    /// # use rowhouse_client::PropertyBag;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&PropertyBag::new("2031", "0001")?.with("Total", 7)?).await?;
    /// let stored = orders
    ///     .update::<PropertyBag>("2031", "0001", |order| {
    ///         let total: i32 = order.get("Total")?;
    ///         Ok(order.set("Total", total + 1)?)
    ///     })
    ///     .await?;
    /// assert_eq!(stored.get::<i32>("Total")?, 8);
    /// # Ok(()) }
    /// ```
    pub async fn update<E: Entity>(
        &self,
        partition_key: &str,
        row_key: &str,
        change: impl FnMut(&mut E) -> Result<(), Error>,
    ) -> Result<Stored<E>, Error> {
        self.try_update(partition_key, row_key, change).await
    }

    /// Updates an entity like [`update`](Self::update), with the program's own error type.
    ///
    /// This is a separate method because the compiler could not infer the error type of a closure that only returns
    /// `Ok(())`.
    ///
    /// ```
    /// use rowhouse_client::{Error, PropertyBag};
    ///
    /// #[derive(Debug)]
    /// enum Withdrawal {
    ///     Overdrawn,
    ///     Table(Error),
    /// }
    ///
    /// impl From<Error> for Withdrawal {
    ///     fn from(error: Error) -> Self {
    ///         Self::Table(error)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let accounts = service.table("accounts");
    /// # accounts.create().await?;
    /// # accounts.insert(&PropertyBag::new("Turin", "7")?.with("Balance", 5)?).await?;
    /// let withdraw = |account: &mut PropertyBag| {
    ///     let balance: i32 = account.get("Balance").map_err(Error::from)?;
    ///     let rest = balance.checked_sub(7).filter(|rest| *rest >= 0).ok_or(Withdrawal::Overdrawn)?;
    ///     account.set("Balance", rest).map_err(|error| Withdrawal::Table(error.into()))
    /// };
    /// let refused = accounts.try_update("Turin", "7", withdraw).await;
    /// assert!(matches!(refused, Err(Withdrawal::Overdrawn)));
    /// # Ok(()) }
    /// ```
    pub async fn try_update<E: Entity, F: From<Error>>(
        &self,
        partition_key: &str,
        row_key: &str,
        mut change: impl FnMut(&mut E) -> Result<(), F>,
    ) -> Result<Stored<E>, F> {
        let mut table = self.clone();
        // The secondary may lag far behind.
        table.pipeline.read_from = ReadFrom::Primary;
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mut stored = table.get::<E>(partition_key, row_key).await?;
            change(&mut stored.entity)?;
            match table.replace(&stored.entity, &stored.etag).await {
                Ok(Written { etag, timestamp, .. }) => return Ok(Stored { etag, timestamp, ..stored }),
                // A round fails only because another client succeeded, so the clients make progress overall.
                Err(error) if error.kind() == ErrorKind::PreconditionFailed && rounds < UPDATE_ROUNDS_MAX => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn write<E: Entity>(&self, write: Write, entity: &E, condition: Option<IfMatch>) -> Result<Written, Error> {
        let bag = self.encrypted(write, entity.to_bag()?, E::ENCRYPTED).await?;
        let operation = self.write_operation(write, &bag, condition.as_ref())?;
        let response = self.pipeline.execute(&operation).await?;
        Ok(Written::new(response.status, response.header("etag")))
    }

    fn write_operation(
        &self,
        write: Write,
        bag: &PropertyBag,
        condition: Option<&IfMatch>,
    ) -> Result<Operation, Error> {
        let path = match write {
            Write::Insert => self.path(""),
            _ => self.entity_path(&bag.key),
        };
        let mut body = Vec::with_capacity(256 + 2 * bag.properties.as_record_builder().record_bytes());
        write_bag(&mut body, bag);
        Ok(Operation {
            method: write.method(),
            body: Bytes::from(body),
            is_idempotent: write.is_idempotent(condition),
            if_match: condition.map(IfMatch::header).transpose()?.map(str::to_owned),
            ..Operation::get(self.what(write.text()), path, String::new(), BodyFormat::Json)
        })
    }

    async fn read<T>(
        &self,
        key: &EntityKey,
        select: &[&str],
        marked: &[&str],
        read: impl FnOnce(PropertyBag) -> Result<T, EntityError>,
    ) -> Result<Stored<T>, Error> {
        let query = match self.select_list(select) {
            Some(list) => format!("$select={list}"),
            None => String::new(),
        };
        let what = self.what("reading an entity from the table");
        let operation = Operation::get(what, self.entity_path(key), query, BodyFormat::Json);
        let response = self.pipeline.execute(&operation).await?;
        self.read_response(&operation, &response, select, marked, read).await
    }

    async fn read_response<T>(
        &self,
        operation: &Operation,
        response: &Response,
        select: &[&str],
        marked: &[&str],
        read: impl FnOnce(PropertyBag) -> Result<T, EntityError>,
    ) -> Result<Stored<T>, Error> {
        let mut stored = read_stored_entity(&response.body)
            .map_err(|error| unreadable(operation, &format!("the entity is malformed: {error:?}")))?;
        stored.etag = response.header("etag").map(Box::from).or(stored.etag);
        let bag = self.decrypted(bag(operation, stored)?, marked, select).await?;
        Ok(stored_as(bag, read)?)
    }
}

pub(crate) fn write_bag(out: &mut Vec<u8>, bag: &PropertyBag) {
    write_entity_request(out, &bag.key, bag.properties.as_record_builder())
        .expect("a builder has no damaged properties");
}

pub(crate) fn bag(operation: &Operation, stored: StoredEntity) -> Result<PropertyBag, Error> {
    let StoredEntity { body, timestamp: time, etag } = stored;
    let (partition, row) =
        body.partition.zip(body.row).ok_or_else(|| unreadable(operation, "an entity has no keys"))?;
    let time = time.or_else(|| timestamp(etag.as_deref()?));
    let mut bag = PropertyBag::from_key(EntityKey { partition, row });
    bag.properties = body.properties.into();
    bag.timestamp = time;
    bag.etag = etag.map(ETag::from);
    Ok(bag)
}
