//! Connections: accepted and bounded in number (`listener.rs`), encrypted (`tls.rs`), and ended when they are idle
//! (`idle_timeout.rs`) or do not read their responses (`slow_reader.rs`).
//!
//! This folder hands requests to the service and must not know what is in them.

pub(crate) mod idle_timeout;
pub(crate) mod listener;
pub(crate) mod slow_reader;
pub(crate) mod tls;
