//! Snapshots of a data folder: where they come from, and the stream in which they are sent.
//!
//! This module must not know how backups are stored.

mod check;
mod control_socket;
mod frames;
mod source;

pub(crate) use check::{SnapshotCheck, check_snapshot};
pub use control_socket::ControlSocket;
pub(super) use frames::{Frame, FrameReader, SnapshotTotals};
pub(super) use source::{IncomingSnapshot, open_snapshot};
