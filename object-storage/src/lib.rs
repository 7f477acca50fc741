//! Objects in S3-compatible storage and in Azure Blob storage, with blocking functions for commands.
//!
//! Invariants:
//!
//! 1. Credentials come from the environment, and appear in no error.
//! 2. Requests are sent by `http-client`, within its limits on time and size, and repeated for a bounded time.
//! 3. An object is either written completely or not at all.
//!
//! This crate must not know what the objects contain.

mod address;
mod error;
mod http_service;
mod settings;
mod storage;

pub use address::{MalformedAddress, StorageAddress, is_address};
pub use error::StorageError;
pub use storage::{ListedObject, ObjectStorage};
