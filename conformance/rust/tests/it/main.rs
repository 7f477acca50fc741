//! Conformance cases that use the Rust client, against any endpoint of the Table service.

mod documents;
mod entities;
mod queries;
mod service;
mod target;
mod transactions;
