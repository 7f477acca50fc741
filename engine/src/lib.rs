//! The contract between the service and its storage, and the engine that keeps entities in memory.
//!
//! An engine stores tables of entities durably and in order. [`model::Mutation::apply`] determines the effect of a
//! mutation; an engine only provides an atomic, durable read-modify-write around it. Each engine that stores its data
//! elsewhere than in memory is a separate crate. The contract suite in the crate `engine-contract` runs on every
//! engine.
//!
//! This crate must not depend on HTTP, JSON or authorization, or on a storage library.

pub mod changes;
pub mod check;
pub mod contract;
pub mod figures;
pub mod load;
mod load_monitor;
pub mod memory;
pub mod parts;
pub mod snapshot;

pub use changes::{
    Change, ChangeEffect, ChangeLog, ChangePage, ChangeSelection, ChangedTransaction, ChangesError, ChangesFuture,
    KeepChanges, KeptChanges,
};
pub use check::{CheckReport, CheckedTable, Problem, check_snapshot};
pub use contract::{
    BoxFuture, BoxedSink, CatalogError, CommitError, Engine, EngineExt, EntitySink, Fault, IndexState, Order,
    ReadError, Scan, ScanEnd, SinkDecision, TableKey, TablePage, TablePages, TableQuery,
};
pub use figures::Figures;
pub use load::LoadReport;
pub use load_monitor::LoadMonitor;
pub use memory::{Memory, MemoryCheckpoint, MemoryCheckpoints, RestoredMemory};
pub use snapshot::{EntityVisitor, Restore, Snapshot, SnapshotContents, SnapshotError, SnapshotTable, Snapshots};
