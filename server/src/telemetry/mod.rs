//! What operators and accounts get to know of requests: the log, metrics, analytics and traces.
//!
//! All of them are fed with one [`summary::RequestSummary`] a request. Counting takes no lock and no allocation, and labels are
//! bounded in number, so that watching a server costs its requests next to nothing. This folder must not know what an
//! operation does.

pub(crate) mod access_log;
pub(crate) mod analytics;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod summary;
pub(crate) mod traces;
pub(crate) mod version;
