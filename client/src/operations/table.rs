//! One table: its entities, its transactions, and the table itself.
//!
//! `query.rs` has the queries, `transaction.rs` the transactions and `bulk.rs` the writing of very many entities.

use super::stored::{IfMatch, Stored, Written, stored_as, timestamp};
use crate::entity::{ETag, Entity, EntityError, PropertyBag};
use crate::error::{Error, ErrorKind};
use crate::filter::Projection;
use crate::limits::UPDATE_ROUNDS_MAX;
use crate::pipeline::RetryPolicy;
use crate::pipeline::{BodyFormat, Operation, What};
use crate::pipeline::{Pipeline, ReadFrom, Response, unreadable};
use bytes::Bytes;
use http::Method;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{EntityKey, StoredAccessPolicies};
use std::sync::Arc;
use std::time::Duration;
use wire::acl;
use wire::entity_body::StoredEntity;
use wire::json::{read_stored_entity, write_entity_request, write_table_request};
use wire::uri::{encode_component, write_entity_address, write_table_address};

/// A table of an account. It is cheap to clone, and clones share their connections.
///
/// Nothing is checked when it is made: a name that no table can have is refused by the service.
///
/// ```
/// use rowhouse_client::{Entity, ErrorKind, IfMatch, TableService};
///
/// #[derive(Entity, Debug, Clone, PartialEq)]
/// struct Customer {
///     #[entity(partition_key)]
///     city: String,
///     #[entity(row_key)]
///     id: String,
///     name: String,
///     visits: i32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = TableService::from_connection_string(&server.connection_string())?;
/// let customers = service.table("customers");
/// customers.create_if_missing().await?;
///
/// let ada = Customer { city: "Turin".into(), id: "7".into(), name: "Ada".into(), visits: 1 };
/// customers.insert(&ada).await?;
///
/// let mut stored = customers.get::<Customer>("Turin", "7").await?;
/// stored.visits += 1;
/// customers.replace(&stored, &stored).await?;
///
/// // The version that was read is no longer the current one.
/// let error = customers.replace(&stored, &stored).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
///
/// customers.delete("Turin", "7", IfMatch::Any).await?;
/// assert_eq!(customers.find::<Customer>("Turin", "7").await?, None);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) pipeline: Pipeline,
    pub(crate) name: Arc<str>,
    /// The name as a part of an address.
    pub(crate) encoded: Arc<str>,
    #[cfg(feature = "encryption")]
    pub(crate) encryption: Option<crate::encryption::EncryptionPolicy>,
}

/// The property that encrypted entities have, which says under which key.
const KEY_DETAILS: &str = "_ClientEncryptionMetadata1";

/// How an entity is written, depending on whether it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
}

impl Write {
    fn method(self) -> Method {
        match self {
            Self::Insert => Method::POST,
            Self::Replace | Self::InsertOrReplace => Method::PUT,
            Self::Merge | Self::InsertOrMerge => Method::PATCH,
        }
    }

    /// The method of a part of a batch, where every service knows MERGE.
    pub(crate) fn batch_method(self) -> &'static str {
        match self {
            Self::Insert => "POST",
            Self::Replace | Self::InsertOrReplace => "PUT",
            Self::Merge | Self::InsertOrMerge => "MERGE",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Insert => "inserting an entity into the table",
            Self::Replace => "replacing an entity of the table",
            Self::Merge => "merging into an entity of the table",
            Self::InsertOrReplace => "inserting or replacing an entity of the table",
            Self::InsertOrMerge => "inserting an entity of the table or merging into it",
        }
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::InsertOrMerge)
    }

    /// Whether the second of two equal writes changes nothing and cannot fail because of the first.
    pub(crate) fn is_idempotent(self, condition: Option<&IfMatch>) -> bool {
        self != Self::Insert && !matches!(condition, Some(IfMatch::ETag(_)))
    }
}

impl Table {
    pub(crate) fn new(pipeline: Pipeline, name: &str) -> Self {
        Self {
            pipeline,
            name: Arc::from(name),
            encoded: Arc::from(encode_component(name)),
            #[cfg(feature = "encryption")]
            encryption: None,
        }
    }

    /// The name of the table.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_client::Error> {
    /// let service = rowhouse_client::TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// assert_eq!(service.table("orders").name(), "orders");
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same table with another limit of time for each attempt of an operation.
    ///
    /// ```
    /// # fn of(orders: rowhouse_client::Table) {
    /// let hurried = orders.with_timeout(std::time::Duration::from_millis(800));
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, attempt_time_max: Duration) -> Self {
        let mut table = self.clone();
        table.pipeline.attempt_time_max = attempt_time_max;
        table
    }

    /// The same table with another retry policy.
    ///
    /// ```
    /// # fn of(orders: rowhouse_client::Table) {
    /// let once = orders.with_retry(rowhouse_client::RetryPolicy::none());
    /// # }
    /// ```
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        let mut table = self.clone();
        table.pipeline.retry = retry;
        table
    }

    /// The same table under an encryption policy: what it writes is encrypted, and what it reads is decrypted. A merge is refused.
    ///
    /// ```
    /// use rowhouse_client::PropertyBag;
    /// use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let secret = [7; 32];
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm)
    ///     .key(AesKey::new("key-2026", &secret)?)
    ///     .encrypt_where(|_partition, _row, name| name == "Salary")
    ///     .required(true);
    /// let staff = service.table("staff").with_encryption(policy);
    /// staff.create().await?;
    /// let ada = PropertyBag::new("Turin", "7")?.with("Name", "Ada")?.with("Salary", 70_000_i64)?;
    /// staff.insert(&ada).await?;
    /// assert_eq!(staff.get::<PropertyBag>("Turin", "7").await?.get::<i64>("Salary")?, 70_000);
    ///
    /// // Without the policy, it is seen what the service has: eight bytes and a tag of sixteen.
    /// let stored = service.table("staff").get::<PropertyBag>("Turin", "7").await?;
    /// assert_eq!(stored.get::<Vec<u8>>("Salary")?.len(), 24);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn with_encryption(&self, policy: crate::encryption::EncryptionPolicy) -> Self {
        Self { encryption: Some(policy), ..self.clone() }
    }

    /// Creates the table, which must not exist.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// service.table("orders").create().await?;
    /// let error = service.table("orders").create().await.unwrap_err();
    /// assert_eq!(error.code(), Some("TableAlreadyExists"));
    /// # Ok(()) }
    /// ```
    pub async fn create(&self) -> Result<(), Error> {
        self.create_table(false).await
    }

    /// Creates the table unless it exists.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// service.table("orders").create_if_missing().await?;
    /// service.table("orders").create_if_missing().await?;
    /// # Ok(()) }
    /// ```
    pub async fn create_if_missing(&self) -> Result<(), Error> {
        match self.create_table(true).await {
            Err(error) if error.code() == Some("TableAlreadyExists") => Ok(()),
            result => result,
        }
    }

    async fn create_table(&self, is_idempotent: bool) -> Result<(), Error> {
        let mut body = Vec::new();
        write_table_request(&mut body, &self.name);
        let what = self.what("creating the table");
        let operation = Operation {
            method: Method::POST,
            body: Bytes::from(body),
            is_idempotent,
            ..Operation::get(what, "/Tables".to_owned(), String::new(), BodyFormat::Json)
        };
        self.pipeline.execute(&operation).await.map(drop)
    }

    /// Deletes the table, which must exist, and all its entities.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// service.table("orders").create().await?;
    /// service.table("orders").delete_table().await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete_table(&self) -> Result<(), Error> {
        let mut path = b"/".to_vec();
        write_table_address(&mut path, &self.encoded);
        let operation = Operation {
            method: Method::DELETE,
            is_idempotent: false,
            ..Operation::get(self.what("deleting the table"), text(path), String::new(), BodyFormat::Json)
        };
        self.pipeline.execute(&operation).await.map(drop)
    }

    /// Deletes the table and all its entities, if it exists; whether it did.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # service.table("orders").create().await?;
    /// assert!(service.table("orders").delete_table_if_exists().await?);
    /// assert!(!service.table("orders").delete_table_if_exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_table_if_exists(&self) -> Result<bool, Error> {
        match self.delete_table().await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

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

    /// Inserts an entity, which must not exist, and returns it as the service has it.
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

    /// Reads an entity. One that does not exist is an error; [`find`](Self::find) returns `None` for it.
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

    /// As [`get`](Self::get), for the key of another entity or one that the type has made, such as `Customer::key_of(…)`.
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

    /// Reads an entity; `None` if it does not exist. A table that does not exist is an error.
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

    /// Reads some properties of an entity by their names, into a type that needs no others.
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

    /// Replaces an entity, which must exist and match the condition: all its properties are those of this one afterwards.
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

    /// Merges into an entity, which must exist and match the condition: its other properties stay as they are. A property that
    /// is `None` is not written, so it stays as well.
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

    /// Inserts an entity, or replaces the one that exists.
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

    /// Inserts an entity, or merges into the one that exists.
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

    /// Deletes an entity, which must match the condition if it exists; whether it did. A table that does not exist is an error.
    ///
    /// Other than [`delete`](Self::delete) this may be repeated: if a response is lost, it says that there was no entity although
    /// it has deleted it.
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
            ..Operation::get(self.what("deleting an entity of the table"), path, String::new(), BodyFormat::Json)
        };
        self.pipeline.execute(&operation).await.map(drop)
    }

    /// Reads an entity, changes it and writes it back under its `ETag`, and begins anew whenever somebody else was faster. Returns
    /// what was written.
    ///
    /// The entity is replaced, so its type should know all properties, or have a field with `rest`. The change may be made
    /// several times, each time to the entity as it is then; an error that it returns ends the loop, as does the hundredth time
    /// that somebody else was faster. The entity is read from the primary.
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
        mut change: impl FnMut(&mut E) -> Result<(), Error>,
    ) -> Result<Stored<E>, Error> {
        let mut table = self.clone();
        // What the secondary has may be old for a long time.
        table.pipeline.read_from = ReadFrom::Primary;
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mut stored = table.get::<E>(partition_key, row_key).await?;
            change(&mut stored.entity)?;
            match table.replace(&stored.entity, &stored.etag).await {
                Ok(Written { etag, timestamp }) => return Ok(Stored { etag, timestamp, ..stored }),
                // Each round that fails is one in which somebody else got ahead, so the loop cannot stand still for all.
                Err(error) if error.kind() == ErrorKind::PreconditionFailed && rounds < UPDATE_ROUNDS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the stored access policies of the table.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// assert!(orders.policies().await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn policies(&self) -> Result<StoredAccessPolicies, Error> {
        let what = self.what("the policies of the table");
        let operation = Operation::get(what, self.path(""), "comp=acl".to_owned(), BodyFormat::Xml);
        let response = self.pipeline.execute(&operation).await?;
        acl::read(&response.body).map_err(|_| unreadable(&operation, "it is not a list of policies"))
    }

    /// Replaces the stored access policies of the table: at most five.
    ///
    /// ```
    /// use rowhouse_client::{Permissions, StoredAccessPolicies, StoredAccessPolicy};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let mut readers = StoredAccessPolicy::new("readers").ok_or("the id is too long")?;
    /// readers.permissions = Some(Permissions::READ);
    /// let policies = StoredAccessPolicies::new(vec![readers]).ok_or("too many policies, or two of one id")?;
    /// orders.set_policies(&policies).await?;
    /// assert_eq!(orders.policies().await?, policies);
    /// # Ok(()) }
    /// ```
    pub async fn set_policies(&self, policies: &StoredAccessPolicies) -> Result<(), Error> {
        let what = self.what("setting the policies of the table");
        self.pipeline.put_xml(what, self.path(""), "comp=acl", acl::write(policies)).await
    }

    async fn write<E: Entity>(&self, write: Write, entity: &E, condition: Option<IfMatch>) -> Result<Written, Error> {
        let bag = self.encrypted(write, entity.to_bag()?, E::ENCRYPTED).await?;
        let operation = self.write_operation(write, &bag, condition.as_ref())?;
        let response = self.pipeline.execute(&operation).await?;
        Ok(Written::of(response.header("etag").unwrap_or_default()))
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
        let what = self.what("reading an entity of the table");
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

    /// The list of properties to read, for an address; `None` if all are to be read. Keys and Timestamp are always read.
    pub(crate) fn select_list(&self, names: &[&str]) -> Option<String> {
        if names.is_empty() {
            return None;
        }
        let system = [PARTITION_KEY, ROW_KEY, TIMESTAMP];
        let custom = names.iter().copied().filter(|name| !system.contains(name));
        let list: Vec<&str> = system.into_iter().chain(custom).chain(self.metadata_names().iter().copied()).collect();
        Some(encode_component(&list.join(",")))
    }

    /// The properties that decryption needs.
    #[cfg_attr(not(feature = "encryption"), allow(clippy::unused_self, reason = "one signature"))]
    fn metadata_names(&self) -> &'static [&'static str] {
        #[cfg(feature = "encryption")]
        if self.encryption.is_some() {
            return crate::encryption::METADATA_NAMES;
        }
        &[]
    }

    /// The entity with its properties encrypted that the policy of the table says, if it has one.
    #[cfg_attr(not(feature = "encryption"), allow(clippy::unused_async, clippy::unused_self, reason = "one signature"))]
    pub(crate) async fn encrypted(
        &self,
        write: Write,
        bag: PropertyBag,
        marked: &[&str],
    ) -> Result<PropertyBag, Error> {
        #[cfg(feature = "encryption")]
        if let Some(policy) = &self.encryption {
            return policy.encrypt_bag(write.merges(), bag, marked).await.map_err(Error::Encryption);
        }
        if !marked.is_empty() {
            return Err(Error::Invalid(format!(
                "the type marks properties for encryption, and the table '{}' has no encryption policy",
                self.name
            )));
        }
        let _ = write;
        Ok(bag)
    }

    /// The entity with its properties decrypted, if the table has an encryption policy.
    #[cfg_attr(not(feature = "encryption"), allow(clippy::unused_async, clippy::unused_self, reason = "one signature"))]
    pub(crate) async fn decrypted(
        &self,
        bag: PropertyBag,
        marked: &[&str],
        selected: &[&str],
    ) -> Result<PropertyBag, Error> {
        #[cfg(feature = "encryption")]
        if let Some(policy) = &self.encryption {
            return policy.decrypt_bag(bag, marked, selected).await.map_err(Error::Encryption);
        }
        if !marked.is_empty() && bag.properties.get(KEY_DETAILS).is_some() {
            return Err(Error::Invalid(format!(
                "the entity is encrypted, and the table '{}' has no encryption policy",
                self.name
            )));
        }
        let _ = selected;
        Ok(bag)
    }

    /// The address of the table's entities, with this after the name.
    pub(crate) fn path(&self, end: &str) -> String {
        format!("/{}{end}", self.encoded)
    }

    fn entity_path(&self, key: &EntityKey) -> String {
        let mut path = b"/".to_vec();
        write_entity_address(&mut path, &self.encoded, key.partition.as_str(), key.row.as_str());
        text(path)
    }

    pub(crate) fn what(&self, text: &'static str) -> What {
        What { text, table: Some(Arc::clone(&self.name)) }
    }
}

/// Appends an entity as JSON.
pub(crate) fn write_bag(out: &mut Vec<u8>, bag: &PropertyBag) {
    write_entity_request(out, &bag.key, bag.properties.as_record_builder())
        .expect("a builder has no damaged properties");
}

fn key(partition_key: &str, row_key: &str) -> Result<EntityKey, Error> {
    Ok(PropertyBag::new(partition_key, row_key)?.key)
}

/// Addresses are ASCII.
fn text(address: Vec<u8>) -> String {
    String::from_utf8(address).expect("an address is percent-encoded")
}

/// An entity that the service sent.
pub(crate) fn bag(operation: &Operation, stored: StoredEntity) -> Result<PropertyBag, Error> {
    let StoredEntity { body, timestamp: time, etag } = stored;
    let (partition, row) =
        body.partition.zip(body.row).ok_or_else(|| unreadable(operation, "an entity has no keys"))?;
    let time = time.or_else(|| timestamp(etag.as_deref()?));
    let mut bag = PropertyBag::of(EntityKey { partition, row });
    bag.properties = body.properties.into();
    bag.timestamp = time;
    bag.etag = etag.map(ETag::from);
    Ok(bag)
}
