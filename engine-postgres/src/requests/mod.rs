//! What the engine does with the database: requests, and the background tasks for leases, deleted tables and indexes.

pub(crate) mod catalog;
pub(crate) mod commit;
pub(crate) mod index_entries;
pub(crate) mod index_scan;
pub(crate) mod indexing;
pub(crate) mod leases;
pub(crate) mod properties;
pub(crate) mod purge;
pub(crate) mod scan;
pub(crate) mod scan_part;
pub(crate) mod settling;
