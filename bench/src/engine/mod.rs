//! Uses the embedded engine directly: measures it as a reference for the server, and fills data folders.

pub(crate) mod filling;
pub(crate) mod raw;
