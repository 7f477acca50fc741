//! The data folder: its owner and format, the keys and values in it, the payloads of the log, and the open database of
//! a log and a tree.
//!
//! This folder must not know what is read or written by requests.

pub(crate) mod confirmations;
pub(crate) mod folder;
pub(crate) mod guard;
pub(crate) mod layout;
pub(crate) mod lineage;
pub(crate) mod manifest;
pub(crate) mod open_error;
pub(crate) mod opening;
pub(crate) mod payload;
pub(crate) mod space;
pub(crate) mod storage;
pub(crate) mod storage_error;
