//! The tables and the function in the database: their names, and their creation and upgrades.
//!
//! This folder must not know the requests of the engine.

pub(crate) mod function;
pub(crate) mod migration;
pub(crate) mod names;
pub(crate) mod opening;
