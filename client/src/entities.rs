//! The operations on entities.

use crate::error::Error;
use crate::limits::TRANSACTION_BODY_BYTES_MAX;
use crate::request::{BodyFormat, Operation};
use crate::service::{Response, TableService, unreadable};
use bytes::Bytes;
use http::Method;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{DateTime, EntityKey, RecordBuilder};
use wire::batch::ChangesetWriter;
use wire::entity_body::StoredEntity;
use wire::json::{read_entity_set, read_stored_entity, write_entity_request};
use wire::uri::{encode_component, write_entity_address};

/// An entity that was read or is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// The partition key and the row key.
    pub key: EntityKey,
    /// The custom properties.
    pub properties: RecordBuilder,
    /// The time of the last write, if known. It is not sent, because the service sets it.
    pub timestamp: Option<DateTime>,
    /// The `ETag`, if known. It is not sent.
    pub etag: Option<Box<str>>,
}

impl Entity {
    /// An entity to write.
    pub fn new(key: EntityKey, properties: RecordBuilder) -> Self {
        Self { key, properties, timestamp: None, etag: None }
    }
}

/// Which entities of a table are read, and which of their properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// An expression of the filter language; `None` selects all entities.
    pub filter: Option<String>,
    /// The custom properties that are read; an empty list means all. Keys and Timestamp are always read.
    pub select: Vec<String>,
}

/// How an entity is written, depending on whether it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It must not exist.
    Insert,
    /// All its properties are replaced; a missing entity is inserted.
    Replace,
    /// The given properties are set, the others are kept; a missing entity is inserted.
    Merge,
}

/// The continuation token of a query. Its texts are opaque: only the service that made them can read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The value of `NextPartitionKey`.
    pub partition: String,
    /// The value of `NextRowKey`.
    pub row: Option<String>,
}

/// A page of the entities of a table, in key order.
#[derive(Debug, Default)]
pub struct Page {
    /// The entities. A page may be empty although more pages follow.
    pub entities: Vec<Entity>,
    /// Where the next page begins; `None` for the last page.
    pub next: Option<Continuation>,
}

impl WriteMode {
    fn method(self) -> &'static str {
        match self {
            Self::Insert => "POST",
            Self::Replace => "PUT",
            Self::Merge => "MERGE",
        }
    }
}

impl TableService {
    /// Reads a page of at most `limit` entities.
    ///
    /// If the page is larger than a response may be, it is requested again with half as many entities.
    pub async fn page(
        &self,
        table: &str,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<Page, Error> {
        let mut options = String::new();
        if let Some(filter) = &query.filter {
            options = format!("&$filter={}", encode_component(filter));
        }
        options.push_str(&select_option('&', &query.select));
        if let Some(Continuation { partition, row }) = from {
            options.push_str("&NextPartitionKey=");
            options.push_str(&encode_component(partition));
            if let Some(row) = row {
                options.push_str("&NextRowKey=");
                options.push_str(&encode_component(row));
            }
        }
        let mut top = limit;
        loop {
            let query = format!("$top={top}{options}");
            let operation = Operation::get(
                format!("a page of the table '{table}'"),
                format!("/{table}()"),
                query,
                BodyFormat::Json,
            );
            match self.execute(&operation).await {
                Err(Error::ResponseTooLarge { .. }) if top > 1 => top = top.div_ceil(2),
                result => return read_page(&operation, &result?),
            }
        }
    }

    /// Reads one entity.
    pub async fn entity(&self, table: &str, key: &EntityKey, select: &[String]) -> Result<Entity, Error> {
        let what = format!("reading an entity of the table '{table}'");
        let query = select_option(' ', select).trim_start().to_owned();
        let operation = Operation::get(what, entity_path(table, key), query, BodyFormat::Json);
        let response = self.execute(&operation).await?;
        let mut stored = read_stored_entity(&response.body)
            .map_err(|error| unreadable(&operation, &format!("the entity is malformed: {error:?}")))?;
        stored.etag = response.header("etag").map(Box::from).or(stored.etag);
        entity(&operation, stored)
    }

    /// Writes one entity and returns its new `ETag`. With a condition, an `ETag` or `*`, the entity must exist and match.
    pub async fn put(
        &self,
        table: &str,
        entity: &Entity,
        mode: WriteMode,
        condition: Option<&str>,
    ) -> Result<Option<String>, Error> {
        let what = format!("writing to the table '{table}'");
        let (method, path) = match mode {
            WriteMode::Insert => (Method::POST, format!("/{table}")),
            WriteMode::Replace => (Method::PUT, entity_path(table, &entity.key)),
            WriteMode::Merge => (Method::PATCH, entity_path(table, &entity.key)),
        };
        let mut body = Vec::new();
        write_entity_request(&mut body, &entity.key, &entity.properties).map_err(|_| damaged(&what))?;
        let operation = Operation {
            method,
            body: Bytes::from(body),
            if_match: condition.map(str::to_owned),
            // A repeated insert, or a repeated change of one version, may fail because its first attempt succeeded.
            is_idempotent: mode != WriteMode::Insert && condition.is_none(),
            ..Operation::get(what, path, String::new(), BodyFormat::Json)
        };
        Ok(self.execute(&operation).await?.header("etag").map(str::to_owned))
    }

    /// Deletes one entity, which must exist and match the condition: an `ETag`, or `*` for any.
    pub async fn delete(&self, table: &str, key: &EntityKey, condition: &str) -> Result<(), Error> {
        let what = format!("deleting an entity of the table '{table}'");
        let operation = Operation {
            method: Method::DELETE,
            if_match: Some(condition.to_owned()),
            is_idempotent: false,
            ..Operation::get(what, entity_path(table, key), String::new(), BodyFormat::Json)
        };
        self.execute(&operation).await.map(drop)
    }

    /// Writes distinct entities of one partition, in one transaction.
    ///
    /// A transaction that would be too large is split, so some entities may be stored although the call fails. A
    /// transaction whose outcome is unknown is repeated, so an insert may fail because its first attempt succeeded.
    pub async fn write(&self, table: &str, entities: &[Entity], mode: WriteMode) -> Result<(), Error> {
        let mut pending = vec![entities];
        while let Some(part) = pending.pop() {
            if part.is_empty() {
                continue;
            }
            let operation = self.transaction(table, part, mode)?;
            let (first, second) = part.split_at(part.len().div_ceil(2));
            let is_splittable = !second.is_empty();
            if is_splittable && operation.body.len() > TRANSACTION_BODY_BYTES_MAX {
                pending.extend([second, first]);
                continue;
            }
            match self.execute(&operation).await {
                Err(error) if is_splittable && is_too_large(&error) => pending.extend([second, first]),
                result => drop(result?),
            }
        }
        Ok(())
    }

    fn transaction(&self, table: &str, entities: &[Entity], mode: WriteMode) -> Result<Operation, Error> {
        let what = format!("writing to the table '{table}'");
        let endpoint = format!("{}/", self.endpoint);
        let mut changeset = ChangesetWriter::new(Vec::new());
        let mut is_damaged = false;
        for Entity { key, properties, .. } in entities {
            let write_address = |out: &mut Vec<u8>| {
                out.extend_from_slice(endpoint.as_bytes());
                match mode {
                    WriteMode::Insert => out.extend_from_slice(table.as_bytes()),
                    _ => write_entity_address(out, table, key.partition.as_str(), key.row.as_str()),
                }
            };
            changeset.operation(mode.method(), write_address, |out| {
                is_damaged |= write_entity_request(out, key, properties).is_err();
            });
        }
        if is_damaged {
            return Err(damaged(&what));
        }
        let format = BodyFormat::Changeset(entities.len());
        let body = Bytes::from(changeset.finish());
        Ok(Operation {
            method: Method::POST,
            body,
            ..Operation::get(what, "/$batch".to_owned(), String::new(), format)
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::Unreadable { what: what.to_owned(), why: "an entity is damaged".to_owned() }
}

/// The `$select` option after a separator; empty if all properties are read.
fn select_option(separator: char, select: &[String]) -> String {
    if select.is_empty() {
        return String::new();
    }
    let mut names = vec![PARTITION_KEY, ROW_KEY, TIMESTAMP];
    names.extend(select.iter().map(String::as_str).filter(|name| ![PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(name)));
    format!("{separator}$select={}", encode_component(&names.join(",")))
}

fn entity_path(table: &str, key: &EntityKey) -> String {
    let mut path = b"/".to_vec();
    write_entity_address(&mut path, table, key.partition.as_str(), key.row.as_str());
    String::from_utf8(path).unwrap_or_default()
}

fn is_too_large(error: &Error) -> bool {
    error
        .refusal()
        .is_some_and(|(status, code)| status == 413 || matches!(code, "RequestBodyTooLarge" | "ContentLengthExceeded"))
}

fn entity(operation: &Operation, stored: StoredEntity) -> Result<Entity, Error> {
    let StoredEntity { body, timestamp, etag } = stored;
    let (partition, row) =
        body.partition.zip(body.row).ok_or_else(|| unreadable(operation, "an entity has no keys"))?;
    Ok(Entity { key: EntityKey { partition, row }, properties: body.properties, timestamp, etag })
}

fn read_page(operation: &Operation, response: &Response) -> Result<Page, Error> {
    let bodies = read_entity_set(&response.body);
    let bodies = bodies.map_err(|error| unreadable(operation, &format!("an entity is malformed: {error:?}")))?;
    let entities = bodies.into_iter().map(|stored| entity(operation, stored)).collect::<Result<_, Error>>()?;
    let text = |name| response.header(name).map(str::to_owned);
    let next = text("x-ms-continuation-NextPartitionKey")
        .map(|partition| Continuation { partition, row: text("x-ms-continuation-NextRowKey") });
    Ok(Page { entities, next })
}
