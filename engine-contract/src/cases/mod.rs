//! The cases of the contract suite. A case is a function that gets an engine.

pub mod catalog;
pub mod changes;
pub mod closing;
pub mod figures;
pub mod indexes;
pub mod isolation;
pub mod mutations;
pub mod pages;
pub mod policies;
pub mod properties;
pub mod retention;
pub mod settings;
pub mod snapshots;
