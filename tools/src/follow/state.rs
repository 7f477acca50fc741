//! The positions of the feeds, in a file.

use crate::state_file::{Command, Save, StateFile};
use anyhow::{Context, ensure};
use client::ChangePosition;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const COMMAND: Command = Command { name: "follow", format: 1, advice: "choose a different file with --state" };

/// Must not contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FollowedService {
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FollowProgress {
    /// All changes up to this position were acknowledged.
    position: String,
}

impl FollowProgress {
    pub(super) fn position(&self) -> anyhow::Result<ChangePosition> {
        ChangePosition::parse(&self.position).context("the state file contains a malformed position")
    }
}

pub(super) type FollowState = StateFile<FollowedService, FollowProgress>;

impl FollowState {
    /// Without a path, nothing is recorded.
    pub(super) fn open(path: Option<PathBuf>, service: &str) -> anyhow::Result<Self> {
        let shown = path.as_deref().map_or_else(String::new, |path| path.display().to_string());
        Self::read_or_new(COMMAND, path, FollowedService { service: service.to_owned() }, |known, given| {
            ensure!(
                known == given,
                "the state file {shown} belongs to {}, not to {}; choose a different file with --state, or, if \
                 the service has moved, change the address in the file",
                known.service,
                given.service
            );
            Ok(known)
        })
    }

    /// Records that all changes of a feed up to a position were acknowledged.
    pub(super) fn advance(&self, feed: &str, position: ChangePosition, save: Save) -> anyhow::Result<()> {
        let progress = FollowProgress { position: position.to_string() };
        if self.table(feed).as_ref() == Some(&progress) {
            return self.flush();
        }
        self.update(save, |_, feeds| {
            feeds.insert(feed.to_owned(), progress);
        })
    }
}
