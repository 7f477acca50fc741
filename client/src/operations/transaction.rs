//! Entity group transactions: up to 100 operations on one partition, which are executed together or not at all.
//!
//! Invariant: all operations added to one transaction are sent as one transaction, or not at all.

use super::entities::write_bag;
use super::stored::{IfMatch, Write, Written};
use super::table::Table;
use crate::entity::derive_support::key;
use crate::entity::{Entity, EntityError, PropertyBag};
use crate::error::Error;
use crate::limits::TRANSACTION_BODY_BYTES_MAX;
use crate::pipeline::{BodyFormat, Operation};
use bytes::Bytes;
use http::Method;
use model::EntityKey;
use model::limits::TRANSACTION_OPERATIONS_MAX;
use std::collections::HashSet;
use wire::batch::ChangesetWriter;
use wire::uri::write_entity_address;

/// Operations on different entities in one partition, which are executed together or not at all.
///
/// Any mix of operations is possible, each with its own condition. A transaction is never split. It fails without being
/// sent if it has more than 100 operations, spans two partitions, contains an entity twice, or is larger than 4 MiB.
///
/// ```
/// use rowhouse_client::{ErrorKind, IfMatch, PropertyBag, Transaction};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let accounts = service.table("accounts");
/// # accounts.create().await?;
/// let (from, to) = (PropertyBag::new("bank", "ada")?, PropertyBag::new("bank", "emmy")?);
/// accounts.commit(Transaction::new().insert(&from.with("Balance", 70)?).insert(&to.with("Balance", 30)?)).await?;
///
/// let mut ada = accounts.get::<PropertyBag>("bank", "ada").await?;
/// let mut emmy = accounts.get::<PropertyBag>("bank", "emmy").await?;
/// ada.set("Balance", 60)?;
/// emmy.set("Balance", 40)?;
/// let transfer = Transaction::new().replace(&ada, &ada).replace(&emmy, &emmy);
/// let written = accounts.commit(transfer.clone()).await?;
/// assert_eq!(written.len(), 2);
///
/// // Repeating the transfer finds newer versions: nothing is executed, and the error identifies the failed operation.
/// let error = accounts.commit(transfer).await.unwrap_err();
/// assert_eq!((error.kind(), error.operation_index()), (ErrorKind::PreconditionFailed, Some(0)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    operations: Vec<Result<Change, EntityError>>,
    may_repeat: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write { write: Write, bag: PropertyBag, marked: &'static [&'static str], condition: Option<IfMatch> },
    Delete { key: EntityKey, condition: IfMatch },
}

impl Change {
    pub(crate) fn key(&self) -> &EntityKey {
        match self {
            Self::Write { bag, .. } => &bag.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// Returns the approximate size in the transaction's body, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Write { bag, .. } => bag.properties.as_record_builder().record_bytes(),
            Self::Delete { .. } => 0,
        }
    }

    fn is_idempotent(&self) -> bool {
        match self {
            Self::Write { write, condition, .. } => write.is_idempotent(condition.as_ref()),
            Self::Delete { .. } => false,
        }
    }
}

impl Transaction {
    /// Creates a transaction without operations.
    ///
    /// ```
    /// assert!(rowhouse_client::Transaction::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of operations.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, Transaction};
    /// assert_eq!(Transaction::new().delete("2031", "0001", IfMatch::Any).len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if there are no operations.
    ///
    /// ```
    /// assert!(rowhouse_client::Transaction::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Inserts an entity, which must not exist.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().insert(&PropertyBag::new("2031", "0001")?);
    /// # Ok(()) }
    /// ```
    pub fn insert<E: Entity>(self, entity: &E) -> Self {
        self.write(Write::Insert, entity, None)
    }

    /// Inserts an entity, or replaces the existing one.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().insert_or_replace(&PropertyBag::new("2031", "0001")?);
    /// # Ok(()) }
    /// ```
    pub fn insert_or_replace<E: Entity>(self, entity: &E) -> Self {
        self.write(Write::InsertOrReplace, entity, None)
    }

    /// Inserts an entity, or merges it into the existing one.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().insert_or_merge(&PropertyBag::new("2031", "0001")?);
    /// # Ok(()) }
    /// ```
    pub fn insert_or_merge<E: Entity>(self, entity: &E) -> Self {
        self.write(Write::InsertOrMerge, entity, None)
    }

    /// Replaces an entity, which must exist and match the condition.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().replace(&PropertyBag::new("2031", "0001")?, IfMatch::Any);
    /// # Ok(()) }
    /// ```
    pub fn replace<E: Entity>(self, entity: &E, condition: impl Into<IfMatch>) -> Self {
        self.write(Write::Replace, entity, Some(condition.into()))
    }

    /// Merges into an entity, which must exist and match the condition.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().merge(&PropertyBag::new("2031", "0001")?.with("State", "paid")?, IfMatch::Any);
    /// # Ok(()) }
    /// ```
    pub fn merge<E: Entity>(self, entity: &E, condition: impl Into<IfMatch>) -> Self {
        self.write(Write::Merge, entity, Some(condition.into()))
    }

    /// Deletes an entity, which must exist and match the condition.
    ///
    /// ```
    /// # use rowhouse_client::{IfMatch, Transaction};
    /// let transaction = Transaction::new().delete("2031", "0001", IfMatch::Any);
    /// ```
    pub fn delete(mut self, partition_key: &str, row_key: &str, condition: impl Into<IfMatch>) -> Self {
        let condition = condition.into();
        self.operations.push(key(partition_key, row_key).map(|key| Change::Delete { key, condition }));
        self
    }

    /// Allows the transaction to be sent again although an earlier attempt may have been executed. Use it, for example,
    /// if the program tolerates an insert that conflicts with its own first attempt. By default, a transaction is
    /// retried only if each of its operations can be retried.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Transaction};
    /// # fn main() -> Result<(), rowhouse_client::EntityError> {
    /// let transaction = Transaction::new().insert(&PropertyBag::new("2031", "0001")?).may_repeat();
    /// # Ok(()) }
    /// ```
    pub fn may_repeat(self) -> Self {
        Self { may_repeat: true, ..self }
    }

    pub(crate) fn from_changes(changes: Vec<Change>) -> Self {
        Self { operations: changes.into_iter().map(Ok).collect(), may_repeat: false }
    }

    fn write<E: Entity>(mut self, write: Write, entity: &E, condition: Option<IfMatch>) -> Self {
        let bag = entity.to_bag();
        self.operations.push(bag.map(|bag| Change::Write { write, bag, marked: E::ENCRYPTED, condition }));
        self
    }

    fn checked(self) -> Result<Vec<Change>, Error> {
        let count = self.operations.len();
        if count == 0 || count > TRANSACTION_OPERATIONS_MAX {
            return Err(Error::Invalid(format!(
                "a transaction must have 1 to {TRANSACTION_OPERATIONS_MAX} operations, but this one has {count}"
            )));
        }
        let mut changes: Vec<Change> = Vec::with_capacity(count);
        let mut rows = HashSet::new();
        for (operation, change) in self.operations.into_iter().enumerate() {
            let invalid = |source| Error::Transaction { operation, source: Box::new(source) };
            let change = change.map_err(|error| invalid(Error::Entity(error)))?;
            let key = change.key();
            if let Some(first) = changes.first()
                && first.key().partition != key.partition
            {
                let why = "its partition differs from the first operation's; a transaction must stay in one partition";
                return Err(invalid(Error::Invalid(why.to_owned())));
            }
            if !rows.insert(key.row.clone()) {
                let why = "an earlier operation has the same entity; a transaction may contain each entity only once";
                return Err(invalid(Error::Invalid(why.to_owned())));
            }
            changes.push(change);
        }
        Ok(changes)
    }
}

impl Table {
    /// Executes a transaction: all of its operations, or none. Returns the results in the order of the operations.
    ///
    /// If an operation fails, the transaction fails. [`Error::operation_index`] identifies the operation, and
    /// [`Error::status`] is its status; the service reports no status for the other operations.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Transaction};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # let orders = service.table("orders");
    /// # orders.create().await?;
    /// let mut transaction = Transaction::new();
    /// for number in 0..3 {
    ///     transaction = transaction.insert(&PropertyBag::new("2031", &format!("{number:04}"))?);
    /// }
    /// let written = orders.commit(transaction).await?;
    /// assert_eq!(written.iter().map(|result| result.status).collect::<Vec<_>>(), [204; 3]);
    /// # Ok(()) }
    /// ```
    pub async fn commit(&self, transaction: Transaction) -> Result<Vec<Written>, Error> {
        let may_repeat = transaction.may_repeat;
        let changes = transaction.checked()?;
        let is_idempotent = may_repeat || changes.iter().all(Change::is_idempotent);
        let count = changes.len();
        let endpoint = format!("{}/", self.pipeline.shared.primary);
        let mut changeset = ChangesetWriter::new(Vec::with_capacity(512 * count));
        for (operation, change) in changes.into_iter().enumerate() {
            let invalid = |source| Error::Transaction { operation, source: Box::new(source) };
            self.add(&mut changeset, &endpoint, change).await.map_err(invalid)?;
            if changeset.len() > TRANSACTION_BODY_BYTES_MAX {
                return Err(Error::TransactionTooLarge { operation });
            }
        }
        let operation = Operation {
            method: Method::POST,
            body: Bytes::from(changeset.finish()),
            is_idempotent,
            ..Operation::get(
                self.what("committing a transaction in the table"),
                "/$batch".to_owned(),
                String::new(),
                BodyFormat::Changeset(count),
            )
        };
        let response = self.pipeline.execute(&operation).await?;
        let parts = response.parts(&operation)?;
        Ok(parts.iter().map(|part| Written::new(part.status, part.etag)).collect())
    }

    async fn add(&self, changeset: &mut ChangesetWriter, endpoint: &str, change: Change) -> Result<(), Error> {
        let address = |out: &mut Vec<u8>, key: &EntityKey| {
            out.extend_from_slice(endpoint.as_bytes());
            write_entity_address(out, &self.encoded, key.partition.as_str(), key.row.as_str());
        };
        match change {
            Change::Write { write, bag, marked, condition } => {
                let bag = self.encrypted(write, bag, marked).await?;
                let (method, condition) = (write.batch_method(), condition.as_ref().map(IfMatch::header).transpose()?);
                let write_address = |out: &mut Vec<u8>| match write {
                    Write::Insert => {
                        out.extend_from_slice(endpoint.as_bytes());
                        out.extend_from_slice(self.encoded.as_bytes());
                    }
                    _ => address(out, &bag.key),
                };
                changeset.operation(method, condition, write_address, |out| write_bag(out, &bag));
            }
            Change::Delete { key, condition } => {
                changeset.operation("DELETE", Some(condition.header()?), |out| address(out, &key), |_| ());
            }
        }
        Ok(())
    }
}
