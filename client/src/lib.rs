//! A client library for the Table protocol.
//!
//! [`TableService`] is the client of one account: tables, entities, pages of entities, transactions, stored access policies
//! and service properties, over connections that are kept alive.
//!
//! Invariants:
//!
//! 1. An idempotent operation is retried with growing pauses when the service is busy or the connection breaks, a bounded
//!    number of times. An operation that is not idempotent is retried only if the service said that it did nothing.
//! 2. A response never takes more memory than its limit in [`limits`].
//! 3. Keys and signatures appear in no error and no `Debug` output.
//!
//! [`http`] is the HTTP client below it, which the server uses for its own requests as well.
//!
//! This crate must not know storage, configuration or the command line.

mod connection_string;
mod credential;
mod development;
mod endpoint;
mod entities;
pub mod entity;
mod error;
pub mod filter;
pub mod http;
pub mod limits;
mod request;
mod retry;
mod service;

pub use connection_string::ConnectionString;
pub use credential::Credential;
pub use development::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
pub use endpoint::{Endpoint, EndpointError};
pub use entities::{Continuation, Entity, Page, Query, WriteMode};
pub use error::Error;
pub use service::TableService;
