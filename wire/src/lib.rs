//! The wire protocol of the Table service as pure functions that convert bytes to the model and back.
//!
//! The server and the client share this crate.
//!
//! This crate must not depend on sockets, HTTP libraries, storage or configuration.

pub mod acl;
pub mod atom;
pub mod batch;
mod binary;
pub mod continuation;
pub mod entity_body;
pub mod error;
pub mod error_response;
pub mod filter;
mod headers;
pub mod json;
mod json_string;
pub mod negotiation;
pub mod number;
pub mod payload;
pub mod query;
mod response_context;
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
pub use headers::Headers;
pub use negotiation::{Format, MetadataLevel};
pub use query::QueryOptions;
pub use select::Select;
pub use target::{Resource, Target};
pub use version::Version;
