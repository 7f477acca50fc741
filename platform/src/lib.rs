//! Differences between operating systems, behind one interface.
//!
//! `unix/` and `windows/` have the same modules with the same functions, and one of them is compiled. No other crate
//! contains system-specific code. The documentation of each function states what happens on systems that lack a
//! feature; no function pretends to succeed.
//!
//! | module | job |
//! |---|---|
//! | `files` | private files, folder synchronization, links, file identity |
//! | `folder` | access to files by name in an open folder, without following links |
//! | `local_socket` | connections between processes that may read the same folder |
//! | `process` | limits and resource usage of this process |
//! | `service_manager` | notifications to the service manager |
//! | `signals` | requests to stop and to reload files |
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
