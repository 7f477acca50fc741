//! Keys: their order, and ranges of keys.
//!
//! This folder must not know the other properties of an entity.

pub mod key;
pub mod prefix;
pub mod range;
