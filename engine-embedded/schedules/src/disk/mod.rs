//! The engine's folder of the same name: its modules that threads share, and models of those that access files.

pub(crate) mod folder;
#[path = "../../../src/disk/guard.rs"]
pub(crate) mod guard;
#[path = "../../../src/disk/layout.rs"]
pub(crate) mod layout;
#[path = "../../../src/disk/open_error.rs"]
#[allow(unreachable_pub, reason = "the engine exports it")]
pub(crate) mod open_error;
pub(crate) mod preflight;
#[path = "../../../src/disk/space.rs"]
pub(crate) mod space;
pub(crate) mod storage;
#[path = "../../../src/disk/visibility.rs"]
pub(crate) mod visibility;
