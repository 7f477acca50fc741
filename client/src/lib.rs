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
pub use endpoint::{Endpoint, EndpointError};
pub use entities::{Continuation, Entity, Page, Query, WriteMode};
pub use error::Error;
pub use service::TableService;

/// The name of the well-known development account (07 §12).
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The key of the well-known development account. It is public and protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Where the development account is served unless it is told otherwise.
pub const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";
