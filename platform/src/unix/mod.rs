//! Unix systems. Features that only Linux has are detected at run time, or their documentation states the restriction.

pub mod files;
pub mod folder;
pub mod local_socket;
pub mod process;
pub mod service_manager;
pub mod signals;
