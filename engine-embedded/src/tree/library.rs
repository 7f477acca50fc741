//! The names of the library that the writer, the flushes and the reads use.
//!
//! The package in `schedules/` compiles their modules with a model of the library in place of this file.

pub(super) use lsm_tree::{
    AbstractTree, AnyTree, Cache, Checksum, Config, Error, Guard, InternalValue, IterGuardImpl, Memtable,
    SequenceNumberCounter, Table, Tree, UserKey, UserValue, ValueType,
};
