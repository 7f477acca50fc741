//! The operations of the service that copying needs, each repeated until it succeeds or is given up.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::limits::{ATTEMPTS_MAX, TABLE_PAGES_MAX, TRANSACTION_BODY_BYTES_MAX};
use crate::request::{Call, Form, VERSION};
use crate::retry::{is_passing, pause};
use crate::transport::{Answer, Transport, TransportError};
use bytes::Bytes;
use http::Method;
use model::{EntityKey, RecordBuilder, ServiceProperties, StoredAccessPolicies};
use std::time::{Duration, SystemTime};
use wire::batch::{ChangesetWriter, read_answers};
use wire::entity_body::EntityBody;
use wire::json::{read_entity_set, read_table_set, write_entity_request, write_table_request};
use wire::told_error::ToldError;
use wire::uri::{encode_component, write_entity_address};
use wire::{Version, acl, service_properties, xml};

/// An entity as it is read and written: without Timestamp and `ETag`, which the service gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Its keys.
    pub key: EntityKey,
    /// Its custom properties.
    pub properties: RecordBuilder,
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

/// The Table service of one account. Clones share their connections.
#[derive(Debug, Clone)]
pub struct TableService {
    endpoint: Endpoint,
    credential: Credential,
    transport: Transport,
}

/// Why one attempt did not succeed.
struct Refusal {
    status: u16,
    told: Option<ToldError>,
    retry_after: Option<Duration>,
}

impl TableService {
    /// Nothing is sent before the first operation.
    pub fn new(endpoint: Endpoint, credential: Credential) -> Result<Self, rustls::Error> {
        let transport = Transport::new(endpoint.is_https())?;
        Ok(Self { endpoint, credential, transport })
    }

    /// Where the account is served.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The names of all tables, as the service spells and orders them.
    pub async fn tables(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut query = String::new();
        for _ in 0..TABLE_PAGES_MAX {
            let call = Call::get("the list of tables".to_owned(), "/Tables".to_owned(), query, Form::Json);
            let answer = self.call(&call).await?;
            names.extend(read_table_set(&answer.body).map_err(|_| unreadable(&call, "it is not a list of tables"))?);
            match answer.header("x-ms-continuation-NextTableName") {
                Some(next) => query = format!("NextTableName={}", encode_component(next)),
                None => return Ok(names),
            }
        }
        Err(Error::Unreadable { what: "the list of tables".to_owned(), why: "it does not end".to_owned() })
    }

    /// Creates a table; one that is there already is left as it is.
    pub async fn create_table(&self, table: &str) -> Result<(), Error> {
        let mut body = Vec::new();
        write_table_request(&mut body, table);
        let call = Call {
            what: format!("creating the table '{table}'"),
            method: Method::POST,
            path: "/Tables".to_owned(),
            query: String::new(),
            form: Form::Json,
            body: Bytes::from(body),
        };
        match self.call(&call).await {
            Err(error) if error.refusal() == Some((409, "TableAlreadyExists")) => Ok(()),
            result => result.map(drop),
        }
    }

    /// A page of at most this many entities of a table.
    ///
    /// A page that is larger than any answer that is read is asked for again with half as many.
    pub async fn page(&self, table: &str, from: Option<&Continuation>, limit: usize) -> Result<Page, Error> {
        let mut position = String::new();
        if let Some(Continuation { partition, row }) = from {
            position = format!("&NextPartitionKey={}", encode_component(partition));
            if let Some(row) = row {
                position.push_str("&NextRowKey=");
                position.push_str(&encode_component(row));
            }
        }
        let mut top = limit;
        loop {
            let query = format!("$top={top}{position}");
            let call = Call::get(format!("a page of the table '{table}'"), format!("/{table}()"), query, Form::Json);
            match self.call(&call).await {
                Err(Error::AnswerTooLarge { .. }) if top > 1 => top = top.div_ceil(2),
                result => return read_page(&call, &result?),
            }
        }
    }

    /// Stores entities of one partition, whether they exist or not, and replaces all their properties.
    ///
    /// They go in one transaction, or in several if that would be too large; then some may be stored when it fails.
    pub async fn upsert(&self, table: &str, entities: &[Entity]) -> Result<(), Error> {
        let mut pending = vec![entities];
        while let Some(part) = pending.pop() {
            if part.is_empty() {
                continue;
            }
            let call = self.upsert_call(table, part)?;
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

    fn upsert_call(&self, table: &str, entities: &[Entity]) -> Result<Call, Error> {
        let what = format!("writing to the table '{table}'");
        let endpoint = format!("{}/", self.endpoint);
        let mut changeset = ChangesetWriter::new(Vec::new());
        let mut is_damaged = false;
        for Entity { key, properties } in entities {
            let write_address = |out: &mut Vec<u8>| {
                out.extend_from_slice(endpoint.as_bytes());
                write_entity_address(out, table, key.partition.as_str(), key.row.as_str());
            };
            changeset.operation("PUT", write_address, |out| {
                is_damaged |= write_entity_request(out, key, properties).is_err();
            });
        }
        if is_damaged {
            return Err(Error::Unreadable { what, why: "an entity is damaged".to_owned() });
        }
        Ok(Call {
            what,
            method: Method::POST,
            path: "/$batch".to_owned(),
            query: String::new(),
            form: Form::Batch(entities.len()),
            body: Bytes::from(changeset.finish()),
        })
    }

    /// The stored access policies of a table.
    pub async fn policies(&self, table: &str) -> Result<StoredAccessPolicies, Error> {
        let what = format!("the policies of the table '{table}'");
        let call = Call::get(what, format!("/{table}"), "comp=acl".to_owned(), Form::Xml);
        let answer = self.call(&call).await?;
        acl::read(&answer.body).map_err(|_| unreadable(&call, "it is not a list of policies"))
    }

    /// Replaces the stored access policies of a table.
    pub async fn set_policies(&self, table: &str, policies: &StoredAccessPolicies) -> Result<(), Error> {
        let what = format!("setting the policies of the table '{table}'");
        self.put_xml(what, format!("/{table}"), "comp=acl", acl::write(policies)).await
    }

    /// The service properties of the account.
    pub async fn properties(&self) -> Result<ServiceProperties, Error> {
        let what = "the service properties".to_owned();
        let call = Call::get(what, "/".to_owned(), PROPERTIES_QUERY.to_owned(), Form::Xml);
        let answer = self.call(&call).await?;
        let update = service_properties::read(&answer.body, version());
        let update = update.map_err(|refusal| unreadable(&call, &refusal.to_string()))?;
        Ok(ServiceProperties::default().updated(update))
    }

    /// Replaces all service properties of the account.
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<(), Error> {
        let document = service_properties::write(properties, version());
        self.put_xml("setting the service properties".to_owned(), "/".to_owned(), PROPERTIES_QUERY, document).await
    }

    async fn put_xml(&self, what: String, path: String, query: &str, document: Vec<u8>) -> Result<(), Error> {
        // The byte order mark is how the service writes; clients send none.
        let mark = xml::BYTE_ORDER_MARK.as_bytes();
        let body = Bytes::from(document);
        let body = if body.starts_with(mark) { body.slice(mark.len()..) } else { body };
        let call = Call { what, method: Method::PUT, path, query: query.to_owned(), form: Form::Xml, body };
        self.call(&call).await.map(drop)
    }

    /// Sends a request until it succeeds, is refused for good, or was tried often enough.
    async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let what = || call.what.clone();
        for attempts in 1.. {
            let is_last = attempts == ATTEMPTS_MAX;
            let request = call.request(&self.endpoint, &self.credential, SystemTime::now());
            let request = request.map_err(|error| unreadable(call, &format!("it could not be sent: {error}")))?;
            match self.transport.exchange(request).await {
                Err(TransportError::TooLarge) => return Err(Error::AnswerTooLarge { what: what() }),
                Err(TransportError::Broken(source)) if is_last => {
                    return Err(Error::Unreachable { what: what(), source, attempts });
                }
                Err(TransportError::Broken(_)) => pause(attempts, None).await,
                Ok(answer) => match judge(call, &answer)? {
                    None => return Ok(answer),
                    Some(refusal) if refusal.is_passing() && !is_last => pause(attempts, refusal.retry_after).await,
                    Some(Refusal { status, told, .. }) => {
                        let (code, message) = told.map_or_else(Default::default, |told| (told.code, told.message));
                        return Err(Error::Refused { what: what(), status, code, message, attempts });
                    }
                },
            }
        }
        unreachable!("the last attempt returns")
    }
}

const PROPERTIES_QUERY: &str = "restype=service&comp=properties";

fn version() -> Version {
    Version::parse(VERSION).expect("the version is a date")
}

impl Refusal {
    fn is_passing(&self) -> bool {
        // A table under deletion keeps its name for a while in the cloud.
        is_passing(self.status) || self.told.as_ref().is_some_and(|told| told.code == "TableBeingDeleted")
    }
}

/// Why an answer is a refusal; `None` if it is not. A transaction is refused inside of an answer that is none.
fn judge(call: &Call, answer: &Answer) -> Result<Option<Refusal>, Error> {
    let retry_after = answer.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    if !(200..300).contains(&answer.status) {
        let mut told = ToldError::read(&answer.body);
        if let (None, Some(code)) = (&told, answer.header("x-ms-error-code")) {
            told = Some(ToldError { code: code.to_owned(), message: String::new() });
        }
        return Ok(Some(Refusal { status: answer.status, told, retry_after }));
    }
    let Form::Batch(operations) = call.form else { return Ok(None) };
    let content_type = answer.header("content-type").unwrap_or_default();
    let parts = read_answers(content_type, &answer.body);
    let parts = parts.map_err(|_| unreadable(call, "it is not the answer to a transaction"))?;
    let failed = parts.iter().find(|part| !(200..300).contains(&part.status));
    if failed.is_none() && parts.len() != operations {
        return Err(unreadable(call, &format!("it tells of {} operations, not of {operations}", parts.len())));
    }
    Ok(failed.map(|part| Refusal { status: part.status, told: ToldError::read(part.body), retry_after }))
}

fn is_too_large(error: &Error) -> bool {
    error
        .refusal()
        .is_some_and(|(status, code)| status == 413 || matches!(code, "RequestBodyTooLarge" | "ContentLengthExceeded"))
}

fn unreadable(call: &Call, why: &str) -> Error {
    Error::Unreadable { what: call.what.clone(), why: why.to_owned() }
}

fn read_page(call: &Call, answer: &Answer) -> Result<Page, Error> {
    let bodies = read_entity_set(&answer.body);
    let bodies = bodies.map_err(|error| unreadable(call, &format!("an entity is not one: {error:?}")))?;
    let entities = bodies.into_iter().map(|EntityBody { partition, row, properties }| {
        let (partition, row) = partition.zip(row).ok_or_else(|| unreadable(call, "an entity has no keys"))?;
        Ok(Entity { key: EntityKey { partition, row }, properties })
    });
    let text = |name| answer.header(name).map(str::to_owned);
    let next = text("x-ms-continuation-NextPartitionKey")
        .map(|partition| Continuation { partition, row: text("x-ms-continuation-NextRowKey") });
    Ok(Page { entities: entities.collect::<Result<_, Error>>()?, next })
}
