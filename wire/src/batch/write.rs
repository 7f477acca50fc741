//! Writes responses to batches with the same framing as the service (specification 05 §4, §5).
//!
//! The response to a batch consists of [`start_changeset`], then for each operation [`start_part`], [`write_head`], its
//! body and a line break, and then [`end`] for the changeset and [`end`] for the batch. The response to a query is a
//! part of the batch itself, outside any changeset.
//!
//! This module must not depend on how response bodies are encoded.

use crate::error_code::ErrorCode;
use crate::header_names::{
    CACHE_CONTROL, CONTENT_TYPE, DATA_SERVICE_ID, DATA_SERVICE_VERSION, ETAG, LOCATION, PREFERENCE_APPLIED,
    X_CONTENT_TYPE_OPTIONS, spelled,
};
use crate::negotiation::Preference;
use model::{DateTime, Dialect, ETag};

/// The status line and headers of the response to one operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartHead<'a> {
    /// The service that the server answers like. One has its own order of headers, and omits some (11 §9).
    pub dialect: Dialect,
    /// The HTTP status.
    pub status: u16,
    /// The `Content-ID` of the operation.
    pub content_id: Option<&'a str>,
    /// Whether the head has the first form (05 §4.2): without `X-Content-Type-Options`, and always in the same order.
    pub is_first_form: bool,
    /// Whether to write `X-Content-Type-Options: nosniff`.
    pub has_nosniff: bool,
    /// Whether to write `Cache-Control: no-cache`.
    pub has_no_cache: bool,
    /// The `Preference-Applied` header.
    pub preference: Option<Preference>,
    /// The `DataServiceVersion` header, without the semicolon that always ends it.
    pub data_service_version: &'static str,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The `Location` header.
    pub location: Option<&'a [u8]>,
    /// Whether `DataServiceId` repeats the location.
    pub has_data_service_id: bool,
    /// The Timestamp from which the `ETag` is derived.
    pub etag: Option<DateTime>,
    /// Continuation headers: name, in any letter case, and token.
    pub continuation: &'a [(&'static str, String)],
}

/// Writes the beginning of a changeset, up to its first part.
pub fn start_changeset(out: &mut Vec<u8>, batch: &str, changeset: &str) {
    for text in ["--", batch, "\r\nContent-Type: multipart/mixed; boundary=", changeset, "\r\n\r\n"] {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Writes the beginning of a part, up to its status line.
pub fn start_part(out: &mut Vec<u8>, boundary: &str) {
    out.extend_from_slice(b"--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
}

/// Writes the closing delimiter of a changeset or of the batch.
pub fn end(out: &mut Vec<u8>, boundary: &str) {
    out.extend_from_slice(b"--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(b"--\r\n");
}

/// Writes the status line and headers, and the blank line that ends them.
///
/// Responses that contain an entity have a different order of headers from all other responses (05 §4), except in
/// versions in the first form. The position of the continuation headers of a query is UNVERIFIED (05 §4.1).
pub fn write_head(out: &mut Vec<u8>, head: &PartHead<'_>) {
    let mut writer = HeadWriter { out };
    writer.status_line(head.status);
    if head.dialect == Dialect::Cosmos {
        if let Some(timestamp) = head.etag {
            write_etag(writer.out, timestamp, Dialect::Cosmos);
        }
        writer.content_type(head);
        writer.header(PREFERENCE_APPLIED, head.preference.map(Preference::applied));
        writer.header(LOCATION, head.location);
        writer.continuation(head);
        writer.header("Content-ID", head.content_id);
        out.extend_from_slice(b"\r\n");
        return;
    }
    let starts_with_type = head.status < 300 && head.content_type.is_some() && !head.is_first_form;
    if starts_with_type {
        writer.data_service_version(head);
        writer.content_type(head);
    }
    writer.header("Content-ID", head.content_id);
    writer.header(X_CONTENT_TYPE_OPTIONS, (head.has_nosniff && !head.is_first_form).then_some("nosniff"));
    writer.header(CACHE_CONTROL, head.has_no_cache.then_some("no-cache"));
    writer.header(PREFERENCE_APPLIED, head.preference.map(Preference::applied));
    if !starts_with_type {
        writer.data_service_version(head);
        writer.content_type(head);
    }
    writer.header(LOCATION, head.location);
    writer.header(DATA_SERVICE_ID, head.location.filter(|_| head.has_data_service_id));
    if let Some(timestamp) = head.etag {
        write_etag(writer.out, timestamp, Dialect::Storage);
    }
    writer.continuation(head);
    out.extend_from_slice(b"\r\n");
}

/// Writes an `ETag` header derived from the given Timestamp. It is the last header of a response without continuation
/// headers.
fn write_etag(out: &mut Vec<u8>, timestamp: DateTime, dialect: Dialect) {
    out.extend_from_slice(ETAG.as_bytes());
    out.extend_from_slice(b": ");
    ETag::from_timestamp(timestamp).write_in(dialect, out);
    out.extend_from_slice(b"\r\n");
}

/// Returns true for the codes that have no index if the changeset has one operation (05 §5.1).
pub fn is_of_execution(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EntityAlreadyExists
            | ErrorCode::EntityTooLarge
            | ErrorCode::PropertyValueTooLarge
            | ErrorCode::ResourceNotFound
            | ErrorCode::TooManyProperties
            | ErrorCode::UpdateConditionNotSatisfied
    )
}

/// Returns true if the message of a failed changeset begins with the index of the operation (05 §5.1, 11 §9).
///
/// UNVERIFIED (11 §9): errors other than those of entities and tables.
pub fn names_index(code: ErrorCode, operations: usize, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Storage => operations > 1 || !is_of_execution(code),
        Dialect::Cosmos => code != ErrorCode::TableNotFound,
    }
}

struct HeadWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl HeadWriter<'_> {
    fn status_line(&mut self, status: u16) {
        self.out.extend_from_slice(b"HTTP/1.1 ");
        self.out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
        self.out.push(b' ');
        self.out.extend_from_slice(reason_phrase(status).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, name: &str, value: Option<impl AsRef<[u8]>>) {
        if let Some(value) = value {
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b": ");
            self.out.extend_from_slice(value.as_ref());
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn data_service_version(&mut self, head: &PartHead<'_>) {
        self.out.extend_from_slice(DATA_SERVICE_VERSION.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(head.data_service_version.as_bytes());
        self.out.extend_from_slice(b";\r\n");
    }

    fn continuation(&mut self, head: &PartHead<'_>) {
        for (name, token) in head.continuation {
            self.header(spelled(name.as_bytes()).unwrap_or(name), Some(token));
        }
    }

    fn content_type(&mut self, head: &PartHead<'_>) {
        self.header(CONTENT_TYPE, head.content_type);
    }
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    fn stamp() -> DateTime {
        DateTime::parse("2024-05-06T07:08:09.1234567Z").unwrap()
    }

    fn head(head: &PartHead<'_>) -> String {
        let mut out = Vec::new();
        write_head(&mut out, head);
        String::from_utf8(out).unwrap()
    }

    const SERVED: PartHead<'static> = PartHead {
        dialect: Dialect::Storage,
        status: 204,
        content_id: None,
        is_first_form: false,
        has_nosniff: true,
        has_no_cache: true,
        preference: None,
        data_service_version: "1.0",
        content_type: None,
        location: None,
        has_data_service_id: false,
        etag: None,
        continuation: &[],
    };
    const JSON: Option<&str> = Some("application/json;odata=minimalmetadata;streaming=true;charset=utf-8");

    #[test]
    fn headers_by_kind_of_response() {
        let created = PartHead {
            status: 201,
            content_id: Some("7"),
            data_service_version: "3.0",
            content_type: JSON,
            location: Some(b"L"),
            etag: Some(stamp()),
            ..SERVED
        };
        assert_eq!(
            head(&created),
            "HTTP/1.1 201 Created\r\nDataServiceVersion: 3.0;\r\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\nContent-ID: 7\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\nLocation: L\r\nETag: W/\"datetime'2024-05-06T07%3A08%3A09.1234567Z'\"\r\n\r\n"
        );
        let first = PartHead { is_first_form: true, data_service_version: "1.0", ..created };
        assert_eq!(
            head(&first),
            "HTTP/1.1 201 Created\r\nContent-ID: 7\r\nCache-Control: no-cache\r\nDataServiceVersion: 1.0;\r\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\nLocation: L\r\nETag: W/\"datetime'2024-05-06T07%3A08%3A09.1234567Z'\"\r\n\r\n"
        );
        let found = PartHead { status: 200, content_id: None, location: None, ..created };
        assert_eq!(
            head(&found),
            "HTTP/1.1 200 OK\r\nDataServiceVersion: 3.0;\r\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\nETag: W/\"datetime'2024-05-06T07%3A08%3A09.1234567Z'\"\r\n\r\n"
        );
        let refused = PartHead {
            status: 412,
            content_id: Some("2"),
            preference: Some(Preference::NoContent),
            data_service_version: "3.0",
            content_type: JSON,
            ..SERVED
        };
        assert_eq!(
            head(&refused),
            "HTTP/1.1 412 Precondition Failed\r\nContent-ID: 2\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\nPreference-Applied: return-no-content\r\nDataServiceVersion: 3.0;\r\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\n\r\n"
        );
        let unreadable = PartHead {
            status: 400,
            data_service_version: "1.0",
            content_type: Some("application/xml;charset=utf-8"),
            ..PartHead::default()
        };
        assert_eq!(
            head(&unreadable),
            "HTTP/1.1 400 Bad Request\r\nDataServiceVersion: 1.0;\r\nContent-Type: application/xml;charset=utf-8\r\n\r\n"
        );
        let cosmos = PartHead { dialect: Dialect::Cosmos, preference: Some(Preference::NoContent), ..created };
        assert_eq!(
            head(&PartHead { status: 204, content_type: None, ..cosmos }),
            "HTTP/1.1 204 No Content\r\nETag: W/\"datetime'2024-05-06T07%3A08%3A09.1234567Z'\"\r\nPreference-Applied: return-no-content\r\nLocation: L\r\nContent-ID: 7\r\n\r\n"
        );
        let tokens = [("x-ms-continuation-nextpartitionkey", "1!0!".to_owned())];
        let page = PartHead { continuation: &tokens, ..found };
        assert!(head(&page).ends_with("Z'\"\r\nx-ms-continuation-NextPartitionKey: 1!0!\r\n\r\n"));
    }

    #[test]
    fn every_error_has_a_reason_phrase() {
        for code in ErrorCode::ALL {
            assert_ne!(reason_phrase(code.status()), "Unknown", "{}", code.as_str());
        }
    }
}
