//! Connections to the nodes of the database: settings, TLS, pools, statements on a connection, and which failures are
//! retried.
//!
//! This folder must not know what the engine stores.

pub(crate) mod attempt;
pub(crate) mod counts;
pub(crate) mod dialect;
pub(crate) mod login;
pub(crate) mod node;
pub(crate) mod open_error;
pub(crate) mod pool;
pub(crate) mod replication;
pub(crate) mod routes;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod tls;
