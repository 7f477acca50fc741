//! What the process asks of the system: open files, memory, and a word to the service manager.

pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod open_files;
