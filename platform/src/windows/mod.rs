//! The implementation for Windows.

pub mod files;
pub mod folder;
pub mod local_socket;
pub mod process;
pub mod service_manager;
pub mod signals;
