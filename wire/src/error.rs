//! Errors for clients, and the formats of error bodies (specification 03 §6 and 06).
//!
//! This module must not depend on which error a request causes.

use crate::encoding::json_string::write_json_string;
pub use crate::error_code::ErrorCode;
use crate::reason::{Reason, ReasonKind};
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, FIRST_DECLARATION, escape};
use model::name::TableNameError;
use model::{DateTime, Dialect};
use std::borrow::Cow;

/// The message for a body that cannot be parsed (06 §4).
pub const MALFORMED_BODY: &str = "An error occurred while processing this request.";
/// The message for an entity URL that cannot be parsed (06 §4).
pub const MALFORMED_ADDRESS: &str = "Bad Request - Error in query syntax.";
/// Returns the message for a changeset of more operations than allowed (05 §5.2).
pub fn too_many_changes(operations_max: usize) -> String {
    format!("The batch request operation exceeds the maximum {operations_max} changes per change set.")
}

/// An error for the client: a code and a message. Two errors are equal if the service's responses are.
#[derive(Debug, Clone)]
pub struct ServiceError {
    /// The code, which determines the status.
    pub code: ErrorCode,
    /// The message without its `RequestId` and `Time` lines.
    pub message: Cow<'static, str>,
    /// Why, if more is known than the code tells.
    pub(crate) reason: Option<Box<Reason>>,
}

impl PartialEq for ServiceError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message) == (other.code, &other.message)
    }
}

impl Eq for ServiceError {}

impl ServiceError {
    /// Creates an error with the given message instead of the default message of its code.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), reason: None }
    }

    /// Adds the reason, unless the error has one: where the mistake is found, most is known about it.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        debug_assert!(reason.kind.codes().contains(&self.code), "{:?} is no reason for {:?}", reason.kind, self.code);
        let reason = self.reason.or_else(|| Some(Box::new(reason)));
        Self { reason, ..self }
    }

    /// Returns the reason that was found, or that the code alone tells.
    pub fn reason(&self) -> Option<Cow<'_, Reason>> {
        let by_code = || ReasonKind::of_code(self.code).map(|kind| Cow::Owned(kind.because("")));
        self.reason.as_deref().map(Cow::Borrowed).or_else(by_code)
    }

    /// Creates an `InvalidInput` error with the given message.
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidInput, message)
    }

    /// Creates the error for a body that cannot be parsed.
    pub fn malformed_body() -> Self {
        Self::invalid_input(MALFORMED_BODY)
    }

    /// Creates the error for a body without `Content-Type` (03 §1.3).
    pub fn content_type_missing() -> Self {
        Self::invalid_input("Content-Type header value missing.")
    }

    /// Returns the same error, attributed to the operation at the given index of a batch (05 §5.1, 11 §9).
    pub fn at_index(&self, index: usize, dialect: Dialect) -> Self {
        let reason = self.reason().map(|reason| Box::new(reason.into_owned().at_index(index)));
        let end = if dialect == Dialect::Cosmos { "\n" } else { "" };
        Self { reason, ..Self::new(self.code, format!("{index}:{}{end}", self.message)) }
    }

    /// Creates the error for an entity URL that cannot be parsed.
    pub fn malformed_address() -> Self {
        Self::invalid_input(MALFORMED_ADDRESS)
    }

    /// Creates an `OutOfRangeInput` error that quotes the name and value of an input (06 §2).
    pub fn out_of_range(name: &str, value: &str) -> Self {
        let message = format!("The '{name}' parameter of value '{value}' is out of range.");
        Self::new(ErrorCode::OutOfRangeInput, message)
    }
}

/// Maps the errors of 01 §2.
impl From<TableNameError> for ServiceError {
    fn from(error: TableNameError) -> Self {
        match error {
            TableNameError::Length => Self::new(
                ErrorCode::OutOfRangeInput,
                "The specified resource name length is not within the permissible limits.",
            ),
            TableNameError::Characters => ErrorCode::InvalidResourceName.into(),
            TableNameError::Reserved => ErrorCode::InvalidInput.into(),
        }
    }
}

impl From<ErrorCode> for ServiceError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }
}

/// The format of an error body (03 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorBodyFormat {
    /// `{"odata.error":…}`: the client reads JSON.
    Json,
    /// `<error xmlns=…>`: the client reads Atom, or no format could be resolved.
    ODataXml,
    /// The same in the first form (03 §5.5), indented.
    FirstODataXml,
    /// The same after a byte order mark: the format for errors of authentication in versions with the first form (07
    /// §10).
    MarkedODataXml,
    /// `<m:error xmlns:m=…>`: the format for errors of authentication and of other checks before the service.
    PrefixedXml,
}

/// The request and the time that an error body names.
#[derive(Debug, Clone, Copy)]
pub struct ErrorOrigin<'a> {
    /// The request ID.
    pub request_id: &'a str,
    /// The ID that the client gave the request, if any.
    pub client_request_id: Option<&'a str>,
    /// The time of the error.
    pub now: DateTime,
}

impl ErrorOrigin<'_> {
    fn lines(&self) -> String {
        let mut time = Vec::with_capacity(28);
        self.now.write_seven_digits_to(&mut time);
        format!("\nRequestId:{}\nTime:{}", self.request_id, String::from_utf8_lossy(&time))
    }

    /// UNVERIFIED (11 §5): the ID if the client gave none.
    fn cosmos_lines(&self, code: ErrorCode) -> String {
        let request = format!("\nRequestID:{}\n", self.client_request_id.unwrap_or(self.request_id));
        if is_of_cosmos_table(code) {
            return request;
        }
        let sdk = "documentdb-dotnet-sdk/2.11.0 Host/64-bit MicrosoftWindowsNT/6.2.9200.0";
        format!("\r\nActivityId: {}, {sdk}{request}", self.request_id)
    }
}

/// Returns true for the errors that the service finds in the table, whose messages name no activity (11 §5).
fn is_of_cosmos_table(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ResourceNotFound
            | ErrorCode::EntityAlreadyExists
            | ErrorCode::TableAlreadyExists
            | ErrorCode::UpdateConditionNotSatisfied
    )
}

/// Writes the error body of Azure Cosmos DB for Table (11 §5), which is always JSON.
pub fn write_cosmos_error_body(error: &ServiceError, origin: &ErrorOrigin<'_>) -> Vec<u8> {
    write_json_error(error, "en-us", &origin.cosmos_lines(error.code))
}

fn write_json_error(error: &ServiceError, language: &str, lines: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.message.len() + lines.len() + 120);
    out.extend_from_slice(b"{\"odata.error\":{\"code\":\"");
    out.extend_from_slice(error.code.as_str().as_bytes());
    out.extend_from_slice(b"\",\"message\":{\"lang\":\"");
    out.extend_from_slice(language.as_bytes());
    out.extend_from_slice(b"\",\"value\":");
    write_json_string(&mut out, &[&error.message, lines].concat());
    out.extend_from_slice(b"}}}");
    out
}

/// Writes an error body and appends the `RequestId` and `Time` lines to the message.
pub fn write_error_body(form: ErrorBodyFormat, error: &ServiceError, origin: &ErrorOrigin<'_>) -> Vec<u8> {
    let lines = origin.lines();
    let message = || escape(&[&error.message, &*lines].concat());
    let code = error.code.as_str();
    match form {
        ErrorBodyFormat::Json => write_json_error(error, "en-US", &lines),
        ErrorBodyFormat::ODataXml => format!(
            "{DECLARATION}<error xmlns=\"{METADATA_NAMESPACE}\"><code>{code}</code><message xml:lang=\"en-US\">{}</message></error>",
            message()
        )
        .into_bytes(),
        ErrorBodyFormat::FirstODataXml | ErrorBodyFormat::MarkedODataXml => format!(
            "{}{FIRST_DECLARATION}\r\n<error xmlns=\"{METADATA_NAMESPACE}\">\r\n  <code>{code}</code>\r\n  <message xml:lang=\"en-US\">{}</message>\r\n</error>",
            if form == ErrorBodyFormat::MarkedODataXml { BYTE_ORDER_MARK } else { "" },
            message()
        )
        .into_bytes(),
        ErrorBodyFormat::PrefixedXml => format!(
            "{DECLARATION}<m:error xmlns:m=\"{METADATA_NAMESPACE}\"><m:code>{code}</m:code><m:message xml:lang=\"en-US\">{}</m:message></m:error>",
            message()
        )
        .into_bytes(),
    }
}

const METADATA_NAMESPACE: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_error_status_and_a_message() {
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&code.status()), "{}", code.as_str());
            assert!(!code.message().is_empty(), "{}", code.as_str());
        }
    }
}
