//! Connections: accepted (`listener.rs`), encrypted (`tls.rs`), refused if they should be and are not (`plain_http.rs`), and
//! ended when they are idle (`idle_timeout.rs`) or do not go on (`watch.rs`, `slow_reader.rs`).
//!
//! This folder hands requests to the service and must not know what is in them.

pub(crate) mod idle_timeout;
pub(crate) mod listener;
mod plain_http;
pub(crate) mod slow_reader;
pub(crate) mod tls;
pub(crate) mod watch;
