//! Measures which partitions of a Citus cluster cause how much work.

pub(crate) mod hottest;
pub(crate) mod load;
pub(crate) mod meter;
