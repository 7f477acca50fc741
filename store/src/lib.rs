//! The engine contract, and the engines that keep it.
//!
//! An engine keeps tables of entities durably and in order. What a mutation does is decided by
//! [`model::Mutation::apply`]; an engine only provides an atomic, durable read-modify-write around it.
//! The suite in `tests/it/contract` says what every engine must hold, and runs on each of them.
//!
//! This crate must not know HTTP, JSON or authorization.

mod cancellation;
mod catalog;
pub mod embedded;
pub mod engine;
pub mod figures;
pub mod memory;
mod page;
mod policies_value;
pub mod postgres;
mod properties;
mod properties_value;
pub mod snapshot;
mod stamp;
mod table_pages;

pub use embedded::{CheckReport, CheckedTable, Problem, check_folder};
pub use embedded::{Durability, Embedded, EmbeddedOptions, EmbeddedSnapshot, OpenError, RestoredFolder, Snapshots};
pub use engine::{CatalogError, CommitError, Engine, EntitySink, Fault, ReadError, Scan, ScanEnd, TableKey};
pub use figures::Figures;
pub use memory::Memory;
pub use postgres::{Postgres, PostgresOptions};
pub use snapshot::{SnapshotContents, SnapshotError, SnapshotTable};
pub use table_pages::TablePages;
