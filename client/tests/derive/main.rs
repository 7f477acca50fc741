//! The derive macro for entity types: what it accepts, and what the generated code does.
#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fields;
mod filters;
mod keys;
mod values;
