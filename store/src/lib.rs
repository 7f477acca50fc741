//! The engine contract and the engines that implement it.
//!
//! An engine stores tables of entities durably and in order. [`model::Mutation::apply`] determines the effect of a
//! mutation; an engine only provides an atomic, durable read-modify-write around it. The contract suite in
//! `tests/it/contract` runs on every engine.
//!
//! This crate must not depend on HTTP, JSON or authorization.

mod cancellation;
mod catalog;
mod check;
pub mod embedded;
pub mod engine;
pub mod figures;
pub mod memory;
mod monotonic;
mod page;
mod policies_value;
pub mod postgres;
mod properties;
mod properties_value;
pub mod snapshot;
mod stamp;
mod table_pages;

pub use check::{CheckReport, CheckedTable, Problem, check_snapshot};
pub use embedded::{Durability, Embedded, EmbeddedOptions, OpenError, RestoredFolder, check_folder};
pub use engine::{
    CatalogError, CommitError, Engine, EntitySink, Fault, ReadError, Scan, ScanEnd, SinkDecision, TableKey,
};
pub use figures::Figures;
pub use memory::{Memory, MemoryCheckpoint, MemoryCheckpoints, RestoredMemory};
pub use postgres::{Postgres, PostgresOptions};
pub use snapshot::{EntityVisitor, Restore, Snapshot, SnapshotContents, SnapshotError, SnapshotTable, Snapshots};
pub use table_pages::TablePages;
