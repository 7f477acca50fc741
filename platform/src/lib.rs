//! What differs between operating systems, behind one interface.
//!
//! `unix/` and `windows/` have the same modules with the same functions, and one of the two is compiled. No other crate has code
//! for one system alone. What a system does not have is absent in the way that its function describes; nothing pretends.
//!
//! | module | job |
//! |---|---|
//! | `files` | files for their owner alone, folders that are synced, links, which file a path means |
//! | `folder` | files reached by their names in an open folder, without following links |
//! | `local_socket` | connections between processes that may read one folder |
//! | `process` | limits and figures of this process |
//! | `service_manager` | what the service manager is told |
//! | `signals` | requests to stop, and to read files again |
//!
//! This crate must not know anything of Rowhouse: what the files hold, what is sent, and what the log says about it.

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
