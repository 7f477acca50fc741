//! The process and its operating system: open files, memory, standard input, and the service manager.
//!
//! Code in this folder must not depend on requests or data.

pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod open_files;
pub(crate) mod standard_input;
