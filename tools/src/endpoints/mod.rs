//! Places that hold tables: data folders, databases and services alike, and what commands share that read and write them.
//!
//! `location.rs` reads what names a place, `open.rs` opens it, and `place.rs` is what commands see of it.
//! This module must not know which command works on a place.

mod compare;
mod each;
mod location;
mod open;
mod place;
mod progress;
mod selection;
mod state_file;
mod transactions;

pub(crate) use compare::difference;
pub(crate) use each::{TABLES_AT_ONCE, each};
pub(crate) use location::{End, Location};
pub(crate) use open::{account, location, one_account, open};
#[cfg(test)]
pub(crate) use place::EnginePlace;
pub(crate) use place::{Answer, Place, Written, kept, read_filter};
pub(crate) use progress::{Progress, grouped, note};
pub(crate) use selection::{TableSelection, is_forbidden};
pub(crate) use state_file::{StateFile, read_state, remove_file, state_path};
pub(crate) use transactions::transactions;
