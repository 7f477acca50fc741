//! Converts results of operations and failures to HTTP responses. This happens only here (specification 02 §3, 03 §6).
//!
//! Code in this folder must not depend on operations, engines or credentials.

pub(crate) mod cors;
pub(crate) mod date;
mod operation_response;
mod query_cost;
mod segments;

pub(crate) use operation_response::OperationResponse;
pub(crate) use query_cost::{QueryCost, scan_advice};
pub(crate) use segments::Segments;

use crate::failure::{Failure, Layer};
use crate::limits::memory::MemoryPermit;
use crate::request::{OperationKind, PayloadKind, RequestContext};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION, SERVER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::ext::ReasonPhrase;
use model::{DateTime, Dialect, ETag};
use std::borrow::Cow;
use wire::error::{write_cosmos_error_body, write_error_body};
use wire::negotiation::ContentKind;
use wire::{ErrorBodyFormat, ErrorCode, Format, MetadataLevel, Version};

const SERVER_NAME: HeaderValue = HeaderValue::from_static(concat!("Rowhouse-Table/", env!("CARGO_PKG_VERSION")));

pub(crate) fn success(
    response: OperationResponse,
    memory: MemoryPermit,
    context: &RequestContext<'_>,
) -> Response<Segments> {
    let mut headers = common_headers(context);
    headers.extend(response.headers);
    let is_cosmos = context.dialect == Dialect::Cosmos;
    if !context.is_front_end && !is_cosmos {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !context.form_version.has_first_form() {
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
    }
    let created = (is_cosmos && context.operation == OperationKind::CreateTable)
        .then(|| DateTime::from_system_time(context.incoming.now));
    if let Some(timestamp) = response.etag.or(created) {
        let mut etag = Vec::with_capacity(48);
        ETag::from_timestamp(timestamp).write_in(context.dialect, &mut etag);
        insert_bytes(&mut headers, ETAG, &etag);
    }
    if let Some(location) = response.location {
        if response.has_data_service_id && !is_cosmos {
            insert_bytes(&mut headers, HeaderName::from_static("dataserviceid"), &location);
        }
        insert_bytes(&mut headers, LOCATION, &location);
    }
    if let Some(preference) = response.preference {
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(preference.applied()));
    }
    for (name, token) in response.continuation {
        insert_bytes(&mut headers, HeaderName::from_static(name), token.as_bytes());
    }
    let segments = match response.content {
        None => {
            let content_type = empty_content_type(context.operation, context.dialect);
            headers.extend(content_type.map(|text| (CONTENT_TYPE, HeaderValue::from_static(text))));
            Segments::default()
        }
        Some((content_type, segments)) => {
            match content_type {
                Cow::Borrowed(text) => drop(headers.insert(CONTENT_TYPE, content_type_value(text))),
                Cow::Owned(text) => insert_bytes(&mut headers, CONTENT_TYPE, text.as_bytes()),
            }
            Segments::new(segments, memory).followed_by(response.stream)
        }
    };
    respond(response.status, headers, segments)
}

/// Returns the `Content-Type` of a response without content, which one service has for upserts (11 §3).
pub(crate) fn empty_content_type(operation: OperationKind, dialect: Dialect) -> Option<&'static str> {
    let is_upsert = matches!(operation, OperationKind::InsertOrReplaceEntity | OperationKind::InsertOrMergeEntity);
    (is_upsert && dialect == Dialect::Cosmos).then_some("application/json")
}

pub(crate) fn failure(failure: &Failure, context: &RequestContext<'_>, now: DateTime) -> Response<Segments> {
    match context.dialect {
        Dialect::Storage => storage_failure(failure, context, now),
        Dialect::Cosmos => cosmos_failure(failure, context, now),
    }
}

/// Returns the response to a failure as Azure Cosmos DB for Table sends it (11 §5).
fn cosmos_failure(failure: &Failure, context: &RequestContext<'_>, now: DateTime) -> Response<Segments> {
    let mut body = write_cosmos_error_body(&failure.error, &context.error_origin(now));
    body.extend_from_slice(b"\r\n");
    let info = context.operation.info();
    // The level that the client accepts counts only where a success has content.
    let level = match context.format {
        Some(Format::Json(level))
            if info.response == PayloadKind::Negotiated && failure.error.code != ErrorCode::PropertiesNeedValue =>
        {
            level
        }
        _ => MetadataLevel::Full,
    };
    let mut headers = common_headers(context);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(level.content_type_in(Dialect::Cosmos)));
    respond(failure.error.code.status(), headers, Segments::new(vec![Bytes::from(body)], MemoryPermit::default()))
}

fn storage_failure(failure: &Failure, context: &RequestContext<'_>, now: DateTime) -> Response<Segments> {
    let layer = match failure.layer {
        Layer::Format | Layer::Query | Layer::Service if context.is_front_end => Layer::FrontEnd,
        layer => layer,
    };
    let (form, content_type) = error_form(layer, failure.error.code, context);
    let body = write_error_body(form, &failure.error, &context.error_origin(now));
    let mut headers = common_headers(context);
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(X_MS_ERROR_CODE, HeaderValue::from_static(failure.error.code.as_str()));
    let is_of_service = !failure.is_of_authentication()
        && !matches!(form, ErrorBodyFormat::PrefixedXml | ErrorBodyFormat::FirstODataXml);
    if is_of_service {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if layer == Layer::Authentication && !context.names_emulator_version {
        // The version is not revealed before the request is authenticated (02 §3).
        headers.remove(X_MS_VERSION);
    }
    if layer == Layer::Service {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Some(preference) = context.preference {
            headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(preference.applied()));
        }
    }
    let is_challenged = matches!(failure.error.code, ErrorCode::NoAuthenticationInformation | ErrorCode::TokenRefused);
    if let Some(challenge) = context.challenge.as_ref().filter(|_| is_challenged) {
        headers.insert(WWW_AUTHENTICATE, challenge.clone());
    }
    if let Some(position) = failure.position {
        insert_bytes(&mut headers, X_MS_ROWHOUSE_POSITION, position.text().as_slice());
    }
    if failure.error.code == ErrorCode::ServerBusy {
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    let mut response =
        respond(failure.error.code.status(), headers, Segments::new(vec![Bytes::from(body)], MemoryPermit::default()));
    // In these cases the front end of the service repeats its message (06 §1), even if it rejects a signature (08 §9)
    // or a body.
    let repeats_message = failure.is_of_authentication()
        || layer == Layer::FrontEnd
        || matches!(
            failure.error.code,
            ErrorCode::AuthorizationSourceIPMismatch
                | ErrorCode::AuthorizationProtocolMismatch
                | ErrorCode::AuthorizationServiceMismatch
                | ErrorCode::RequestBodyTooLarge
        );
    if repeats_message && let Ok(reason) = ReasonPhrase::try_from(failure.error.message.as_bytes()) {
        response.extensions_mut().insert(reason);
    }
    response
}

/// Adds a header that tells why the request is refused.
pub(crate) fn add_reason(response: &mut Response<Segments>, reason: &str) {
    insert_bytes(response.headers_mut(), X_MS_ROWHOUSE_REASON, reason.as_bytes());
}

/// Returns the form of an error body and its media type, if the response names it (03 §5.5, §6, 06 §1).
fn error_form(layer: Layer, code: ErrorCode, context: &RequestContext<'_>) -> (ErrorBodyFormat, Option<&'static str>) {
    let version = context.form_version;
    let format = context.format.unwrap_or(Format::Atom);
    match (layer, format.error_body(version)) {
        (Layer::Authentication | Layer::MissingCredential, _) => authentication_error_form(context),
        (Layer::FrontEnd, _) => (ErrorBodyFormat::PrefixedXml, Some("application/xml")),
        (Layer::Format, _) if code == ErrorCode::JsonFormatNotSupported => {
            (ErrorBodyFormat::PrefixedXml, Some("application/xml"))
        }
        // This is the only media type that was recorded with a space.
        (Layer::Format, form @ ErrorBodyFormat::ODataXml) => (form, Some("application/xml; charset=utf-8")),
        (_, form @ ErrorBodyFormat::FirstODataXml) => (form, None),
        (_, form) => (form, Some(format.content_type(ContentKind::Error, version, Dialect::Storage))),
    }
}

/// Returns the form of an error that occurs before a format is negotiated. In versions without JSON, and without a
/// valid version, the media type follows `Accept` although the body is XML (07 §10).
///
/// UNVERIFIED (07 §10): that this holds for more than the reported case, an anonymous request without a version.
fn authentication_error_form(context: &RequestContext<'_>) -> (ErrorBodyFormat, Option<&'static str>) {
    let accepts_json = context.incoming.accepts_json();
    let form = match context.incoming.version().ok().flatten().unwrap_or(Version::NONE) {
        version if version.has_first_form() => ErrorBodyFormat::MarkedODataXml,
        version if version < Version::JSON => ErrorBodyFormat::ODataXml,
        _ if accepts_json => ErrorBodyFormat::Json,
        _ => ErrorBodyFormat::PrefixedXml,
    };
    (form, Some(if accepts_json { "application/json" } else { "application/xml" }))
}

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const X_MS_ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
/// The position up to which a reader of the change feed has seen everything, or after which it can continue.
pub(crate) const X_MS_ROWHOUSE_POSITION: HeaderName = HeaderName::from_static("x-ms-rowhouse-position");
const X_MS_ROWHOUSE_REASON: HeaderName = HeaderName::from_static("x-ms-rowhouse-reason");
const X_MS_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const X_MS_VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const X_MS_CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// The version in every response of the emulator, whatever version the request names (Azurite 3.36).
const EMULATOR_VERSION: HeaderValue = HeaderValue::from_static("2026-06-06");

fn common_headers(context: &RequestContext<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(SERVER, SERVER_NAME);
    insert_bytes(&mut headers, X_MS_REQUEST_ID, context.id.as_str().as_bytes());
    if context.dialect == Dialect::Cosmos {
        // This service names no version (11 §3).
    } else if context.names_emulator_version {
        headers.insert(X_MS_VERSION, EMULATOR_VERSION);
    } else if let Some(version) = context.version {
        insert_bytes(&mut headers, X_MS_VERSION, &version.text());
    }
    if let Some(id) = &context.client_request_id {
        headers.insert(X_MS_CLIENT_REQUEST_ID, id.clone());
    }
    headers
}

fn content_type_value(text: &'static str) -> HeaderValue {
    const fn json(level: MetadataLevel) -> HeaderValue {
        HeaderValue::from_static(level.content_type())
    }
    // Validated byte by byte at compile time, instead of for every response.
    static USUAL: [HeaderValue; 3] =
        [json(MetadataLevel::Minimal), json(MetadataLevel::None), json(MetadataLevel::Full)];
    USUAL.iter().find(|usual| *usual == text).cloned().unwrap_or_else(|| HeaderValue::from_static(text))
}

/// Inserts a value that was built from checked parts. Omits a value that HTTP cannot carry.
fn insert_bytes(headers: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

fn respond(status: u16, mut headers: HeaderMap, body: Segments) -> Response<Segments> {
    // In a 304 response, this header would have to contain the length of the content that the client already has (RFC
    // 9110, section 8.6).
    if status != 304 && !body.is_stream() {
        let length = match body.len() {
            0 => HeaderValue::from_static("0"),
            length => HeaderValue::from(length),
        };
        headers.insert(CONTENT_LENGTH, length);
    }
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}
