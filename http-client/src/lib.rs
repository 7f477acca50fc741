//! The HTTP client of Rowhouse: for the client library, for the commands, and for requests of the server to other
//! services. It uses HTTPS or plain HTTP, with limits on time and size.
//!
//! Invariants:
//!
//! 1. A request never takes longer than its timeout, including the body of the response.
//! 2. The body of a response never takes more memory than its limit.
//! 3. The client follows no redirects and stores no cookies. It uses proxies only if it is given any.
//! 4. Errors never show the address or the headers of a request, because they may contain a credential.
//!
//! This crate must not know the Table protocol.

mod address;
mod cause;
mod client;
mod connector;
mod error;
pub mod limits;
mod proxy;
mod redaction;
mod tls_config;
mod tls_failure;

pub use address::{bare_host, is_loopback, may_carry_token};
pub use client::{HttpClient, HttpOptions, HttpResponse};
pub use error::{HttpError, is_permanent};
pub use proxy::{MalformedProxy, Proxies};
pub use redaction::without_credentials;
pub use tls_config::{system_roots, tls_config};

#[cfg(test)]
mod tests;
