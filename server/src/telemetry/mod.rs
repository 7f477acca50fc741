//! The log, metrics, analytics and traces: everything that operators and account owners can observe about requests.
//!
//! All of them are derived from one [`summary::RequestSummary`] per request. Counting needs no lock and no allocation,
//! and the number of labels is bounded, so observing a server hardly slows its requests. This folder must not know what
//! an operation does.

pub(crate) mod access_log;
pub(crate) mod analytics;
pub(crate) mod failure_log;
pub(crate) mod metrics;
pub(crate) mod summary;
pub(crate) mod traces;
pub(crate) mod version;
