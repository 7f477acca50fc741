//! Entities and tables in the bodies of requests and responses: in JSON and in Atom, and how large they can become.
//!
//! This folder must not know batches or credentials.

pub mod atom;
pub mod defect;
pub mod entity_body;
pub mod json;
pub mod payload;
pub(crate) mod response_context;
pub mod size;
