//! Replaces the settings of the library, of which the model has none.

use super::error::TreeError;
use super::library::{Config, SequenceNumberCounter};
use crate::hardware::Hardware;
use std::path::Path;

#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeSettings {
    pub(crate) cache_bytes: u64,
}

pub(super) fn exists(_: &Path) -> Result<bool, TreeError> {
    Ok(Hardware::current().has_tree())
}

pub(super) fn config(
    path: &Path,
    _: TreeSettings,
    lists: &SequenceNumberCounter,
    after_lists: &SequenceNumberCounter,
) -> Config {
    Config { path: path.to_owned(), lists: lists.clone(), after_lists: after_lists.clone() }
}
