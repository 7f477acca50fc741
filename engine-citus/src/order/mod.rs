//! The order in which the changes of a Citus cluster's nodes enter the change log.

pub(crate) mod choice;
pub(crate) mod citus_order;
pub(crate) mod placements;
