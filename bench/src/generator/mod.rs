//! The load generator: connections that send the requests of a workload, and the totals of their responses.
//!
//! Code in this folder must not depend on which server receives the requests or on how results are shown.

mod connection;
pub(crate) mod load;
pub(crate) mod request;
pub(crate) mod workload;
