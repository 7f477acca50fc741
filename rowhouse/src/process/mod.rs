//! The process and its operating system: open files, memory, and the service manager.
//!
//! This folder must not know requests or data.

pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod open_files;
