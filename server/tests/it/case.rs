//! A case of a table: a request, and the response that the specification requires.
//!
//! A response is compared completely: status, every header, body. Headers that are the same in all responses of a layer
//! (02 §3, 06 §1) follow from [`Layer`]; a case lists the others. `BASE` in expected values stands for the URL of the
//! account, and `ID` for the request ID.

use crate::server::Server;
use http::StatusCode;
use std::fmt::Write;
use test_support::{ACCOUNT, Account, Client, KEY, Response};
use wire::sas::Fields;
use wire::signing::AccountKey;

/// The time of a server's clock, in the three forms of the protocol.
const DATE: &str = "Fri, 14 Mar 2031 08:15:30 GMT";
const SECOND: &str = "2031-03-14T08:15:30";
const TICKS: u32 = 1_234_567;

const JSON: &str = "application/json";
const VERSION: &str = "2019-02-02";
const REASON: &str = "x-ms-rowhouse-reason";

/// Returns the Timestamp of the nth write to the account, starting with 0.
pub(crate) fn timestamp(write: u32) -> String {
    let fraction = (TICKS + write).to_string();
    format!("{SECOND}.{}Z", fraction.trim_end_matches('0'))
}

/// Returns the ETag of the nth write to the account, starting with 0 (01 §8).
pub(crate) fn etag(write: u32) -> String {
    format!("W/\"datetime'{}'\"", timestamp(write).replace(':', "%3A"))
}

/// Returns a signature for a table, with changes to the usual fields.
pub(crate) fn signature(permissions: &'static str, change: impl FnOnce(&mut Fields<'static>)) -> String {
    signature_of(ACCOUNT, KEY, permissions, change)
}

/// Like [`signature`], for an account.
pub(crate) fn signature_of(
    account: &str,
    key: &str,
    permissions: &'static str,
    change: impl FnOnce(&mut Fields<'static>),
) -> String {
    let mut fields = Fields {
        version: VERSION.into(),
        table: "cars".into(),
        permissions: permissions.into(),
        expiry: "2031-03-15".into(),
        ..Fields::default()
    };
    change(&mut fields);
    fields.sign(account, &AccountKey::parse(key).unwrap()).unwrap()
}

/// The part of the service that responds. It determines the common headers, and the form of an error (06 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Signature, date or account: without a version.
    Authentication,
    /// A request without a credential.
    MissingCredential,
    /// Operations on the account and on policies, and checks in front of the service: XML.
    FrontEnd,
    /// No format was resolved.
    Format,
    /// URL, query options and table lookup: without `Cache-Control`.
    Query,
    /// Body and storage.
    Storage,
}

#[derive(Debug, Clone)]
enum Credential {
    /// The account's key.
    Key,
    /// The headers of the case contain the credential, if there is one.
    Own,
    /// A shared access signature.
    Signature(String),
}

#[derive(Debug, Clone)]
enum Content {
    Nothing,
    Text {
        content_type: String,
        text: String,
    },
    Error {
        code: &'static str,
        message: Option<String>,
        is_xml: bool,
    },
    /// Anything: only the status and the error code are compared.
    Any {
        code: Option<&'static str>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    credential: Credential,
    status: u16,
    layer: Layer,
    expected: Vec<(&'static str, String)>,
    reason: Option<&'static str>,
    content: Content,
}

impl Case {
    pub(crate) fn new(method: &'static str, path: &str, body: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
            credential: Credential::Key,
            status: 0,
            layer: Layer::Storage,
            expected: Vec::new(),
            reason: None,
            content: Content::Nothing,
        }
    }

    /// Sends a header, instead of the client's usual value.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name, value.into()));
        self
    }

    /// Omits a header that clients usually send.
    pub(crate) fn without(self, name: &'static str) -> Self {
        self.with(name, "")
    }

    pub(crate) fn version(self, version: &str) -> Self {
        self.with("x-ms-version", version)
    }

    /// Accepts a metadata level of JSON.
    pub(crate) fn level(self, level: &str) -> Self {
        self.with("Accept", format!("application/json;odata={level}"))
    }

    /// Accepts and sends Atom, in the last version that was recorded with it.
    pub(crate) fn atom(self) -> Self {
        let content_type = "application/atom+xml";
        self.version("2014-02-14").with("Accept", content_type).with("Content-Type", content_type)
    }

    /// Uses a shared access signature instead of the account's key.
    pub(crate) fn signed(mut self, signature: &str) -> Self {
        self.credential = Credential::Signature(signature.to_owned());
        self
    }

    /// Returns the same request with the account's key, if it is a query for several entities of a table.
    pub(crate) fn unsigned(&self) -> Option<Self> {
        let is_list = self.method == "GET" && self.path.contains("$filter=") && !self.path.contains("$Changes");
        is_list.then(|| Self { credential: Credential::Key, ..self.clone() })
    }

    /// Adds options to a URL that has some.
    pub(crate) fn option(self, options: &str) -> Self {
        Self { path: format!("{}&{options}", self.path), ..self }
    }

    /// Uses the given value of `Authorization`, or no credential if it is empty.
    pub(crate) fn authorized(mut self, authorization: &str) -> Self {
        self.credential = Credential::Own;
        self.with("Authorization", authorization)
    }

    /// Expects success, without a body until the case adds one.
    pub(crate) fn ok(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets the layer that responds, if it is not the storage.
    pub(crate) fn layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.expected.push((name, value.into()));
        self
    }

    pub(crate) fn text(mut self, content_type: &str, text: &str) -> Self {
        self.content = Content::Text { content_type: content_type.to_owned(), text: text.to_owned() };
        self
    }

    /// Expects JSON of the metadata level that the request accepts.
    pub(crate) fn json(self, text: &str) -> Self {
        let content_type = self.json_type();
        self.text(&content_type, text)
    }

    /// Expects service XML, which begins with a byte order mark (10).
    pub(crate) fn xml(self, root: &str) -> Self {
        let text = format!("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>{root}");
        self.layer(Layer::FrontEnd).text("application/xml", &text)
    }

    /// Expects an error in the form of the layer that finds it.
    pub(crate) fn fails(mut self, status: u16, code: &'static str, layer: Layer) -> Self {
        (self.status, self.layer) = (status, layer);
        self.content = Content::Error { code, message: None, is_xml: false };
        self
    }

    /// Sets the message of the expected error.
    pub(crate) fn says(mut self, text: impl Into<String>) -> Self {
        if let Content::Error { message, .. } = &mut self.content {
            *message = Some(text.into());
        }
        self
    }

    /// Expects the error in OData XML, because the client accepts no JSON.
    pub(crate) fn in_xml(mut self) -> Self {
        if let Content::Error { is_xml, .. } = &mut self.content {
            *is_xml = true;
        }
        self
    }

    /// Expects a status and an error code, whatever the rest of the response is.
    pub(crate) fn answers(mut self, status: u16, code: impl Into<Option<&'static str>>) -> Self {
        self.status = status;
        self.content = Content::Any { code: code.into() };
        self
    }

    /// Expects the reason of a refusal to begin with the given text, such as the name of its kind.
    pub(crate) fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Returns true if a server with the development account must tell why it refuses the request. Without a valid
    /// credential, it tells only some reasons.
    fn is_refusal_with_reason(&self) -> bool {
        let is_of_client = matches!(self.status, 400 | 402..=499 | 501) && self.method != "OPTIONS";
        is_of_client && !matches!(self.layer, Layer::Authentication | Layer::MissingCredential)
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn json_type(&self) -> String {
        let accept = self.given("Accept").unwrap_or_default();
        let level = ["nometadata", "fullmetadata"].into_iter().find(|level| accept.contains(level));
        format!("{JSON};odata={};streaming=true;charset=utf-8", level.unwrap_or("minimalmetadata"))
    }

    /// Sends the request and returns the response.
    pub(crate) fn send(&self, client: &mut Client) -> Response {
        let length = self.body.len().to_string();
        let mut headers: Vec<(&str, &str)> = vec![("x-ms-date", DATE)];
        if !self.body.is_empty() || !matches!(self.method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
            headers.push(("Content-Length", &length));
        }
        headers.retain(|(name, _)| self.given(name).is_none());
        headers.extend(self.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let mut path = self.path.clone();
        if let Credential::Signature(signature) = &self.credential {
            path = format!("{path}{}{signature}", if path.contains('?') { '&' } else { '?' });
        }
        let mut head = Account::development().head(self.method, &path, &headers);
        let omitted = |line: &&str| {
            let is_empty = self.headers.iter().any(|(name, value)| value.is_empty() && *line == format!("{name}: "));
            let is_credential = matches!(self.credential, Credential::Signature(_));
            !(is_empty || is_credential && line.starts_with("Authorization: "))
        };
        head = head.split("\r\n").filter(omitted).collect::<Vec<_>>().join("\r\n");
        client.send(&[head.as_bytes(), &self.body].concat()).unwrap();
        let response = if self.method == "HEAD" { client.receive_head() } else { client.receive() };
        response.unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path))
    }

    /// Returns the differences between a response and the expected one.
    fn differences(&self, response: &Response) -> String {
        let mut found = String::new();
        if response.status != self.status {
            let _ = writeln!(found, "status: {}, expected: {}", response.status, self.status);
        }
        let told = response.header(REASON).unwrap_or_default();
        if self.reason.is_some_and(|reason| !told.starts_with(reason)) {
            let _ = writeln!(found, "reason: {told}, expected: {:?}", self.reason);
        }
        let is_denied = response.header("x-ms-error-code") == Some("AuthenticationFailed");
        if told.is_empty() && self.is_refusal_with_reason() && !is_denied {
            let _ = writeln!(found, "no reason");
        }
        if let Content::Any { code } = self.content {
            let actual = response.header("x-ms-error-code");
            if actual != code {
                let _ = writeln!(found, "code: {actual:?}, expected: {code:?}");
            }
            return found;
        }
        let body = String::from_utf8_lossy(&response.body);
        let id = response.header("x-ms-request-id").unwrap_or_default();
        if uuid_form(id) != "8-4-4-4-12" {
            let _ = writeln!(found, "request ID: {id}");
        }
        let (content, message) = self.content(&body, id);
        let content_type = content.as_ref().map(|(content_type, _)| content_type.as_str());
        let mut expected = self.headers_expected(content_type.filter(|content_type| !content_type.is_empty()));
        let mut actual = response.headers.clone();
        // Only 204 has a length without a body (02 §3).
        let is_compared = |name: &str| {
            name != "x-ms-request-id" && name != REASON && (name != "content-length" || response.status == 204)
        };
        actual.retain(|(name, _)| is_compared(name));
        expected.sort();
        actual.sort();
        for header in expected.iter().filter(|header| !actual.contains(header)) {
            let _ = writeln!(found, "missing header: {header:?}");
        }
        for header in actual.iter().filter(|header| !expected.contains(header)) {
            let _ = writeln!(found, "unexpected header: {header:?}");
        }
        let text = content.map(|(_, text)| text).filter(|_| self.method != "HEAD").unwrap_or_default();
        if body != text {
            let _ = writeln!(found, "body:     {body}\nexpected: {text}");
        }
        let usual = StatusCode::from_u16(self.status).unwrap().canonical_reason().unwrap();
        let reason = message.filter(|_| self.repeats_message());
        let reason = reason.as_deref().unwrap_or(usual);
        if response.reason != reason {
            let _ = writeln!(found, "reason phrase: {}, expected: {reason}", response.reason);
        }
        found
    }

    /// Returns true if the reason phrase is the message (06 §1, §2, 08 §9).
    fn repeats_message(&self) -> bool {
        let codes = [
            "AuthorizationSourceIPMismatch",
            "AuthorizationProtocolMismatch",
            "AuthorizationServiceMismatch",
            "RequestBodyTooLarge",
        ];
        self.is_before_formats() || matches!(&self.content, Content::Error { code, .. } if codes.contains(code))
    }

    /// Returns true if the front end responds, without a format that the client chose for the operation.
    fn is_before_formats(&self) -> bool {
        matches!(self.layer, Layer::Authentication | Layer::MissingCredential | Layer::FrontEnd)
    }

    fn headers_expected(&self, content_type: Option<&str>) -> Vec<(String, String)> {
        let mut headers = vec![("date", DATE.to_owned()), ("server", server_name())];
        if self.status == 204 {
            headers.push(("content-length", "0".to_owned()));
        }
        let is_prefixed = matches!(&self.content, Content::Error { code: "JsonFormatNotSupported", .. });
        if !self.is_before_formats() && !is_prefixed && !self.is_in_first_form() {
            headers.push(("x-content-type-options", "nosniff".to_owned()));
        }
        if self.layer == Layer::Storage {
            headers.push(("cache-control", "no-cache".to_owned()));
        }
        let version = self.given("x-ms-version").unwrap_or(VERSION);
        // No version is named before authentication, and none in versions before 2009-09-19 (02 §7).
        if self.layer != Layer::Authentication && version >= "2009-09-19" && self.method != "OPTIONS" {
            headers.push(("x-ms-version", version.to_owned()));
        }
        if let Content::Error { code, .. } = self.content {
            headers.push(("x-ms-error-code", code.to_owned()));
        }
        headers.extend(content_type.map(|value| ("content-type", value.to_owned())));
        headers.extend(self.expected.iter().map(|(name, value)| (*name, with_base(value))));
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns true if the version is one whose responses have the first form (03 §5.5). No version counts as one.
    fn is_in_first_form(&self) -> bool {
        self.given("x-ms-version").unwrap_or(VERSION) < "2012-02-12"
    }

    /// Returns the expected media type, which may be empty, and body, and the message of an error. A message that the
    /// case does not give is the one in the body.
    fn content(&self, body: &str, id: &str) -> (Option<(String, String)>, Option<String>) {
        let (code, message, is_xml) = match &self.content {
            Content::Nothing | Content::Any { .. } => return (None, None),
            Content::Text { content_type, text } => return (Some((content_type.clone(), with_base(text))), None),
            Content::Error { code, message, is_xml } => (*code, message.clone(), *is_xml),
        };
        let message = message.unwrap_or_else(|| message_in(body).replace("\\\"", "\""));
        let text = |line_break: &str| format!("{message}{line_break}RequestId:{id}{line_break}Time:{SECOND}.{TICKS}Z");
        let metadata = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";
        let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
        let json = format!(
            "{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{}\"}}}}}}",
            text("\\n").replace('"', "\\\"")
        );
        let odata = format!(
            "{declaration}<error xmlns=\"{metadata}\"><code>{code}</code><message xml:lang=\"en-US\">{}</message></error>",
            text("\n")
        );
        let first = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"{metadata}\">\r\n  <code>{code}</code>\r\n  <message xml:lang=\"en-US\">{}</message>\r\n</error>",
            text("\n")
        );
        let prefixed = format!(
            "{declaration}<m:error xmlns:m=\"{metadata}\"><m:code>{code}</m:code><m:message xml:lang=\"en-US\">{}</m:message></m:error>",
            text("\n")
        );
        let accepts_json = self.given("Accept").is_none_or(|accept| accept.contains(JSON));
        let (content_type, body) = match self.layer {
            Layer::Authentication | Layer::MissingCredential => {
                // Versions without JSON, and malformed ones, have the media type, but not the body (07 §10).
                let version = self.given("x-ms-version").unwrap_or(VERSION);
                let is_valid = version.starts_with("20");
                let has_json = is_valid && version >= "2013-08-15";
                let media_type = if accepts_json { JSON } else { "application/xml" };
                let first = if is_valid && !self.is_in_first_form() { odata } else { format!("\u{FEFF}{first}") };
                let xml = if has_json { prefixed } else { first };
                (media_type.to_owned(), if has_json && accepts_json { json } else { xml })
            }
            _ if self.is_before_formats() => ("application/xml".to_owned(), prefixed),
            Layer::Format if code == "JsonFormatNotSupported" => ("application/xml".to_owned(), prefixed),
            _ if is_xml && self.is_in_first_form() => (String::new(), first),
            Layer::Format if is_xml => ("application/xml; charset=utf-8".to_owned(), odata),
            _ if is_xml => ("application/xml;charset=utf-8".to_owned(), odata),
            _ => (self.json_type(), json),
        };
        (Some((content_type, body)), Some(message))
    }
}

fn server_name() -> String {
    format!("Rowhouse-Table/{}", env!("CARGO_PKG_VERSION"))
}

fn with_base(text: &str) -> String {
    text.replace("BASE", &format!("http://127.0.0.1/{ACCOUNT}"))
}

fn uuid_form(id: &str) -> String {
    let is_hex = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    let lengths: Vec<_> = id.split('-').map(|group| group.len().to_string()).collect();
    if is_hex { lengths.join("-") } else { String::new() }
}

/// Returns the message in the body of an error, in any form.
fn message_in(body: &str) -> &str {
    let start = ["\"value\":\"", "xml:lang=\"en-US\">"].iter().find_map(|start| Some(body.find(start)? + start.len()));
    let rest = &body[start.unwrap_or_default()..];
    let end = ["\\nRequestId:", "\nRequestId:"].iter().find_map(|end| rest.find(end));
    &rest[..end.unwrap_or(rest.len())]
}

pub(crate) fn get(path: &str) -> Case {
    Case::new("GET", path, "")
}

pub(crate) fn post(path: &str, body: &str) -> Case {
    Case::new("POST", path, body)
}

pub(crate) fn put(path: &str, body: &str) -> Case {
    Case::new("PUT", path, body)
}

pub(crate) fn merge(path: &str, body: &str) -> Case {
    Case::new("MERGE", path, body)
}

pub(crate) fn delete(path: &str) -> Case {
    Case::new("DELETE", path, "")
}

/// Sends the requests of a table one after another on one connection, and compares the responses.
#[track_caller]
pub(crate) fn check(server: &Server, cases: impl IntoIterator<Item = Case>) {
    let mut client = server.client();
    for case in cases {
        let response = case.send(&mut client);
        let differences = case.differences(&response);
        assert!(
            differences.is_empty(),
            "{} {} {:?} {}\n{differences}{:?}",
            case.method,
            case.path,
            case.headers,
            String::from_utf8_lossy(&case.body[..case.body.len().min(300)]),
            response.headers
        );
        if response.header("connection") == Some("close") {
            client = server.client();
        }
    }
}
