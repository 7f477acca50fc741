//! The operations on tables and on the service itself, and how an operation is repeated until it succeeds or is given up.
//!
//! `entities.rs` has the operations on entities.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::limits::{ATTEMPTS_MAX, TABLE_PAGES_MAX};
use crate::request::{Call, Form, VERSION};
use crate::retry::{is_passing, pause};
use crate::transport::{Answer, Transport, TransportError};
use bytes::Bytes;
use http::Method;
use model::{ServiceProperties, StoredAccessPolicies};
use std::time::{Duration, SystemTime};
use wire::batch::read_responses;
use wire::error_response::ErrorResponse;
use wire::json::{read_table_set, write_table_request};
use wire::uri::{encode_component, write_table_address};
use wire::{Version, acl, service_properties, xml};

/// The Table service of one account. Clones share their connections.
#[derive(Debug, Clone)]
pub struct TableService {
    pub(crate) endpoint: Endpoint,
    credential: Credential,
    transport: Transport,
    attempts_max: u32,
}

/// Why one attempt did not succeed.
struct Refusal {
    status: u16,
    told: Option<ErrorResponse>,
    retry_after: Option<Duration>,
}

impl TableService {
    /// Nothing is sent before the first operation.
    pub fn new(endpoint: Endpoint, credential: Credential) -> Result<Self, rustls::Error> {
        let transport = Transport::new(endpoint.is_https())?;
        Ok(Self { endpoint, credential, transport, attempts_max: ATTEMPTS_MAX })
    }

    /// The same service for someone who waits: every operation is tried this often at most.
    #[must_use]
    pub fn with_attempts(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
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
        match self.call(&create_call(table)).await {
            Err(error) if error.refusal() == Some((409, "TableAlreadyExists")) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Creates a table that must not exist.
    pub async fn create_new_table(&self, table: &str) -> Result<(), Error> {
        let call = Call { is_repeatable: false, ..create_call(table) };
        self.call(&call).await.map(drop)
    }

    /// Deletes a table that must exist, with everything in it.
    pub async fn delete_table(&self, table: &str) -> Result<(), Error> {
        let mut path = b"/".to_vec();
        write_table_address(&mut path, table);
        let path = String::from_utf8(path).unwrap_or_default();
        let call = Call {
            method: Method::DELETE,
            is_repeatable: false,
            ..Call::get(format!("deleting the table '{table}'"), path, String::new(), Form::Json)
        };
        self.call(&call).await.map(drop)
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
        let call = Call { method: Method::PUT, body, ..Call::get(what, path, query.to_owned(), Form::Xml) };
        self.call(&call).await.map(drop)
    }

    /// Sends a request until it succeeds, is refused for good, or was tried often enough.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let what = || call.what.clone();
        for attempts in 1.. {
            let is_last = attempts >= self.attempts_max;
            let request = call.request(&self.endpoint, &self.credential, SystemTime::now());
            let request = request.map_err(|error| unreadable(call, &format!("it could not be sent: {error}")))?;
            match self.transport.exchange(request).await {
                Err(TransportError::TooLarge) => return Err(Error::AnswerTooLarge { what: what() }),
                Err(TransportError::Broken(source)) if is_last || !call.is_repeatable => {
                    return Err(Error::Unreachable { what: what(), source, attempts });
                }
                Err(TransportError::Broken(_)) => pause(attempts, None).await,
                Ok(answer) => match judge(call, &answer)? {
                    None => return Ok(answer),
                    Some(refusal) if refusal.is_passing(call.is_repeatable) && !is_last => {
                        pause(attempts, refusal.retry_after).await;
                    }
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

fn create_call(table: &str) -> Call {
    let mut body = Vec::new();
    write_table_request(&mut body, table);
    Call {
        method: Method::POST,
        body: Bytes::from(body),
        ..Call::get(format!("creating the table '{table}'"), "/Tables".to_owned(), String::new(), Form::Json)
    }
}

fn version() -> Version {
    Version::parse(VERSION).expect("the version is a date")
}

impl Refusal {
    fn is_passing(&self, is_repeatable: bool) -> bool {
        // Who is told to come later was not served; after other failures nobody knows.
        let is_passing = if is_repeatable { is_passing(self.status) } else { matches!(self.status, 429 | 503) };
        // A table under deletion keeps its name for a while in the cloud.
        is_passing || self.told.as_ref().is_some_and(|told| told.code == "TableBeingDeleted")
    }
}

/// Why an answer is a refusal; `None` if it is not. A transaction is refused inside of an answer that is none.
fn judge(call: &Call, answer: &Answer) -> Result<Option<Refusal>, Error> {
    let retry_after = answer.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    if !(200..300).contains(&answer.status) {
        let mut told = ErrorResponse::read(&answer.body);
        if let (None, Some(code)) = (&told, answer.header("x-ms-error-code")) {
            told = Some(ErrorResponse { code: code.to_owned(), message: String::new() });
        }
        return Ok(Some(Refusal { status: answer.status, told, retry_after }));
    }
    let Form::Batch(operations) = call.form else { return Ok(None) };
    let content_type = answer.header("content-type").unwrap_or_default();
    let parts = read_responses(content_type, &answer.body);
    let parts = parts.map_err(|_| unreadable(call, "it is not the answer to a transaction"))?;
    let failed = parts.iter().find(|part| !(200..300).contains(&part.status));
    if failed.is_none() && parts.len() != operations {
        return Err(unreadable(call, &format!("it tells of {} operations, not of {operations}", parts.len())));
    }
    Ok(failed.map(|part| Refusal { status: part.status, told: ErrorResponse::read(part.body), retry_after }))
}

pub(crate) fn unreadable(call: &Call, why: &str) -> Error {
    Error::Unreadable { what: call.what.clone(), why: why.to_owned() }
}
