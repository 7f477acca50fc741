//! Pages and snapshots: scans take turns, and a long scan is continued later.

pub(crate) mod running_page;
pub(crate) mod scans;
pub(crate) mod snapshot;
