//! The load generator: connections that send the requests of a workload, and the totals of their responses.
//!
//! Code in this folder must not depend on which server receives the requests or on how results are shown.

mod batch;
mod connection;
pub(crate) mod endpoint;
mod latencies;
pub(crate) mod load;
mod pace;
pub(crate) mod reach;
pub(crate) mod request;
pub(crate) mod workload;
