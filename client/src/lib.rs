//! A client of the Table protocol, as small as the commands of Rowhouse allow.
//!
//! [`TableService`] speaks for one account: tables, entities, pages of them, transactions, stored access policies and
//! service properties, over connections that are kept alive.
//!
//! Invariants:
//!
//! 1. An operation that may be repeated without harm is, with growing pauses, whenever the service is busy or the
//!    connection breaks; how often is bounded. One that could find its own earlier attempt is repeated only when the
//!    service said that it did nothing.
//! 2. An answer never takes more memory than its bound in [`limits`].
//! 3. Keys and signatures appear in no error and no `Debug` output.
//!
//! This crate must not know storage, configuration or the command line.

mod connection_string;
mod credential;
mod development;
mod endpoint;
mod entities;
mod error;
pub mod limits;
mod request;
mod retry;
mod service;
mod transport;

pub use connection_string::ConnectionString;
pub use credential::Credential;
pub use development::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
pub use endpoint::{Endpoint, EndpointError};
pub use entities::{Continuation, Entity, Page, Query, WriteMode};
pub use error::Error;
pub use service::TableService;
