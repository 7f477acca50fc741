//! Snapshots of a data folder and its change log: where they come from, and the streams in which they are sent.
//!
//! This module must not know how backups are stored.

mod changes;
mod check;
mod control_socket;
mod frames;
mod source;

pub(crate) use check::{SnapshotCheck, check_snapshot};
pub use control_socket::ControlSocket;
pub(super) use control_socket::{NoServer, request_changes, request_server_snapshot};
pub(super) use frames::{Frame, FrameReader, SnapshotTotals};
pub(super) use source::{IncomingSnapshot, open_snapshot, require_data_folder};
