//! The wire protocol of the Table service: bytes to model and back, as pure functions.
//!
//! Server and client share this crate. It knows request targets, query options, filter text, JSON,
//! Atom, batches, continuation tokens, signatures, user delegation keys, policies, service properties, versions, media types, error codes and
//! their bodies.
//!
//! It must not know sockets, HTTP libraries, storage or configuration.

pub mod acl;
pub mod atom;
pub mod batch;
mod binary;
pub mod continuation;
pub mod entity_body;
pub mod error;
pub mod error_response;
pub mod filter;
pub mod json;
mod json_string;
pub mod negotiation;
pub mod number;
pub mod payload;
pub mod query;
pub mod sas;
pub mod select;
pub mod service_properties;
pub mod service_stats;
pub mod signing;
pub mod size;
pub mod target;
pub mod uri;
pub mod version;
pub mod xml;

pub use error::{ErrorBodyFormat, ErrorCode, ServiceError};
pub use negotiation::{Format, MetadataLevel};
pub use query::QueryOptions;
pub use select::Select;
pub use target::{Resource, Target};
pub use version::Version;
