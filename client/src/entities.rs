//! The operations on entities.

use crate::error::Error;
use crate::limits::TRANSACTION_BODY_BYTES_MAX;
use crate::request::{Call, Form};
use crate::service::{TableService, unreadable};
use crate::transport::Answer;
use bytes::Bytes;
use http::Method;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{DateTime, EntityKey, RecordBuilder};
use wire::batch::ChangesetWriter;
use wire::entity_body::StoredEntity;
use wire::json::{read_entity_set, read_stored_entity, write_entity_request};
use wire::uri::{encode_component, write_entity_address};

/// An entity as it is read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Its keys.
    pub key: EntityKey,
    /// Its custom properties.
    pub properties: RecordBuilder,
    /// When it was written last, if that is known. It is never written: the service gives it.
    pub timestamp: Option<DateTime>,
    /// Its version as the service spells it, if that is known. It is never written.
    pub etag: Option<Box<str>>,
}

impl Entity {
    /// An entity to write.
    pub fn new(key: EntityKey, properties: RecordBuilder) -> Self {
        Self { key, properties, timestamp: None, etag: None }
    }
}

/// Which entities of a table are read, and what of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// An expression of the filter language; nothing takes all entities.
    pub filter: Option<String>,
    /// The custom properties that are read; none stands for all. Keys and Timestamp are always read.
    pub select: Vec<String>,
}

/// What happens to an entity that is there already, and to one that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It must not be there.
    Insert,
    /// All its properties are replaced; it is inserted if it is missing.
    Replace,
    /// The properties that are given are set, the others stay; it is inserted if it is missing.
    Merge,
}

/// Where a query goes on: texts that only the service that gave them understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// `NextPartitionKey`
    pub partition: String,
    /// `NextRowKey`
    pub row: Option<String>,
}

/// Some entities of a table, in order.
#[derive(Debug, Default)]
pub struct Page {
    /// The entities; there may be none although there are more pages.
    pub entities: Vec<Entity>,
    /// Where the next page begins; `None` behind the last one.
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
    /// A page of at most this many entities of a table.
    ///
    /// A page that is larger than any answer that is read is asked for again with half as many.
    pub async fn page(
        &self,
        table: &str,
        query: &Query,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<Page, Error> {
        let mut rest = String::new();
        if let Some(filter) = &query.filter {
            rest = format!("&$filter={}", encode_component(filter));
        }
        rest.push_str(&select_option('&', &query.select));
        if let Some(Continuation { partition, row }) = from {
            rest.push_str("&NextPartitionKey=");
            rest.push_str(&encode_component(partition));
            if let Some(row) = row {
                rest.push_str("&NextRowKey=");
                rest.push_str(&encode_component(row));
            }
        }
        let mut top = limit;
        loop {
            let query = format!("$top={top}{rest}");
            let call = Call::get(format!("a page of the table '{table}'"), format!("/{table}()"), query, Form::Json);
            match self.call(&call).await {
                Err(Error::AnswerTooLarge { .. }) if top > 1 => top = top.div_ceil(2),
                result => return read_page(&call, &result?),
            }
        }
    }

    /// One entity.
    pub async fn entity(&self, table: &str, key: &EntityKey, select: &[String]) -> Result<Entity, Error> {
        let what = format!("reading an entity of the table '{table}'");
        let query = select_option(' ', select).trim_start().to_owned();
        let call = Call::get(what, entity_path(table, key), query, Form::Json);
        let answer = self.call(&call).await?;
        let mut stored = read_stored_entity(&answer.body)
            .map_err(|error| unreadable(&call, &format!("the entity is not one: {error:?}")))?;
        stored.etag = answer.header("etag").map(Box::from).or(stored.etag);
        entity(&call, stored)
    }

    /// Writes one entity; tells its new `ETag`. With a condition, an `ETag` or `*`, it must be there.
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
        let call = Call {
            method,
            body: Bytes::from(body),
            if_match: condition.map(str::to_owned),
            // An insert, or a change of one version, that is repeated may find itself.
            is_repeatable: mode != WriteMode::Insert && condition.is_none(),
            ..Call::get(what, path, String::new(), Form::Json)
        };
        Ok(self.call(&call).await?.header("etag").map(str::to_owned))
    }

    /// Deletes one entity, which must be there and fulfil the condition: an `ETag`, or `*` for any.
    pub async fn delete(&self, table: &str, key: &EntityKey, condition: &str) -> Result<(), Error> {
        let what = format!("deleting an entity of the table '{table}'");
        let call = Call {
            method: Method::DELETE,
            if_match: Some(condition.to_owned()),
            is_repeatable: false,
            ..Call::get(what, entity_path(table, key), String::new(), Form::Json)
        };
        self.call(&call).await.map(drop)
    }

    /// Writes different entities of one partition.
    ///
    /// They go in one transaction, or in several if that would be too large; then some may be stored when it fails. It
    /// is repeated when its outcome is not known, so an insert may find itself.
    pub async fn write(&self, table: &str, entities: &[Entity], mode: WriteMode) -> Result<(), Error> {
        let mut pending = vec![entities];
        while let Some(part) = pending.pop() {
            if part.is_empty() {
                continue;
            }
            let call = self.write_call(table, part, mode)?;
            let (first, second) = part.split_at(part.len().div_ceil(2));
            let is_splittable = !second.is_empty();
            if is_splittable && call.body.len() > TRANSACTION_BODY_BYTES_MAX {
                pending.extend([second, first]);
                continue;
            }
            match self.call(&call).await {
                Err(error) if is_splittable && is_too_large(&error) => pending.extend([second, first]),
                result => drop(result?),
            }
        }
        Ok(())
    }

    fn write_call(&self, table: &str, entities: &[Entity], mode: WriteMode) -> Result<Call, Error> {
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
        let form = Form::Batch(entities.len());
        let body = Bytes::from(changeset.finish());
        Ok(Call { method: Method::POST, body, ..Call::get(what, "/$batch".to_owned(), String::new(), form) })
    }
}

fn damaged(what: &str) -> Error {
    Error::Unreadable { what: what.to_owned(), why: "an entity is damaged".to_owned() }
}

/// The projection as a query option behind a separator; nothing if everything is read.
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

fn entity(call: &Call, stored: StoredEntity) -> Result<Entity, Error> {
    let StoredEntity { body, timestamp, etag } = stored;
    let (partition, row) = body.partition.zip(body.row).ok_or_else(|| unreadable(call, "an entity has no keys"))?;
    Ok(Entity { key: EntityKey { partition, row }, properties: body.properties, timestamp, etag })
}

fn read_page(call: &Call, answer: &Answer) -> Result<Page, Error> {
    let bodies = read_entity_set(&answer.body);
    let bodies = bodies.map_err(|error| unreadable(call, &format!("an entity is not one: {error:?}")))?;
    let entities = bodies.into_iter().map(|stored| entity(call, stored)).collect::<Result<_, Error>>()?;
    let text = |name| answer.header(name).map(str::to_owned);
    let next = text("x-ms-continuation-NextPartitionKey")
        .map(|partition| Continuation { partition, row: text("x-ms-continuation-NextRowKey") });
    Ok(Page { entities, next })
}
