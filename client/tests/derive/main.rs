//! The derive macro of entity types: what it accepts, what it refuses, and what its code does.
#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod enums;
mod fields;
mod filters;
mod keys;
mod refused;
mod values;
