//! Connections. They are accepted (`listener.rs`), encrypted (`tls.rs`), and rejected if they should be encrypted but
//! are not (`plain_http.rs`). They are closed when they are idle (`idle_timeout.rs`) or make no progress (`watch.rs`,
//! `slow_reader.rs`). After a refusal, a connection stays open until the client has read the response
//! (`lingering.rs`).
//!
//! This folder passes requests to the service and must not know what they contain.

pub(crate) mod idle_timeout;
pub(crate) mod lingering;
pub(crate) mod listener;
mod plain_http;
pub(crate) mod slow_reader;
pub(crate) mod tls;
pub(crate) mod watch;
