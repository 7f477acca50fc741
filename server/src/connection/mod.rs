//! Connections: accepting, encrypting, watching and closing them.
//!
//! This folder passes requests to the service and must not know what they contain.

pub(crate) mod handler;
pub(crate) mod idle_timeout;
pub(crate) mod lingering;
pub(crate) mod listener;
mod plain_http;
mod raw_query;
pub(crate) mod refusal;
pub(crate) mod slow_reader;
pub(crate) mod spelling;
pub(crate) mod tls;
pub(crate) mod watch;
