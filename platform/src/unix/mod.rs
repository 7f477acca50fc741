//! The systems of the Unix family. What only Linux has is found at run time, or says so.

pub mod files;
pub mod folder;
pub mod local_socket;
pub mod process;
pub mod service_manager;
pub mod signals;
