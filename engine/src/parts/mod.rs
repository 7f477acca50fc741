//! What engines are made of: pages, indexes, the catalog, service properties, stamps, the turns of background work, and
//! the stored form of small values.
//!
//! Only crates that implement an engine use this module, and the server for the rows of its change feed and for its own
//! background work. It must not depend on any engine, on snapshots or on checks.

pub mod cancellation;
pub mod catalog;
pub mod index;
pub mod monotonic;
pub mod page;
pub mod policies_value;
pub mod properties;
pub mod properties_value;
pub mod settings_value;
pub mod stamp;
pub mod turns;
