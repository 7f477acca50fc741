//! Differences between operating systems, behind one interface.
//!
//! `unix/` and `windows/` have the same modules with the same functions, and only one of them is compiled. No other
//! crate contains system-specific code. The documentation of each function states what happens on systems that lack a
//! feature; no function pretends to succeed.
//!
//! This crate must not depend on anything specific to Rowhouse, such as the contents of files, the data sent over
//! connections, or log messages.

mod access;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use access::{Access, OpenFilesLimit};
#[cfg(unix)]
pub use unix::{files, folder, local_socket, process, service_manager, signals};
#[cfg(windows)]
pub use windows::{files, folder, local_socket, process, service_manager, signals};
