//! Error responses as parsed by a client: all formats of [`crate::error`] and the format of the XML operations.
//!
//! This module must not depend on how a client handles an error.

use crate::xml::Element;
use serde::Deserialize;
use std::borrow::Cow;

/// The error in the body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The code, such as `TableNotFound`.
    pub code: String,
    /// The first line of the message; the other lines identify the request.
    pub message: String,
}

#[derive(Deserialize)]
struct JsonBody<'a> {
    #[serde(borrow, rename = "odata.error")]
    error: JsonError<'a>,
}

#[derive(Deserialize)]
struct JsonError<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    message: JsonMessage<'a>,
}

#[derive(Deserialize)]
struct JsonMessage<'a> {
    #[serde(borrow)]
    value: Cow<'a, str>,
}

impl ErrorResponse {
    /// Parses an error body. Returns `None` if it is in none of the service's formats.
    pub fn read(body: &[u8]) -> Option<Self> {
        let body = body.trim_ascii();
        if body.starts_with(b"{") {
            let JsonBody { error } = serde_json::from_slice(body).ok()?;
            return Some(Self::new(&error.code, &error.message.value));
        }
        let root = Element::parse(body).ok()?;
        let text = |name: &str| {
            let named = |child: &&Element| child.name.rsplit(':').next().unwrap_or_default().eq_ignore_ascii_case(name);
            root.children.iter().find(named).map(|child| child.text.trim())
        };
        Some(Self::new(text("code")?, text("message").unwrap_or_default()))
    }

    fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.lines().next().unwrap_or_default().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{
        ErrorBodyFormat, ErrorCode, ErrorOrigin, ServiceError, write_cosmos_error_body, write_error_body,
    };
    use model::DateTime;

    #[test]
    fn every_form_of_an_error_is_read() {
        let error = ServiceError::new(ErrorCode::TableNotFound, "No \"such\" <table> & co.");
        let expected =
            Some(ErrorResponse { code: "TableNotFound".to_owned(), message: error.message.clone().into_owned() });
        let origin = ErrorOrigin { request_id: "id", client_request_id: None, now: DateTime::MIN };
        let forms = [
            ErrorBodyFormat::Json,
            ErrorBodyFormat::ODataXml,
            ErrorBodyFormat::FirstODataXml,
            ErrorBodyFormat::MarkedODataXml,
            ErrorBodyFormat::PrefixedXml,
        ];
        for form in forms {
            assert_eq!(ErrorResponse::read(&write_error_body(form, &error, &origin)), expected, "{form:?}");
        }
        assert_eq!(ErrorResponse::read(&write_cosmos_error_body(&error, &origin)), expected);
        let storage = "\u{FEFF}<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>Busy.\nRequestId:1</Message></Error>";
        assert_eq!(ErrorResponse::read(storage.as_bytes()).unwrap().message, "Busy.");
        for other in ["", "{}", "<html></html>", "oops"] {
            assert_eq!(ErrorResponse::read(other.as_bytes()), None, "{other}");
        }
    }
}
