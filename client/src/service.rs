//! The operations on tables and on the service, and the retries of all operations.
//!
//! `entities.rs` has the operations on entities.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::http::{HttpClient, HttpError, HttpOptions, system_roots, tls_config};
use crate::limits::{ATTEMPT_TIME_MAX, ATTEMPTS_MAX, CONNECT_TIME_MAX, RESPONSE_BODY_BYTES_MAX, TABLE_PAGES_MAX};
use crate::request::{BodyFormat, Operation, VERSION};
use crate::retry::{is_transient, pause};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use model::{ServiceProperties, StoredAccessPolicies};
use rustls::RootCertStore;
use std::time::{Duration, SystemTime};
use wire::batch::read_responses;
use wire::error_response::ErrorResponse;
use wire::json::{read_table_set, write_table_request};
use wire::uri::{encode_component, write_table_address};
use wire::{Version, acl, service_properties, xml};

/// A client for the Table service of one account. Clones share their connections.
#[derive(Debug, Clone)]
pub struct TableService {
    pub(crate) endpoint: Endpoint,
    credential: Credential,
    http: HttpClient,
    attempts_max: u32,
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response {
    /// The value of a header; `None` if it is missing or not ASCII text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// An error response to one attempt.
struct Refusal {
    status: u16,
    error: Option<ErrorResponse>,
    retry_after: Option<Duration>,
}

impl TableService {
    /// Creates a client. It connects with the first operation.
    pub fn new(endpoint: Endpoint, credential: Credential) -> Result<Self, rustls::Error> {
        let roots = if endpoint.is_https() { system_roots() } else { RootCertStore::empty() };
        let http = HttpClient::new(HTTP_OPTIONS, tls_config(roots)?);
        Ok(Self { endpoint, credential, http, attempts_max: ATTEMPTS_MAX })
    }

    /// Sets the number of attempts of each operation, for callers that do not want to wait for
    /// [`ATTEMPTS_MAX`] of them.
    #[must_use]
    pub fn with_attempts(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
    }

    /// The endpoint of the account.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Lists the names of all tables, in the spelling and the order of the service.
    pub async fn tables(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut query = String::new();
        for _ in 0..TABLE_PAGES_MAX {
            let operation =
                Operation::get("the list of tables".to_owned(), "/Tables".to_owned(), query, BodyFormat::Json);
            let response = self.execute(&operation).await?;
            names.extend(
                read_table_set(&response.body).map_err(|_| unreadable(&operation, "it is not a list of tables"))?,
            );
            match response.header("x-ms-continuation-NextTableName") {
                Some(next) => query = format!("NextTableName={}", encode_component(next)),
                None => return Ok(names),
            }
        }
        Err(Error::Unreadable { what: "the list of tables".to_owned(), why: "it does not end".to_owned() })
    }

    /// Creates a table unless it exists.
    pub async fn create_table(&self, table: &str) -> Result<(), Error> {
        match self.execute(&create_table_operation(table)).await {
            Err(error) if error.refusal() == Some((409, "TableAlreadyExists")) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Creates a table, which must not exist.
    pub async fn create_new_table(&self, table: &str) -> Result<(), Error> {
        let operation = Operation { is_idempotent: false, ..create_table_operation(table) };
        self.execute(&operation).await.map(drop)
    }

    /// Deletes a table, which must exist, and all its entities.
    pub async fn delete_table(&self, table: &str) -> Result<(), Error> {
        let mut path = b"/".to_vec();
        write_table_address(&mut path, table);
        let path = String::from_utf8(path).unwrap_or_default();
        let operation = Operation {
            method: Method::DELETE,
            is_idempotent: false,
            ..Operation::get(format!("deleting the table '{table}'"), path, String::new(), BodyFormat::Json)
        };
        self.execute(&operation).await.map(drop)
    }

    /// Reads the stored access policies of a table.
    pub async fn policies(&self, table: &str) -> Result<StoredAccessPolicies, Error> {
        let what = format!("the policies of the table '{table}'");
        let operation = Operation::get(what, format!("/{table}"), "comp=acl".to_owned(), BodyFormat::Xml);
        let response = self.execute(&operation).await?;
        acl::read(&response.body).map_err(|_| unreadable(&operation, "it is not a list of policies"))
    }

    /// Replaces the stored access policies of a table.
    pub async fn set_policies(&self, table: &str, policies: &StoredAccessPolicies) -> Result<(), Error> {
        let what = format!("setting the policies of the table '{table}'");
        self.put_xml(what, format!("/{table}"), "comp=acl", acl::write(policies)).await
    }

    /// Reads the service properties of the account.
    pub async fn properties(&self) -> Result<ServiceProperties, Error> {
        let what = "the service properties".to_owned();
        let operation = Operation::get(what, "/".to_owned(), PROPERTIES_QUERY.to_owned(), BodyFormat::Xml);
        let response = self.execute(&operation).await?;
        let update = service_properties::read(&response.body, version());
        let update = update.map_err(|refusal| unreadable(&operation, &refusal.to_string()))?;
        Ok(ServiceProperties::default().updated(update))
    }

    /// Replaces all service properties of the account.
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<(), Error> {
        let document = service_properties::write(properties, version());
        self.put_xml("setting the service properties".to_owned(), "/".to_owned(), PROPERTIES_QUERY, document).await
    }

    async fn put_xml(&self, what: String, path: String, query: &str, document: Vec<u8>) -> Result<(), Error> {
        // The service writes a byte order mark; clients send none.
        let mark = xml::BYTE_ORDER_MARK.as_bytes();
        let body = Bytes::from(document);
        let body = if body.starts_with(mark) { body.slice(mark.len()..) } else { body };
        let operation =
            Operation { method: Method::PUT, body, ..Operation::get(what, path, query.to_owned(), BodyFormat::Xml) };
        self.execute(&operation).await.map(drop)
    }

    /// Executes an operation, with retries.
    pub(crate) async fn execute(&self, operation: &Operation) -> Result<Response, Error> {
        let what = || operation.what.clone();
        for attempts in 1.. {
            let is_last = attempts >= self.attempts_max;
            let request = operation.request(&self.endpoint, &self.credential, SystemTime::now());
            let request = request.map_err(|error| unreadable(operation, &format!("it could not be sent: {error}")))?;
            match self.exchange(request).await {
                Err(HttpError::BodyTooLarge(_)) => return Err(Error::ResponseTooLarge { what: what() }),
                Err(source) if is_last || !operation.is_idempotent => {
                    return Err(Error::Unreachable { what: what(), source, attempts });
                }
                Err(_) => pause(attempts, None).await,
                Ok(response) => match refusal(operation, &response)? {
                    None => return Ok(response),
                    Some(refusal) if refusal.is_transient(operation.is_idempotent) && !is_last => {
                        pause(attempts, refusal.retry_after).await;
                    }
                    Some(Refusal { status, error, .. }) => {
                        let (code, message) = error.map_or_else(Default::default, |error| (error.code, error.message));
                        return Err(Error::Refused { what: what(), status, code, message, attempts });
                    }
                },
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response, HttpError> {
        let mut response = self.http.send(request).await?;
        let body = response.read_body().await?;
        Ok(Response { status: response.status.as_u16(), headers: response.headers, body })
    }
}

const HTTP_OPTIONS: HttpOptions = HttpOptions {
    request_time_max: ATTEMPT_TIME_MAX,
    connect_time_max: Some(CONNECT_TIME_MAX),
    body_bytes_max: RESPONSE_BODY_BYTES_MAX,
    keeps_connections: true,
};

const PROPERTIES_QUERY: &str = "restype=service&comp=properties";

fn create_table_operation(table: &str) -> Operation {
    let mut body = Vec::new();
    write_table_request(&mut body, table);
    Operation {
        method: Method::POST,
        body: Bytes::from(body),
        ..Operation::get(format!("creating the table '{table}'"), "/Tables".to_owned(), String::new(), BodyFormat::Json)
    }
}

fn version() -> Version {
    Version::parse(VERSION).expect("the version is a date")
}

impl Refusal {
    fn is_transient(&self, is_idempotent: bool) -> bool {
        // These two statuses say that nothing was executed; after other failures that is unknown.
        let is_transient = if is_idempotent { is_transient(self.status) } else { matches!(self.status, 429 | 503) };
        // In the cloud, the name of a deleted table stays in use for a while.
        is_transient || self.error.as_ref().is_some_and(|error| error.code == "TableBeingDeleted")
    }
}

/// The error that a response reports; `None` if it reports success. The error of a transaction is in the body of a
/// successful response.
fn refusal(operation: &Operation, response: &Response) -> Result<Option<Refusal>, Error> {
    let retry_after = response.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    if !(200..300).contains(&response.status) {
        let mut error = ErrorResponse::read(&response.body);
        if let (None, Some(code)) = (&error, response.header("x-ms-error-code")) {
            error = Some(ErrorResponse { code: code.to_owned(), message: String::new() });
        }
        return Ok(Some(Refusal { status: response.status, error, retry_after }));
    }
    let BodyFormat::Changeset(operations) = operation.format else { return Ok(None) };
    let content_type = response.header("content-type").unwrap_or_default();
    let parts = read_responses(content_type, &response.body);
    let parts = parts.map_err(|_| unreadable(operation, "it is not the answer to a transaction"))?;
    let failed = parts.iter().find(|part| !(200..300).contains(&part.status));
    if failed.is_none() && parts.len() != operations {
        return Err(unreadable(
            operation,
            &format!("it has results of {} operations, not of {operations}", parts.len()),
        ));
    }
    Ok(failed.map(|part| Refusal { status: part.status, error: ErrorResponse::read(part.body), retry_after }))
}

pub(crate) fn unreadable(operation: &Operation, why: &str) -> Error {
    Error::Unreadable { what: operation.what.clone(), why: why.to_owned() }
}
