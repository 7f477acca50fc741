//! What a request states outside its body: the target, query options and headers, with versions and formats.
//!
//! This folder must not know bodies or credentials.

pub mod continuation;
pub(crate) mod headers;
pub mod negotiation;
pub mod query;
pub mod select;
pub mod target;
pub mod version;
