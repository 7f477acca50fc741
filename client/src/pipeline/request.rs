//! Builds signed requests.
//!
//! This module must not depend on connections or the meaning of operations.

use crate::account::Endpoint;
use crate::future::BoxFuture;
use crate::http::{HttpClient, HttpError};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use http::{HeaderValue, Method, Request, Response};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::QueryOptions;
use wire::batch::ChangesetWriter;
use wire::signing::{AccountKey, Scheme, SignedRequest};

pub(crate) const VERSION: &str = "2019-02-02";

const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Xml,
    /// The number of entity operations in the changeset.
    Changeset(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct What {
    pub(crate) text: &'static str,
    /// The name is appended in quotes.
    pub(crate) table: Option<Arc<str>>,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(f, "{} '{table}'", self.text),
            None => f.write_str(self.text),
        }
    }
}

/// A request without a date and a signature, which each attempt adds.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) what: What,
    pub(crate) method: Method,
    /// The percent-encoded path with a leading slash, relative to the endpoint's path.
    pub(crate) path: String,
    /// The percent-encoded query string without a question mark. May be empty.
    pub(crate) query: String,
    pub(crate) format: BodyFormat,
    pub(crate) body: Bytes,
    pub(crate) if_match: Option<String>,
    /// True if the response to a write should contain the entity.
    pub(crate) echoes: bool,
    /// True if the operation can be sent again even if an earlier attempt was executed.
    pub(crate) is_idempotent: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Authorization<'a> {
    Key(&'a AccountKey, Scheme),
    Sas(&'a str),
    Bearer(&'a str),
}

impl Operation {
    pub(crate) fn get(what: What, path: String, query: String, format: BodyFormat) -> Self {
        let (method, body) = (Method::GET, Bytes::new());
        Self { what, method, path, query, format, body, if_match: None, echoes: false, is_idempotent: true }
    }

    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        authorization: Authorization<'_>,
        now: SystemTime,
        client_request_id: &str,
    ) -> Result<Request<Bytes>, http::Error> {
        let content_type = match self.format {
            _ if self.body.is_empty() => "",
            BodyFormat::Json => "application/json",
            BodyFormat::Xml => "application/xml",
            BodyFormat::Changeset(_) => ChangesetWriter::CONTENT_TYPE,
        };
        let accept = match self.format {
            BodyFormat::Json | BodyFormat::Changeset(_) => "application/json;odata=minimalmetadata",
            BodyFormat::Xml => "application/xml",
        };
        let (token, between) = match authorization {
            Authorization::Sas(token) => (token, if self.query.is_empty() { "" } else { "&" }),
            _ => ("", ""),
        };
        let mark = if token.is_empty() && self.query.is_empty() { "" } else { "?" };
        let path = self.full_path(endpoint);
        let date = httpdate::fmt_http_date(now);
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{path}{mark}{}{between}{token}", endpoint.origin(), self.query))
            .header(ACCEPT, accept)
            .header("x-ms-version", VERSION)
            .header("x-ms-date", &date)
            .header(CLIENT_REQUEST_ID, client_request_id)
            .header("DataServiceVersion", "3.0;")
            .header("MaxDataServiceVersion", "3.0;NetFx");
        if self.format == BodyFormat::Json && self.method != Method::GET {
            request = request.header("Prefer", if self.echoes { "return-content" } else { "return-no-content" });
        }
        if let Some(condition) = &self.if_match {
            request = request.header(IF_MATCH, condition);
        }
        if !content_type.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let value = match authorization {
            Authorization::Key(key, scheme) => Some(self.signed(endpoint, key, scheme, content_type, &date, &path)),
            Authorization::Bearer(token) => Some(format!("Bearer {token}")),
            Authorization::Sas(_) => None,
        };
        if let Some(value) = value {
            let mut value = HeaderValue::try_from(value)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(self.body.clone())
    }

    fn signed(
        &self,
        endpoint: &Endpoint,
        key: &AccountKey,
        scheme: Scheme,
        content_type: &str,
        date: &str,
        path: &str,
    ) -> String {
        let account = endpoint.account().as_str();
        let options = QueryOptions::parse(&self.query);
        let method = self.method.as_str();
        let comp = options.comp.as_deref();
        let request = SignedRequest { method, content_md5: "", content_type, date, account, path, comp };
        let name = match scheme {
            Scheme::SharedKey => "SharedKey",
            Scheme::SharedKeyLite => "SharedKeyLite",
        };
        format!("{name} {account}:{}", key.sign(&request.string_to_sign(scheme)))
    }

    fn full_path(&self, endpoint: &Endpoint) -> String {
        format!("{}{}", endpoint.path(), self.path)
    }
}

// Delivers requests to a service, over HTTP or through a transport that a test provides.
//
// This module must not depend on the Table protocol.

/// Sends requests and returns responses. The library implements it for HTTP and HTTPS; a test can provide its own
/// implementation.
///
/// Dropping the future abandons the request.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use rowhouse_client::{BoxFuture, HttpError, TableService, Transport};
/// use std::time::Duration;
///
/// /// Responds to every request like a service that is too busy.
/// #[derive(Debug)]
/// struct Busy;
///
/// impl Transport for Busy {
///     fn send(&self, _: Request<Bytes>, _: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
///         Box::pin(async { Ok(Response::builder().status(503).body(Bytes::new()).expect("a valid response")) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), rowhouse_client::Error> {
/// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?
///     .transport(Busy)
///     .retry(rowhouse_client::RetryPolicy::none())
///     .build()?;
/// let error = service.tables().all().await.unwrap_err();
/// assert_eq!(error.kind(), rowhouse_client::ErrorKind::Throttled);
/// # Ok(()) }
/// ```
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a request with an absolute URL, and returns the complete response within `time_max`.
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>>;
}

impl Transport for HttpClient {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        Box::pin(async move {
            let mut response = self.send_within(request, time_max).await?;
            let body = response.read_body().await?;
            let mut whole = Response::new(body);
            *whole.status_mut() = response.status;
            *whole.headers_mut() = response.headers;
            Ok(whole)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::signing::any_verifies;

    const WHAT: What = What { text: "", table: None };

    fn operation(method: Method, path: &str, query: &str, format: BodyFormat) -> Operation {
        let body = Bytes::from_static(b"body");
        Operation { method, body, ..Operation::get(WHAT, path.to_owned(), query.to_owned(), format) }
    }

    #[test]
    fn requests_are_signed_as_a_server_checks_them() {
        let key = AccountKey::parse(crate::DEVELOPMENT_KEY).unwrap();
        let endpoint = Endpoint::parse("http://127.0.0.1:1", None).unwrap();
        for (scheme, (operation, comp)) in [Scheme::SharedKey, Scheme::SharedKeyLite].into_iter().flat_map(|scheme| {
            [
                (operation(Method::GET, "/Tables", "", BodyFormat::Json), None),
                (operation(Method::POST, "/$batch", "", BodyFormat::Changeset(1)), None),
                (operation(Method::PUT, "/Harvest", "comp=acl", BodyFormat::Xml), Some("acl")),
                (operation(Method::GET, "/", "restype=service&comp=properties", BodyFormat::Xml), Some("properties")),
            ]
            .map(|case| (scheme, case))
        }) {
            let request =
                operation.request(&endpoint, Authorization::Key(&key, scheme), SystemTime::now(), "id-7").unwrap();
            let header = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
            let signed = SignedRequest {
                method: request.method().as_str(),
                content_md5: "",
                content_type: header("content-type"),
                date: header("x-ms-date"),
                account: "devstoreaccount1",
                path: request.uri().path(),
                comp,
            };
            let authorization = wire::signing::Authorization::parse(header("authorization")).unwrap();
            assert_eq!(authorization.scheme, scheme);
            let text = signed.string_to_sign(scheme);
            assert!(any_verifies([&key], &text, &authorization.signature.unwrap()), "{text}");
            assert!(!format!("{request:?}").contains("SharedKey"), "Debug output must not show the signature");
        }
    }

    #[test]
    fn a_shared_access_signature_follows_the_query() {
        let endpoint = Endpoint::parse("https://acct.table.core.windows.net", None).unwrap();
        for (query, expected) in [
            ("", "https://acct.table.core.windows.net/t()?sv=2019-02-02&sig=a%2Bb"),
            ("$top=1", "https://acct.table.core.windows.net/t()?$top=1&sv=2019-02-02&sig=a%2Bb"),
        ] {
            let operation = operation(Method::GET, "/t()", query, BodyFormat::Json);
            let authorization = Authorization::Sas("sv=2019-02-02&sig=a%2Bb");
            let request = operation.request(&endpoint, authorization, SystemTime::now(), "id-7").unwrap();
            assert_eq!(request.uri().to_string(), expected);
            assert!(!request.headers().contains_key(AUTHORIZATION));
        }
    }

    #[test]
    fn a_token_is_sent_and_not_shown() {
        let endpoint = Endpoint::parse("https://acct.table.core.windows.net", None).unwrap();
        let operation = operation(Method::GET, "/Tables", "", BodyFormat::Json);
        let request = operation.request(&endpoint, Authorization::Bearer("eyJ0"), SystemTime::now(), "id-7").unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer eyJ0");
        assert!(!format!("{request:?}").contains("eyJ0"));
    }
}
