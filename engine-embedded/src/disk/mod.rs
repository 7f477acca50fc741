//! The data folder: its ownership, journals and format, the open database, and the checks before it is opened.
//!
//! This folder must not know what is read or written by requests.

pub(crate) mod closing;
pub(crate) mod folder;
pub(crate) mod guard;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod open_error;
pub(crate) mod preflight;
pub(crate) mod space;
pub(crate) mod storage;
pub(crate) mod visibility;
