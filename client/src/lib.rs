//! A client of the Table protocol, as small as copying between services allows.
//!
//! [`TableService`] speaks for one account: tables, pages of entities, transactions of upserts, stored access policies
//! and service properties, over connections that are kept alive.
//!
//! Invariants:
//!
//! 1. Every operation may be repeated without harm, so it is, with growing pauses, whenever the service is busy or the
//!    connection breaks; how often is bounded.
//! 2. An answer never takes more memory than its bound in [`limits`].
//! 3. Keys and signatures appear in no error and no `Debug` output.
//!
//! This crate must not know storage, configuration or the command line.

mod connection_string;
mod credential;
mod endpoint;
mod error;
pub mod limits;
mod request;
mod retry;
mod service;
mod transport;

pub use connection_string::ConnectionString;
pub use credential::Credential;
pub use endpoint::{Endpoint, EndpointError};
pub use error::Error;
pub use service::{Continuation, Entity, Page, TableService};

/// The name of the well-known development account (07 §12).
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The key of the well-known development account. It is public and protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Where the development account is served unless it is told otherwise.
pub const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";
