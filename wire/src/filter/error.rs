//! The reasons for which a filter is rejected.

use super::syntax::SyntaxError;
use crate::error::{ErrorCode, ServiceError};
use crate::reason::{Reason, ReasonKind};
use std::borrow::Cow;
use std::fmt;

/// The error code of a rejected filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterErrorCode {
    /// The expression is malformed or combines incompatible types.
    InvalidInput,
    /// The expression is well-formed but uses features that the service does not support.
    NotImplemented,
}

/// The reason why a filter is rejected. Two errors are equal if the service's responses are.
#[derive(Debug, Clone)]
pub struct FilterError {
    /// The error code.
    pub code: FilterErrorCode,
    /// The message for the client (04 §7).
    pub message: Cow<'static, str>,
    /// Why, if more is known than the message tells.
    pub(crate) reason: Option<Box<Reason>>,
}

impl PartialEq for FilterError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message) == (other.code, &other.message)
    }
}

impl Eq for FilterError {}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FilterError {}

impl From<FilterError> for ServiceError {
    fn from(error: FilterError) -> Self {
        let code = match error.code {
            FilterErrorCode::InvalidInput => ErrorCode::InvalidInput,
            FilterErrorCode::NotImplemented => ErrorCode::NotImplemented,
        };
        Self { reason: error.reason, ..Self::new(code, error.message) }
    }
}

impl From<SyntaxError> for FilterError {
    fn from(error: SyntaxError) -> Self {
        let reason = ReasonKind::FilterSyntax.because(error.hint);
        let reason = if error.rest.is_empty() { reason } else { reason.quoting(&error.rest) };
        Self::new(error.message).because(reason)
    }
}

impl FilterError {
    pub(super) fn invalid_input() -> Self {
        Self::new(ErrorCode::InvalidInput.message())
    }

    pub(super) fn not_implemented() -> Self {
        let message = Cow::Borrowed(ErrorCode::NotImplemented.message());
        Self { code: FilterErrorCode::NotImplemented, message, reason: None }
    }

    /// Creates an error with the code for invalid input.
    pub(super) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: FilterErrorCode::InvalidInput, message: message.into(), reason: None }
    }

    /// Adds the reason.
    pub(super) fn because(self, reason: Reason) -> Self {
        Self { reason: Some(Box::new(reason)), ..self }
    }
}
