//! Conformance cases that use the Rust client, against any endpoint of the Table service.

mod documents;
mod entities;
mod queries;
mod signatures;
mod tables;
mod target;
mod transactions;
