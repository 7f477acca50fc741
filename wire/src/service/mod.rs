//! The XML bodies of operations on a service or a table: stored access policies, service properties, statistics.
//!
//! This folder must not know entities.

pub mod acl;
pub mod service_properties;
pub mod service_stats;
