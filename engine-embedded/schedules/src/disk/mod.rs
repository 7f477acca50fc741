//! The engine's folder of the same name: its modules that threads share, and models of those that access files.

pub(crate) mod checks;
#[path = "../../../src/disk/confirmations.rs"]
pub(crate) mod confirmations;
pub(crate) mod contents;
pub(crate) mod folder;
#[path = "../../../src/disk/guard.rs"]
pub(crate) mod guard;
#[path = "../../../src/disk/layout.rs"]
pub(crate) mod layout;
#[path = "../../../src/disk/open_error.rs"]
#[allow(unreachable_pub, reason = "the engine exports it")]
pub(crate) mod open_error;
#[path = "../../../src/disk/payload.rs"]
pub(crate) mod payload;
#[path = "../../../src/disk/space.rs"]
pub(crate) mod space;
#[path = "../../../src/disk/storage.rs"]
pub(crate) mod storage;
#[path = "../../../src/disk/storage_error.rs"]
#[allow(unreachable_pub, reason = "the engine exports it")]
pub(crate) mod storage_error;
