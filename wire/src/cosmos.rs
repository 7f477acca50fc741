//! The codes and messages that Azure Cosmos DB for Table has for the errors of this crate (specification 11 §5).
//!
//! This module must not depend on which error a request causes.

use crate::error::{ErrorCode, ServiceError};
use crate::reason::ReasonKind;
use model::Dialect;
use std::borrow::Cow;

/// The message for a URL, a filter or an option that cannot be read.
const URL_INVALID: &str = "Request url is invalid.";
/// The message for a body whose values are not allowed.
const VALUE_INVALID: &str = "One of the input values is invalid.";
/// The messages of page 06 for entities beyond the limits, with the limits of this service (11 §6).
const ENTITY_TOO_LARGE: &str = "The entity is larger than the maximum allowed size (2MB).";
const NAME_TOO_LONG: &str = "The property name exceeds the maximum allowed length (1024).";
const TOO_MANY_PROPERTIES: &str = "The entity contains more properties than allowed. Each entity can include up to 255 properties to store data. Each entity also has 3 system properties.";

impl ServiceError {
    /// Returns the error with the code and the message that a dialect has for it (11 §5).
    ///
    /// UNVERIFIED (11 §5): all codes that no recording shows; they keep the message of page 06.
    #[must_use]
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        if dialect == Dialect::Storage {
            return self;
        }
        let reason = self.reason().map(Cow::into_owned);
        let kind = reason.as_ref().map(|reason| reason.kind);
        let (code, message) = match self.code {
            ErrorCode::TableNotFound => (ErrorCode::ResourceNotFound, ErrorCode::ResourceNotFound.message()),
            ErrorCode::TableAlreadyExists => (self.code, "The specified table already exists."),
            ErrorCode::EntityTooLarge => (self.code, ENTITY_TOO_LARGE),
            ErrorCode::PropertyNameTooLong => (self.code, NAME_TOO_LONG),
            ErrorCode::TooManyProperties => (self.code, TOO_MANY_PROPERTIES),
            ErrorCode::PropertiesNeedValue => (self.code, "PartitionKey/RowKey cannot be empty"),
            ErrorCode::NotImplemented if kind == Some(ReasonKind::PathBelowTable) => {
                (ErrorCode::InvalidInput, URL_INVALID)
            }
            ErrorCode::NotImplemented if self.message == self.code.message() => {
                (self.code, "The requested operation is not supported.")
            }
            ErrorCode::InvalidInput if kind.is_some_and(is_of_url) => (self.code, URL_INVALID),
            ErrorCode::InvalidInput if kind.is_some_and(is_of_values) => (self.code, VALUE_INVALID),
            _ => return self,
        };
        Self { code, message: message.into(), reason: reason.map(Box::new) }
    }
}

fn is_of_url(kind: ReasonKind) -> bool {
    matches!(
        kind,
        ReasonKind::FilterSyntax
            | ReasonKind::FilterLiteral
            | ReasonKind::FilterTypes
            | ReasonKind::FilterTooLarge
            | ReasonKind::FilterProperty
            | ReasonKind::SelectInvalid
            | ReasonKind::OptionRepeated
            | ReasonKind::OptionEncoding
            | ReasonKind::TopInvalid
            | ReasonKind::SkipInvalid
            | ReasonKind::OrderByUnsupported
            | ReasonKind::CountInvalid
            | ReasonKind::ContinuationInvalid
            | ReasonKind::UrlMalformed
            | ReasonKind::UrlKeys
            | ReasonKind::BatchPartUrl
    )
}

fn is_of_values(kind: ReasonKind) -> bool {
    matches!(
        kind,
        ReasonKind::BodyMalformed
            | ReasonKind::PropertyType
            | ReasonKind::PropertyValue
            | ReasonKind::KeyInvalid
            | ReasonKind::KeysDiffer
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_messages() {
        let wrong = |code, kind: ReasonKind| ServiceError::from(code).because(kind.because(""));
        let named = ServiceError::new(ErrorCode::NotImplemented, "Not even this.");
        for (error, code, message) in [
            (ErrorCode::TableNotFound.into(), ErrorCode::ResourceNotFound, "The specified resource does not exist."),
            (wrong(ErrorCode::InvalidInput, ReasonKind::FilterSyntax), ErrorCode::InvalidInput, URL_INVALID),
            (wrong(ErrorCode::InvalidInput, ReasonKind::KeysDiffer), ErrorCode::InvalidInput, VALUE_INVALID),
            (wrong(ErrorCode::NotImplemented, ReasonKind::PathBelowTable), ErrorCode::InvalidInput, URL_INVALID),
            (named, ErrorCode::NotImplemented, "Not even this."),
            (ErrorCode::EntityTooLarge.into(), ErrorCode::EntityTooLarge, ENTITY_TOO_LARGE),
            (ErrorCode::OutOfRangeInput.into(), ErrorCode::OutOfRangeInput, ErrorCode::OutOfRangeInput.message()),
        ] {
            let kind = error.reason().map(|reason| reason.kind);
            assert_eq!(error.clone().in_dialect(Dialect::Storage), error);
            let told = error.in_dialect(Dialect::Cosmos);
            assert_eq!((told.code, &*told.message), (code, message));
            assert_eq!(told.reason().map(|reason| reason.kind), kind);
        }
    }
}
