//! The wire protocol of the Table service as pure functions that convert bytes to the model and back.
//!
//! The server and the client share this crate.
//!
//! This crate must not depend on sockets, HTTP libraries, storage or configuration.

pub mod batch;
mod cosmos;
mod encoding;
mod entities;
pub mod error;
mod error_code;
pub mod error_response;
pub mod filter;
pub mod header_names;
pub mod reason;
mod request;
pub mod sas;
mod service;
pub mod signing;

pub use encoding::{number, uri, xml};
pub use entities::{atom, defect, entity_body, json, payload, size};
pub use request::{continuation, negotiation, query, select, target, version};
pub use service::{acl, service_properties, service_stats, table_indexes, table_retention};

pub use error::{ErrorBodyFormat, ErrorCode, ServiceError};
pub use negotiation::{Format, MetadataLevel};
pub use query::QueryOptions;
pub use request::headers::Headers;
pub use select::Select;
pub use target::{Resource, Target};
pub use version::Version;
