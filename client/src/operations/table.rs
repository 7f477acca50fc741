//! A single table: its name, creation, deletion, policies, retention and indexes.

use super::stored::Write;
use crate::entity::PropertyBag;
use crate::error::{Error, ErrorKind};
use crate::pipeline::{BodyFormat, Operation, Pipeline, ReadFrom, RetryPolicy, What, unreadable};
use bytes::Bytes;
use http::Method;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{EntityKey, Retention, StoredAccessPolicies};
use std::sync::Arc;
use std::time::Duration;
use wire::json::write_table_request;
use wire::table_indexes::TableIndex;
use wire::uri::{encode_component, write_entity_address, write_table_address};
use wire::{acl, table_indexes, table_retention};

/// A table of an account. Cloning a table is cheap, and clones share their connections.
///
/// The client does not check the name; the service refuses invalid names.
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
/// // The version that was read is outdated.
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
    /// The percent-encoded name, for URLs.
    pub(crate) encoded: Arc<str>,
    #[cfg(feature = "encryption")]
    pub(crate) encryption: Option<crate::encryption::EncryptionPolicy>,
}

/// The property of encrypted entities that identifies the key.
const KEY_DETAILS: &str = "_ClientEncryptionMetadata1";

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

    /// Returns the name of the table.
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

    /// Returns the same table with a different timeout for each attempt of an operation.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let hurried = orders.with_timeout(std::time::Duration::from_millis(800));
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, attempt_time_max: Duration) -> Self {
        let mut table = self.clone();
        table.pipeline.attempt_time_max = attempt_time_max;
        table
    }

    /// Returns the same table with a different retry policy.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let once = orders.with_retry(rowhouse_client::RetryPolicy::none());
    /// # }
    /// ```
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        let mut table = self.clone();
        table.pipeline.retry = retry;
        table
    }

    /// Returns the same table with the given ID in the header `x-ms-client-request-id` of each request, instead of a
    /// random ID for each operation. The service writes the ID to its log and repeats it in its response. The ID has 1
    /// to 1,024 ASCII characters.
    ///
    /// ```
    /// # use rowhouse_client::{Error, PropertyBag, Table};
    /// # async fn example(orders: Table, order: PropertyBag) -> Result<(), Error> {
    /// orders.with_client_request_id("checkout-4711").insert(&order).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_client_request_id(&self, id: &str) -> Self {
        let mut table = self.clone();
        table.pipeline.client_request_id = Some(Arc::from(id));
        table
    }

    /// Returns the same table with an encryption policy: entities are encrypted when written and decrypted when read.
    /// Merges are refused.
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
    /// // Without the policy, a read returns the stored bytes: eight bytes and an authentication tag of sixteen bytes.
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

    /// Creates the table if it does not exist. Looks for it first, so that a program that starts again causes no
    /// failed request in the service's log.
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
        match self.exists().await {
            Ok(true) => return Ok(()),
            // A credential may allow creating tables but not reading them, and some emulators have no such request.
            Ok(false) | Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        match self.create_table(true).await {
            Err(error) if error.code() == Some("TableAlreadyExists") => Ok(()),
            result => result,
        }
    }

    /// Returns true if the primary has the table.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// let orders = service.table("orders");
    /// assert!(!orders.exists().await?);
    /// orders.create().await?;
    /// assert!(orders.exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn exists(&self) -> Result<bool, Error> {
        let mut pipeline = self.pipeline.clone();
        // The secondary may lag far behind.
        pipeline.read_from = ReadFrom::Primary;
        let what = self.what("looking for the table");
        match pipeline.execute(&Operation::get(what, self.table_address(), String::new(), BodyFormat::Json)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
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
        let what = self.what("deleting the table");
        let operation = Operation {
            method: Method::DELETE,
            is_idempotent: false,
            ..Operation::get(what, self.table_address(), String::new(), BodyFormat::Json)
        };
        self.pipeline.execute(&operation).await.map(drop)
    }

    /// Deletes the table and all its entities if it exists, and returns whether it did.
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
        let what = self.what("reading the policies of the table");
        let operation = Operation::get(what, self.path(""), "comp=acl".to_owned(), BodyFormat::Xml);
        let response = self.pipeline.execute(&operation).await?;
        acl::read(&response.body).map_err(|_| unreadable(&operation, "it contains no valid list of policies"))
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
    /// let policies = StoredAccessPolicies::new(vec![readers]).ok_or("too many policies, or a duplicate id")?;
    /// orders.set_policies(&policies).await?;
    /// assert_eq!(orders.policies().await?, policies);
    /// # Ok(()) }
    /// ```
    pub async fn set_policies(&self, policies: &StoredAccessPolicies) -> Result<(), Error> {
        let what = self.what("setting the policies of the table");
        self.pipeline.put_xml(what, self.path(""), "comp=acl", acl::write(policies)).await
    }

    /// Reads how long the entities of the table exist, or `None` if they exist until they are deleted. Only servers
    /// with extensions support this; others refuse it with the code `InvalidQueryParameterValue`.
    ///
    /// ```
    /// # async fn example(sessions: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// if let Some(retention) = sessions.retention().await? {
    ///     println!("sessions expire after {} s", retention.seconds());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn retention(&self) -> Result<Option<Retention>, Error> {
        let what = self.what("reading the retention of the table");
        let operation = Operation::get(what, self.path(""), "comp=retention".to_owned(), BodyFormat::Xml);
        let response = self.pipeline.execute(&operation).await?;
        table_retention::read(&response.body).map_err(|_| unreadable(&operation, "it contains no valid retention"))
    }

    /// Sets how long the entities of the table exist. `None` keeps them until they are deleted. Only servers with
    /// extensions support this; others refuse it with the code `InvalidQueryParameterValue`.
    ///
    /// ```
    /// use rowhouse_client::Retention;
    ///
    /// # async fn example(sessions: rowhouse_client::Table, offers: rowhouse_client::Table)
    /// # -> Result<(), rowhouse_client::Error> {
    /// // A session expires a day after its last write, and an offer at the time in its property `Ends`.
    /// sessions.set_retention(Retention::by_age(24 * 60 * 60)).await?;
    /// offers.set_retention(Retention::by_property("Ends", 0)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_retention(&self, retention: Option<Retention>) -> Result<(), Error> {
        let what = self.what("setting the retention of the table");
        let body = table_retention::write(retention.as_ref());
        self.pipeline.put_xml(what, self.path(""), "comp=retention", body).await
    }

    /// Reads the indexes of the table. Only servers with extensions support this; others refuse it with the code
    /// `InvalidQueryParameterValue`.
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// for index in orders.indexes().await? {
    ///     println!("{}: {}", index.property, if index.is_ready { "ready" } else { "being built" });
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn indexes(&self) -> Result<Vec<TableIndex>, Error> {
        let what = self.what("reading the indexes of the table");
        let operation = Operation::get(what, self.path(""), "comp=indexes".to_owned(), BodyFormat::Xml);
        let response = self.pipeline.execute(&operation).await?;
        table_indexes::read(&response.body).map_err(|_| unreadable(&operation, "it contains no valid list of indexes"))
    }

    /// Replaces the list of the properties that have an index: at most eight. A new index is built in the background;
    /// until it is [ready](Self::indexes), queries do not use it. Only servers with extensions support this; others
    /// refuse it with the code `InvalidQueryParameterValue`.
    ///
    /// An index speeds up queries whose filter compares the property with a value, and lets queries return entities
    /// [in the order of the property](crate::Query::order_by).
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// orders.set_indexes(&["Total", "Created"]).await?;
    /// while orders.indexes().await?.iter().any(|index| !index.is_ready) {
    ///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn set_indexes(&self, properties: &[&str]) -> Result<(), Error> {
        let what = self.what("setting the indexes of the table");
        let body = table_indexes::write_properties(properties.iter().copied());
        self.pipeline.put_xml(what, self.path(""), "comp=indexes", body).await
    }

    /// Returns the encoded list of properties to select, or `None` to select all properties. Keys and the Timestamp are
    /// always selected.
    pub(crate) fn select_list(&self, names: &[&str]) -> Option<String> {
        if names.is_empty() {
            return None;
        }
        let system = [PARTITION_KEY, ROW_KEY, TIMESTAMP];
        let custom = names.iter().copied().filter(|name| !system.contains(name));
        let list: Vec<&str> = system.into_iter().chain(custom).chain(self.metadata_names().iter().copied()).collect();
        Some(encode_component(&list.join(",")))
    }

    #[cfg_attr(not(feature = "encryption"), allow(clippy::unused_self, reason = "one signature"))]
    fn metadata_names(&self) -> &'static [&'static str] {
        #[cfg(feature = "encryption")]
        if self.encryption.is_some() {
            return crate::encryption::METADATA_NAMES;
        }
        &[]
    }

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
                "the type marks properties for encryption, but the table '{}' has no encryption policy",
                self.name
            )));
        }
        let _ = write;
        Ok(bag)
    }

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
                "the entity is encrypted, but the table '{}' has no encryption policy",
                self.name
            )));
        }
        let _ = selected;
        Ok(bag)
    }

    pub(crate) fn path(&self, end: &str) -> String {
        format!("/{}{end}", self.encoded)
    }

    fn table_address(&self) -> String {
        let mut path = b"/".to_vec();
        write_table_address(&mut path, &self.encoded);
        address_text(path)
    }

    pub(super) fn entity_path(&self, key: &EntityKey) -> String {
        let mut path = b"/".to_vec();
        write_entity_address(&mut path, &self.encoded, key.partition.as_str(), key.row.as_str());
        address_text(path)
    }

    pub(crate) fn what(&self, text: &'static str) -> What {
        What { text, table: Some(Arc::clone(&self.name)) }
    }
}

/// An address is always ASCII.
fn address_text(address: Vec<u8>) -> String {
    String::from_utf8(address).expect("an address is percent-encoded")
}
