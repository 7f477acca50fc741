//! Queries: filters, their evaluation, the key ranges that contain every match, and indexes.
//!
//! This folder must not know mutations or credentials.

pub mod filter;
pub mod index;
pub mod plan;
