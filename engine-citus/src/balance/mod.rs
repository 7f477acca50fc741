//! Balances the load of a Citus cluster: decides which shards should be moved or split, and has Citus do it.
//!
//! Each server publishes what it measured every few seconds. The sum over all servers is the load of the cluster.

pub(crate) mod average;
pub(crate) mod balancer;
pub(crate) mod cluster;
pub(crate) mod plan;
pub(crate) mod publishing;
pub(crate) mod report;
pub(crate) mod stalled;
