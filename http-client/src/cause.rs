//! Finds the root cause of an error.
//!
//! This module must not know which errors there are.

use std::error::Error as StdError;

/// Returns the root cause of an error. The intermediate errors only add the names of the libraries.
pub(crate) fn root_cause<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}
