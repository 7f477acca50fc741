//! The XML bodies of operations on a service or a table: stored access policies, service properties, statistics, the
//! retention and the indexes of a table.
//!
//! This folder must not know entities.

pub mod acl;
pub mod service_properties;
pub mod service_stats;
pub mod table_indexes;
pub mod table_retention;
