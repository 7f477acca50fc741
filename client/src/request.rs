//! Building signed requests.
//!
//! This module must not know connections, nor what an operation means.

use crate::credential::Credential;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use http::{HeaderValue, Method, Request};
use std::time::SystemTime;
use wire::QueryOptions;
use wire::batch::ChangesetWriter;
use wire::signing::{Scheme, SignedRequest};

/// The service version of all requests.
pub(crate) const VERSION: &str = "2019-02-02";

/// The format of the body of a request and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Xml,
    /// A changeset of this many entity operations.
    Changeset(usize),
}

/// One operation of the protocol: a request without date and signature, which each attempt gets anew.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Names the operation in errors.
    pub(crate) what: String,
    pub(crate) method: Method,
    /// The path relative to that of the endpoint, encoded, with a leading slash.
    pub(crate) path: String,
    /// Encoded, without a question mark; may be empty.
    pub(crate) query: String,
    pub(crate) format: BodyFormat,
    pub(crate) body: Bytes,
    /// The `If-Match` condition.
    pub(crate) if_match: Option<String>,
    /// Whether it may be sent again although an earlier attempt may have been executed.
    pub(crate) is_idempotent: bool,
}

impl Operation {
    /// A GET operation.
    pub(crate) fn get(what: String, path: String, query: String, format: BodyFormat) -> Self {
        let (method, body) = (Method::GET, Bytes::new());
        Self { what, method, path, query, format, body, if_match: None, is_idempotent: true }
    }

    /// The request, dated and signed.
    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        credential: &Credential,
        now: SystemTime,
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
        let query = match credential {
            Credential::Sas(token) if self.query.is_empty() => token.to_string(),
            Credential::Sas(token) => format!("{}&{token}", self.query),
            Credential::Key(_) => self.query.clone(),
        };
        let mark = if query.is_empty() { "" } else { "?" };
        let date = httpdate::fmt_http_date(now);
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{}{mark}{query}", endpoint.origin(), self.full_path(endpoint)))
            .header(ACCEPT, accept)
            .header("x-ms-version", VERSION)
            .header("x-ms-date", &date)
            .header("DataServiceVersion", "3.0;")
            .header("MaxDataServiceVersion", "3.0;NetFx");
        if self.format == BodyFormat::Json && self.method != Method::GET {
            request = request.header("Prefer", "return-no-content");
        }
        if let Some(condition) = &self.if_match {
            request = request.header(IF_MATCH, condition);
        }
        if !content_type.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Credential::Key(key) = credential {
            let account = endpoint.account().as_str();
            let options = QueryOptions::parse(&self.query);
            let signed = SignedRequest {
                method: self.method.as_str(),
                content_md5: "",
                content_type,
                date: &date,
                account,
                path: &self.full_path(endpoint),
                comp: options.comp.as_deref(),
            };
            let signature = key.sign(&signed.string_to_sign(Scheme::SharedKey));
            let mut value = HeaderValue::try_from(format!("SharedKey {account}:{signature}"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(self.body.clone())
    }

    fn full_path(&self, endpoint: &Endpoint) -> String {
        format!("{}{}", endpoint.path(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::signing::{AccountKey, Authorization, any_verifies};

    fn operation(method: Method, path: &str, query: &str, format: BodyFormat) -> Operation {
        let body = Bytes::from_static(b"body");
        Operation { method, body, ..Operation::get(String::new(), path.to_owned(), query.to_owned(), format) }
    }

    #[test]
    fn requests_are_signed_as_a_server_checks_them() {
        let key = AccountKey::parse(crate::DEVELOPMENT_KEY).unwrap();
        let credential = Credential::Key(key.clone());
        let endpoint = Endpoint::parse("http://127.0.0.1:1", None).unwrap();
        for (operation, comp) in [
            (operation(Method::GET, "/Tables", "", BodyFormat::Json), None),
            (operation(Method::POST, "/$batch", "", BodyFormat::Changeset(1)), None),
            (operation(Method::PUT, "/Harvest", "comp=acl", BodyFormat::Xml), Some("acl")),
            (operation(Method::GET, "/", "restype=service&comp=properties", BodyFormat::Xml), Some("properties")),
        ] {
            let request = operation.request(&endpoint, &credential, SystemTime::now()).unwrap();
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
            let authorization = Authorization::parse(header("authorization")).unwrap();
            let text = signed.string_to_sign(Scheme::SharedKey);
            assert!(any_verifies([&key], &text, &authorization.signature.unwrap()), "{text}");
            assert!(!format!("{request:?}").contains("SharedKey"), "the signature is not shown");
        }
    }

    #[test]
    fn a_shared_access_signature_follows_the_query() {
        let credential = Credential::parse("?sv=2019-02-02&sig=a%2Bb").unwrap();
        let endpoint = Endpoint::parse("https://acct.table.core.windows.net", None).unwrap();
        for (query, expected) in [
            ("", "https://acct.table.core.windows.net/t()?sv=2019-02-02&sig=a%2Bb"),
            ("$top=1", "https://acct.table.core.windows.net/t()?$top=1&sv=2019-02-02&sig=a%2Bb"),
        ] {
            let operation = operation(Method::GET, "/t()", query, BodyFormat::Json);
            let request = operation.request(&endpoint, &credential, SystemTime::now()).unwrap();
            assert_eq!(request.uri().to_string(), expected);
            assert!(!request.headers().contains_key(AUTHORIZATION));
        }
    }
}
