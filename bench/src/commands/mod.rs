//! The commands that measure several servers, and the reference server.

pub(crate) mod compare;
pub(crate) mod curve;
pub(crate) mod floor;
