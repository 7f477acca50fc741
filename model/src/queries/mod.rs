//! Queries: filters, their evaluation, and the key ranges that contain every match.
//!
//! This folder must not know mutations or credentials.

pub mod filter;
pub mod plan;
