//! The engine's folder of the same name, on a model of the disk.

#[path = "../../../src/log/archive.rs"]
pub(crate) mod archive;
#[path = "../../../src/log/disk.rs"]
pub(crate) mod disk;
#[path = "../../../src/log/errors.rs"]
pub(crate) mod errors;
#[path = "../../../src/log/format.rs"]
pub(crate) mod format;
#[path = "../../../src/log/group.rs"]
pub(crate) mod group;
#[path = "../../../src/log/holds.rs"]
pub(crate) mod holds;
#[path = "../../../src/log/inspection.rs"]
pub(crate) mod inspection;
#[path = "../../../src/log/options.rs"]
pub(crate) mod options;
pub(crate) mod real_disk;
#[path = "../../../src/log/recovery.rs"]
pub(crate) mod recovery;
#[path = "../../../src/log/segments.rs"]
pub(crate) mod segments;
#[path = "../../../src/log/upkeep.rs"]
pub(crate) mod upkeep;
#[path = "../../../src/log/writer.rs"]
pub(crate) mod writer;

#[path = "../../../src/log/judgement.rs"]
mod judgement;
#[path = "../../../src/log/reading.rs"]
mod reading;
#[path = "../../../src/log/tail.rs"]
mod tail;
